"""Node selectors and node affinity.

    admits(pod, node)                       # node selector and required affinity
    selected(volume.spec["nodeAffinity"]["required"], node)

Terms are ORed; the requirements within a term are ANDed, and an empty term matches no node.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pilothouse.api.objects import Object
from pilothouse.meta.selectors import GREATER, LESS, LabelRequirement, LabelSelector

Terms = Mapping[str, Any]
_COMPARING: Final = {"Gt": GREATER, "Lt": LESS}


def admits(pod: Object, node: Object) -> bool:
    """True if the node matches the pod's selector and required affinity."""
    wanted = pod.spec.get("nodeSelector") or {}
    if any(node.labels.get(key) != value for key, value in wanted.items()):
        return False
    required = pod.at("spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    return required is None or selected(required, node)


def preference(pod: Object, node: Object) -> int:
    """The sum of the weights of the preferred terms that match."""
    preferred = pod.at(
        "spec", "affinity", "nodeAffinity", "preferredDuringSchedulingIgnoredDuringExecution", default=()
    )
    return sum(
        int(one.get("weight", 0)) for one in preferred if holds(one.get("preference") or {}, node, empty=True)
    )


def selected(selector: Terms, node: Object) -> bool:
    """True if one of the terms of a node selector matches."""
    return any(holds(term, node) for term in selector.get("nodeSelectorTerms") or ())


def holds(term: Terms, node: Object, *, empty: bool = False) -> bool:
    """True if all expressions match; ``empty`` if there are none. Raises SelectorError."""
    expressions = term.get("matchExpressions") or []
    fields = term.get("matchFields") or []
    if not expressions and not fields:
        return empty
    compared = [one for one in expressions if one.get("operator") in _COMPARING]
    others = [one for one in expressions if one.get("operator") not in _COMPARING]
    return (
        LabelSelector.from_object({"matchExpressions": others}).matches(node.labels)
        and all(_compares(one, node) for one in compared)
        and all(_field_holds(one, node) for one in fields)
    )


def _compares(expression: Terms, node: Object) -> bool:
    """Labels compared as numbers; another value is neither greater nor less."""
    operator = _COMPARING[expression["operator"]]
    values = tuple(map(str, expression.get("values") or ()))
    try:
        return LabelRequirement(str(expression.get("key", "")), operator, values).matches(node.labels)
    except (ValueError, IndexError):
        return False


def _field_holds(expression: Terms, node: Object) -> bool:
    """The only supported field is metadata.name."""
    if expression.get("key") != "metadata.name":
        return False
    among = node.name in (expression.get("values") or ())
    return among if expression.get("operator") == "In" else not among
