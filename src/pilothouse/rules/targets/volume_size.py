"""``volume/resize``: the size that a claim is to have.

It is computed from the claim's actual capacity, and only while no other size is requested: a resize that is
still under way, or that the storage refuses, is never built upon. It grows through its owner, if the action
names a field of it, or if the claim is of a cluster whose pools have a size of their own: an operator would
take back what is written to its claims.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from pilothouse.api.applications.registry import BUILT_IN
from pilothouse.api.field_paths import value_at
from pilothouse.api.kind_names import KindName, Pod, StatefulSet
from pilothouse.api.objects import Object
from pilothouse.api.openstorage.actions import RESIZE
from pilothouse.api.openstorage.v1alpha1 import RuleAction
from pilothouse.api.owner_chain import Owner, topmost_owner
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
_CLUSTERS: Final = tuple(each.cluster for each in BUILT_IN if each.cluster is not None and each.volume_size)
READS: Final[tuple[KindName, ...]] = (Pod, StatefulSet, *_CLUSTERS)
_LONGEST_NAME: Final = 80
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
    fields = {"from": size_text(capacity), "to": size_text(size)}
    through = _owner_fields(action, claim, size, world)
    if isinstance(through, dict):
        return ActionTarget({**fields, **through}, size - capacity)
    return through


def _owner_fields(
    action: RuleAction, claim: Object, size: int, world: ObjectLookup
) -> dict[str, str] | TargetDeclined | TargetNotReady:
    """The owner and its field that the claim grows through; empty if it grows by itself."""
    path = action.params.get("owner", "") or _pool_field(claim)
    if not path:
        return {}
    owner = topmost_owner(claim, world, readable=READS)
    if owner is None:
        if "owner" not in action.params:
            return {}
        return TargetDeclined(f"nothing controls claim {claim.name}, so no owner has a field {path}")
    if owner.namespace != claim.namespace or not owner.is_spelt_well:
        named = f"{owner.kind[:_LONGEST_NAME]!r} {owner.name[:_LONGEST_NAME]!r}"
        why = f"claim {claim.name} is controlled by {named}, and grows by objects of its own namespace only"
        return TargetDeclined(why)
    if owner.object is not None and (refusal := _refused(owner, path, size)) is not None:
        return refusal
    return {"owner": str(owner), "field": path}


def _refused(owner: Owner, path: str, size: int) -> TargetDeclined | TargetNotReady | None:
    assert owner.object is not None
    value = value_at(owner.object.tree, path)
    if value is None:
        return TargetDeclined(f"{owner} has no field {path}")
    try:
        asked = bytes_of(value)
    except (ValueError, TypeError):
        return TargetDeclined(f"{path} of {owner} is not a size: {value!r}")
    if asked >= size:
        return TargetNotReady(f"{path} of {owner} is {size_text(asked)}: a resize is under way")
    return None


def _pool_field(claim: Object) -> str:
    """The field with the size of the claim's volume, if it is of one of our clusters."""
    for application in BUILT_IN:
        pool = claim.labels.get(application.pool_label, "") if application.pool_label else ""
        if application.volume_size and pool and application.cluster_label in claim.labels:
            return application.volume_size.replace("[]", f"[{pool}]")
    return ""


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
