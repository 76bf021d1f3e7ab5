"""``storagepool/expand``: how much a pool is to hold.

    params: {scalepercentage: "50"}         # half as much again
    params: {scalesize: 10Gi}               # what is added

A tier that is files of a fixed size can grow by ``resize-disk``, which is what ``auto`` means here.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Final

from pilothouse.api.kind_names import KindName
from pilothouse.api.objects import Object
from pilothouse.api.openstorage.v1alpha1 import RuleAction
from pilothouse.base.quantity import parse_quantity
from pilothouse.rules.action_targets import (
    ActionTarget,
    ObjectLookup,
    TargetDeclined,
    TargetNotReady,
    TargetResult,
    bytes_of,
    size_text,
)
from pilothouse.rules.targets.volume_size import DEFAULT_PERCENTAGE, MEBIBYTE

READS: Final[tuple[KindName, ...]] = ()
_ADD: Final = ("add-disk", "add-drive")


def pool_capacity(action: RuleAction, pool: Object, world: ObjectLookup) -> TargetResult:
    """The capacity that a pool is to have."""
    capacity = bytes_of(pool.status.get("capacity"))
    if not capacity:
        return TargetNotReady(f"the node has not reported the capacity of pool {pool.name}")
    if action.params.get("scaletype", "auto") in _ADD:
        return TargetDeclined(
            "no disk can be added to a tier, which is one directory of its node; use scaletype resize-disk "
            "for a tier of a fixed size, or start the node with a further --tier"
        )
    if not pool.status.get("expandable"):
        return TargetDeclined(
            f"pool {pool.name} is a directory of its node, not a cloud drive, and holds what its disk holds; "
            "only a tier of a fixed size (--tier NAME=DIR,size=2Gi) can grow"
        )
    try:
        size = expanded(capacity, 1, action.params)
    except ValueError as problem:
        return TargetDeclined(f"the parameters of {action.name} can't be used: {problem}")
    asked = bytes_of(pool.spec.get("capacity"))
    refusal = _refusal(pool)
    # What the node has refused does not stand in the way of less.
    if asked > capacity and (not refusal or size >= asked):
        sizes = f"{size_text(asked)} is requested and the pool has {size_text(capacity)}"
        return TargetNotReady(f"{sizes}: {refusal or 'an expansion is under way'}")
    return ActionTarget({"from": size_text(capacity), "to": size_text(size)})


def _refusal(pool: Object) -> str:
    """Why the node can't give the pool the capacity that is requested; empty if it has not said so."""
    condition = pool.condition("Expanded") or {}
    return str(condition.get("message") or "it is refused") if condition.get("status") == "False" else ""


def expanded(capacity: int, disks: int, params: Mapping[str, str]) -> int:
    """The capacity in bytes of a pool of equal disks after one expansion. Disks are added whole, so that a
    percentage is a minimum; a size is added to each disk that is resized. Raises ``ValueError``."""
    if "scalesize" in params:
        step = Fraction(parse_quantity(params["scalesize"]).to_int())
    else:
        step = capacity * Fraction(params.get("scalepercentage", DEFAULT_PERCENTAGE)) / 100
    if step <= 0:
        raise ValueError("the pool would not grow")
    if params.get("scaletype") in _ADD:
        disk = Fraction(capacity, disks)
        added = -(-step // disk) * disk
    else:
        added = step * disks if "scalesize" in params else step
    size = capacity + added
    return -(-size.numerator // (size.denominator * MEBIBYTE)) * MEBIBYTE
