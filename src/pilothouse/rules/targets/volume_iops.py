"""``volume/setiops``: the VolumeAttributesClass that a claim is to have.

    params: {classes: "bronze,silver,gold", step: up}
    params: {scalepercentage: "50", maxiops: "6000"}

Either the next one of a list, or a computed one with other limits (``iops``, ``readIops``, ``writeIops``:
those that the present class has) and all its other parameters. Its target names the limits for people, and
the class apart from them: ``{from: 500 IOPS, to: 750 IOPS, class: autopilot-<hash>, iops: "750"}``. A volume
without a limit has nothing that could be raised; limits that follow the size of the volume
(``io_throttle_*``) are not changed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Final

from pilothouse.api.attributes_classes import IOPS_LIMITS, computed_name
from pilothouse.api.kind_names import KindName
from pilothouse.api.objects import Object
from pilothouse.api.openstorage.v1alpha1 import RuleAction
from pilothouse.base.quantity import parse_quantity
from pilothouse.rules.action_targets import ActionTarget, ObjectLookup, TargetDeclined, TargetResult
from pilothouse.rules.targets.volume_class import CLASS_READS, PresentClass, class_problem, present_class

READS: Final[tuple[KindName, ...]] = CLASS_READS
_NAMES: Final = {"iops": "IOPS", "readIops": "read IOPS", "writeIops": "write IOPS"}
"""The limits, for people."""
_SCALED: Final = "io_throttle_"
"""How parameters begin whose limits follow the size of the volume."""


def volume_iops(action: RuleAction, claim: Object, world: ObjectLookup) -> TargetResult:
    """The class with more or fewer operations a second."""
    present = present_class(claim, world)
    if not isinstance(present, PresentClass):
        return present
    if not present.name:
        return TargetDeclined("the volume has no VolumeAttributesClass, so there is no limit to raise")
    if "classes" in action.params:
        return _next_class(action.params, present, world)
    try:
        return _computed(action.params, present)
    except ValueError as problem:
        return TargetDeclined(f"the parameters of {action.name} can't be used: {problem}")


def _next_class(params: Mapping[str, str], present: PresentClass, world: ObjectLookup) -> TargetResult:
    names = [name.strip() for name in params["classes"].split(",") if name.strip()]
    listed = ", ".join(names)
    if present.name not in names:
        return TargetDeclined(f"the volume has class {present.name}, which is not one of {listed}")
    up = params.get("step", "up") == "up"
    number = names.index(present.name) + (1 if up else -1)
    if not 0 <= number < len(names):
        end = "highest" if up else "lowest"
        return TargetDeclined(f"the volume has class {present.name}, the {end} of {listed}")
    to = names[number]
    if problem := class_problem(to, present.driver, world):
        return TargetDeclined(problem)
    return ActionTarget({"from": present.name, "to": to})


def _computed(params: Mapping[str, str], present: PresentClass) -> TargetResult:
    limits: dict[str, str] = {
        name: present.parameters[name] for name in IOPS_LIMITS if name in present.parameters
    }
    if not limits:
        return TargetDeclined(_why_no_limit(present))
    least, most = int(params.get("miniops", "1")), int(params["maxiops"]) if "maxiops" in params else None
    changes: dict[str, str] = {}
    for name, text in limits.items():
        limit = parse_quantity(text).to_int()
        wanted = (
            int(params["iops"]) if "iops" in params else _scaled(limit, Fraction(params["scalepercentage"]))
        )
        bounded = max(wanted, least) if most is None else min(max(wanted, least), most)
        if (bounded - limit) * (wanted - limit) > 0:
            changes[name] = str(bounded)
    if not changes:
        has = _in_words(limits)
        bounds = [f"miniops is {least}"] if "miniops" in params else []
        bounds += [f"maxiops is {most}"] if most is not None else []
        return TargetDeclined(f"the volume has {has}" + "".join(f", and {each}" for each in bounds))
    before = {name: limits[name] for name in changes}
    name = computed_name(present.driver, {**present.parameters, **changes})
    return ActionTarget({"from": _in_words(before), "to": _in_words(changes), "class": name, **changes})


def _in_words(limits: Mapping[str, str]) -> str:
    return " and ".join(f"{parse_quantity(text).to_int()} {_NAMES[name]}" for name, text in limits.items())


def _why_no_limit(present: PresentClass) -> str:
    """The class has none of the limits that are changed here."""
    scaled = sorted(name for name in present.parameters if name.startswith(_SCALED) and "bw" not in name)
    if not scaled:
        return f"class {present.name} of the volume has no iops, so there is no limit to raise"
    limits = f"class {present.name} of the volume limits its operations by {', '.join(scaled)}"
    return f"{limits}, which can't be scaled; list classes with other limits in classes, and give step"


def _scaled(iops: int, percentage: Fraction) -> int:
    """At least one more, or one less."""
    scaled = iops * (100 + percentage) / 100
    return math.ceil(scaled) if percentage > 0 else max(1, math.floor(scaled))
