"""Validation of a pool's placement: Kubernetes' rules for pods, so that no pod is refused later."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pilothouse.meta import names
from pilothouse.meta.fields import FieldError, child, element
from pilothouse.meta.selectors import LabelSelector, SelectorError

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
Problems = Iterator[FieldError]


def check_placement(pool: Mapping[str, Any], path: str) -> Problems:
    """Problems of a pool's affinity, tolerations and spread."""
    for index, toleration in enumerate(pool.get("tolerations", ())):
        yield from _check_toleration(toleration, element(child(path, "tolerations"), index))
    for index, spread in enumerate(pool.get("topologySpreadConstraints", ())):
        at = element(child(path, "topologySpreadConstraints"), index)
        yield from _check_topology_key(spread, at)
    affinity = pool.get("affinity") or {}
    for term, at in _node_terms(affinity.get("nodeAffinity") or {}, child(path, "affinity.nodeAffinity")):
        for field in ("matchExpressions", "matchFields"):
            for index, requirement in enumerate(term.get(field, ())):
                yield from _check_node_requirement(requirement, element(child(at, field), index))
    for side in ("podAffinity", "podAntiAffinity"):
        for term, at in _pod_terms(affinity.get(side) or {}, child(path, f"affinity.{side}")):
            yield from _check_topology_key(term, at)
            for field in ("labelSelector", "namespaceSelector"):
                yield from check_label_selector(term.get(field), child(at, field))


def check_label_selector(selector: Mapping[str, Any] | None, path: str) -> Problems:
    """Problems of matchLabels and matchExpressions."""
    if not selector:
        return
    try:
        LabelSelector.from_object(selector)
    except SelectorError as error:
        yield FieldError.invalid(path, dict(selector), str(error))


def _node_terms(affinity: Mapping[str, Any], path: str) -> Iterator[tuple[Mapping[str, Any], str]]:
    required = (affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms", ())
    for index, term in enumerate(required):
        yield term, element(child(path, f"{_REQUIRED}.nodeSelectorTerms"), index)
    for index, wish in enumerate(affinity.get(_PREFERRED, ())):
        yield wish["preference"], child(element(child(path, _PREFERRED), index), "preference")


def _pod_terms(affinity: Mapping[str, Any], path: str) -> Iterator[tuple[Mapping[str, Any], str]]:
    for index, term in enumerate(affinity.get(_REQUIRED, ())):
        yield term, element(child(path, _REQUIRED), index)
    for index, wish in enumerate(affinity.get(_PREFERRED, ())):
        yield wish["podAffinityTerm"], child(element(child(path, _PREFERRED), index), "podAffinityTerm")


def _check_node_requirement(requirement: Mapping[str, Any], path: str) -> Problems:
    operator, values = requirement["operator"], requirement.get("values", ())
    if problem := names.qualified_name(requirement["key"]):
        yield FieldError.invalid(child(path, "key"), requirement["key"], problem)
    if operator in ("In", "NotIn") and not values:
        yield FieldError.required(child(path, "values"), f"operator {operator} needs at least one value")
    elif operator in ("Exists", "DoesNotExist") and values:
        yield FieldError.forbidden(child(path, "values"), f"operator {operator} takes no values")
    elif operator in ("Gt", "Lt") and len(values) != 1:
        yield FieldError.required(child(path, "values"), f"operator {operator} needs exactly one value")


def _check_topology_key(term: Mapping[str, Any], path: str) -> Problems:
    key = term["topologyKey"]
    where = child(path, "topologyKey")
    if not key:
        yield FieldError.required(where, "a node label, such as kubernetes.io/hostname")
    elif problem := names.qualified_name(key):
        yield FieldError.invalid(where, key, problem)


def _check_toleration(toleration: Mapping[str, Any], path: str) -> Problems:
    if toleration.get("operator") == "Exists" and toleration.get("value"):
        yield FieldError.invalid(
            child(path, "value"), toleration["value"], "must be empty when the operator is Exists"
        )
    if not toleration.get("key") and toleration.get("operator") != "Exists":
        yield FieldError.invalid(
            child(path, "operator"),
            toleration.get("operator", ""),
            "must be Exists when the key is empty, which means every key and value",
        )
    if toleration.get("tolerationSeconds") is not None and toleration.get("effect") != "NoExecute":
        yield FieldError.invalid(
            child(path, "effect"),
            toleration.get("effect", ""),
            "must be NoExecute when tolerationSeconds is set",
        )
