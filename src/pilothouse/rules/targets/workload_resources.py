"""``workload/resources``: how much CPU or memory a container of a workload is to have.

The amount is the container's limit, or its request if it has no limit; the executor changes the other one in
proportion, and a heap that is set beside the memory too.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Final

from pilothouse.api.applications.workload_fields import NoFields, fields_of
from pilothouse.api.kind_names import KindName
from pilothouse.api.objects import Object
from pilothouse.api.openstorage.v1alpha1 import RuleAction
from pilothouse.base.quantity import BINARY, NANO, Quantity, parse_quantity
from pilothouse.rules.action_targets import ActionTarget, ObjectLookup, TargetDeclined, TargetResult
from pilothouse.rules.targets.workload_replicas import READS as WORKLOAD_READS

READS: Final[tuple[KindName, ...]] = WORKLOAD_READS
_STEPS: Final = {"cpu": NANO // 1000, "memory": 1024 * 1024 * NANO}
"""Amounts are whole thousandths of a CPU, and whole mebibytes."""


def workload_resources(action: RuleAction, workload: Object, world: ObjectLookup) -> TargetResult:
    """The amount of a resource, and the field that has it."""
    fields = fields_of(workload, world.find)
    if isinstance(fields, NoFields):
        return TargetDeclined(fields.because)
    resource = action.params.get("resource", "")
    if resource not in _STEPS or "scalepercentage" not in action.params:
        return TargetDeclined("the action names no resource (cpu or memory), or no scalepercentage")
    container = fields.container(action.params.get("container", ""))
    if isinstance(container, NoFields):
        return TargetDeclined(container.because)
    found = _amount(fields.resources(container), resource)
    if found is None:
        where = f"container {container} of {fields.owner_name}"
        return TargetDeclined(
            f"{where} has neither a limit nor a request of {resource}: nothing can be scaled"
        )
    try:
        to = _scaled(action.params, found, _STEPS[resource])
    except ValueError as problem:
        return TargetDeclined(f"the parameters of {action.name} can't be used: {problem}")
    if isinstance(to, str):
        return TargetDeclined(f"container {container} has {found} of {resource}, and {to}")
    amounts = {"from": str(found), "to": str(to), "owner": fields.owner_name}
    return ActionTarget(
        {"container": container, "resource": resource, **amounts, "field": fields.name_of(container)}
    )


def _amount(resources: Mapping[str, Any], resource: str) -> Quantity | None:
    for part in ("limits", "requests"):
        if (found := (resources.get(part) or {}).get(resource)) is not None:
            return parse_quantity(found)
    return None


def _scaled(params: Mapping[str, str], found: Quantity, step: int) -> Quantity | str:
    """The amount; or the bound that keeps it from changing, as text."""
    percentage = Fraction(params["scalepercentage"].removeprefix("+"))
    least = parse_quantity(params["min"]) if "min" in params else None
    most = parse_quantity(params["max"]) if "max" in params else None
    if least is not None and most is not None and least > most:
        raise ValueError(f"min {least} is above max {most}")
    wanted = Fraction(found.nanos) * (100 + percentage) / 100
    to = Quantity(-(-wanted.numerator // (wanted.denominator * step)) * step, _family(step))
    if most is not None and to > most:
        to = most
    if least is not None and to < least:
        to = least
    if to.nanos <= 0:
        raise ValueError("nothing would be left")
    if (to.nanos - found.nanos) * percentage <= 0:
        bound = most if percentage > 0 else least
        return f"{'max' if percentage > 0 else 'min'} is {bound}" if bound is not None else "nothing changes"
    return to


def _family(step: int) -> str:
    return BINARY if step > NANO else "DecimalSI"
