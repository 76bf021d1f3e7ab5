"""``volume/resize``: the size that a claim is to have.

It is computed from the claim's actual capacity, and only while no other size is requested: a resize that is
still under way, or that the storage refuses, is never built upon.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from pilothouse.api.objects import Object
from pilothouse.api.openstorage.actions import RESIZE
from pilothouse.api.openstorage.v1alpha1 import RuleAction
from pilothouse.base.quantity import parse_quantity
from pilothouse.rules.action_targets import (
    ActionTarget,
    ObjectLookup,
    TargetDeclined,
    TargetNotReady,
    TargetResult,
    bytes_of,
    capacity_of,
    is_bound,
    size_text,
)

MEBIBYTE: Final = 1024 * 1024
DEFAULT_PERCENTAGE: Final = "50"
_STORAGE: Final = ("resources", "requests", "storage")


def maxsize_of(action: RuleAction) -> int | None:
    """The size in bytes above which the action does nothing; None if there is none."""
    if action.name != RESIZE or "maxsize" not in action.params:
        return None
    try:
        return parse_quantity(action.params["maxsize"]).to_int()
    except ValueError:
        return None


def volume_size(action: RuleAction, claim: Object, world: ObjectLookup) -> TargetResult:
    """The size that a claim is to have."""
    requested = bytes_of(claim.at("spec", *_STORAGE))
    capacity = capacity_of(claim)
    if not is_bound(claim) or not capacity:
        return TargetNotReady("the claim is not bound to a volume")
    if requested != capacity:
        sizes = f"{size_text(requested)} is requested and the volume has {size_text(capacity)}"
        return TargetNotReady(f"{sizes}: a resize is under way")
    try:
        size = _grown(action.params, capacity)
        largest = parse_quantity(action.params["maxsize"]).to_int() if "maxsize" in action.params else size
    except ValueError as problem:
        return TargetDeclined(f"the parameters of {action.name} can't be used: {problem}")
    if capacity >= largest:
        return TargetDeclined(f"the volume has {size_text(capacity)}, and maxsize is {size_text(largest)}")
    size = min(size, largest)
    return ActionTarget({"from": size_text(capacity), "to": size_text(size)}, size - capacity)


def _grown(params: dict[str, str], capacity: int) -> int:
    """The larger size, in whole mebibytes."""
    if "scalesize" in params:
        step = Fraction(parse_quantity(params["scalesize"]).to_int())
    else:
        step = capacity * Fraction(params.get("scalepercentage", DEFAULT_PERCENTAGE)) / 100
    if "minstep" in params:
        step = max(step, Fraction(parse_quantity(params["minstep"]).to_int()))
    if step <= 0:
        raise ValueError("the volume would not grow")
    size = Fraction(capacity) + step
    return -(-size.numerator // (size.denominator * MEBIBYTE)) * MEBIBYTE
