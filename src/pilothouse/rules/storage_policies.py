"""StoragePolicies, the form that rules had in 2019, as AutopilotRules.

    translated = translate(policy)
    translated.rule, translated.notes

Names of types and actions were spelled in several ways; all are taken. ``notes`` says what the original never
honoured, and what differs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Final

import msgspec

from pilothouse.api.openstorage.v1alpha1 import GROUP, VERSION

KIND: Final = "StoragePolicy"
_ALIASES: Final = {
    "usage_percentage": "100 * (px_volume_usage_bytes / px_volume_capacity_bytes)",
    "capacity_gb": "px_volume_capacity_bytes / 1000000000",
}
_OPERATORS: Final = {"gt": "Gt", "lt": "Lt", "eq": "In"}
_ACTION: Final = re.compile(r"openstorage\.io[./]action[./]([a-z]+)[./]([a-z]+)")
_TYPE: Final = re.compile(r"openstorage\.io[./]object[./]([a-z]+)")
_SECONDS: Final = re.compile(r"([0-9]{1,9})s?")


class PolicyError(ValueError):
    """A policy that can't be translated; the message says where."""


class TranslatedPolicy(msgspec.Struct, frozen=True):
    rule: dict[str, Any]
    """An AutopilotRule."""
    volumes: tuple[str, ...] = ()
    """The volumes that it names; empty for all that it selects by label."""
    notes: tuple[str, ...] = ()


def translate(policy: Mapping[str, Any]) -> TranslatedPolicy:
    """Raises ``PolicyError``."""
    spec = policy.get("spec")
    if not isinstance(spec, dict):
        raise PolicyError("spec: is missing")
    notes: list[str] = []
    chosen = _mapping(spec.get("object"), "spec.object")
    of = _TYPE.fullmatch(str(chosen.get("type", "openstorage.io.object.volume")))
    if of is None or of[1] != "volume":
        raise PolicyError(f"spec.object.type: {chosen.get('type')} can't be watched, only volumes")
    selector, volumes = _selector(chosen, notes)
    conditions = spec.get("conditions") or []
    if not isinstance(conditions, list) or not conditions:
        raise PolicyError("spec.conditions: there are none")
    expressions = [_expression(each, number, notes) for number, each in enumerate(conditions)]
    durations = [found for each in conditions if (found := _duration(each)) is not None]
    if len(conditions) > 1:
        notes.append("conditions: any one of them was enough; all have to hold in a rule")
    action = _action(_mapping(spec.get("action"), "spec.action"), notes)
    if spec.get("enforcement") in ("required", "preferred"):
        notes.append(f"enforcement: {spec['enforcement']} made no difference")
    rule_spec: dict[str, Any] = {
        "conditions": {"expressions": expressions, **({"for": max(durations)} if durations else {})},
        "actions": [action],
    }
    if selector:
        rule_spec["selector"] = selector
    if weight := spec.get("weight"):
        rule_spec["weight"] = weight
        notes.append("weight: was never looked at; of two rules for one object the heavier acts")
    name = str(_mapping(policy.get("metadata"), "metadata").get("name") or "policy")
    rule = {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "AutopilotRule",
        "metadata": {"name": name},
        "spec": rule_spec,
    }
    return TranslatedPolicy(rule, volumes, tuple(notes))


def _selector(chosen: Mapping[str, Any], notes: list[str]) -> tuple[dict[str, Any], tuple[str, ...]]:
    selector: dict[str, Any] = {}
    volumes: list[str] = []
    if labels := chosen.get("matchLabels"):
        selector["matchLabels"] = labels
        notes.append("object.matchLabels: was never looked at; a rule selects by it")
    others = []
    for each in chosen.get("matchExpressions") or ():
        if isinstance(each, dict) and each.get("key") == "name" and each.get("operator") in ("In", "in"):
            volumes += map(str, each.get("values") or ())
        else:
            others.append(each)
    if volumes:
        notes.append(
            "object.matchExpressions: volumes are named, and a rule selects claims by label; "
            "label the claims of these volumes: " + ", ".join(volumes)
        )
    if others:
        selector["matchExpressions"] = others
    return selector, tuple(volumes)


def _expression(tree: Any, number: int, notes: list[str]) -> dict[str, Any]:
    path = f"spec.conditions[{number}]"
    condition = _mapping(tree, path)
    key = str(condition.get("key") or "")
    if not key:
        raise PolicyError(f"{path}.key: is missing")
    operator = _OPERATORS.get(str(condition.get("operator", "")).lower())
    if operator is None:
        raise PolicyError(f"{path}.operator: {condition.get('operator')} is not one of gt, lt, eq")
    values = [str(each) for each in condition.get("values") or ()]
    if not values:
        raise PolicyError(f"{path}.values: there are none")
    if len(values) > 1:
        notes.append(f"conditions[{number}].values: only {values[0]} was used")
        values = values[:1]
    if operator == "In":
        notes.append(f"conditions[{number}].operator: eq became a query that is not PromQL")
    if key == "capacity_gb":
        notes.append(f"conditions[{number}].key: capacity_gb named a metric that does not exist")
    return {"key": _ALIASES.get(key, key), "operator": operator, "values": values}


def _duration(tree: Any) -> int | None:
    found = _SECONDS.fullmatch(str(tree.get("duration", ""))) if isinstance(tree, dict) else None
    return int(found[1]) if found else None


def _action(action: Mapping[str, Any], notes: list[str]) -> dict[str, Any]:
    found = _ACTION.fullmatch(str(action.get("name", "")))
    if found is None:
        raise PolicyError(
            f"spec.action.name: {action.get('name')} is not an action "
            "such as openstorage.io.action.volume/resize"
        )
    name = f"openstorage.io.action.{found[1]}/{found[2]}"
    given = action.get("params") or []
    words = [str(each) for each in given] if isinstance(given, list) else []
    params = {}
    for flag, value in zip(words[::2], words[1::2], strict=False):
        if flag == "--scalefactor":
            try:
                grown = (Fraction(value) - 1) * 100
            except (ValueError, ZeroDivisionError):
                raise PolicyError(f"spec.action.params: {value} is not a factor such as 1.3") from None
            params["scalepercentage"] = f"{float(grown):g}"
            notes.append(
                f"action.params: --scalefactor {value} was never used; a volume grew by 2Gi each time"
            )
        else:
            notes.append(f"action.params: {flag} is left out")
    return {"name": name, **({"params": params} if params else {})}


def _mapping(value: Any, path: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise PolicyError(f"{path}: must be a mapping")
    return value
