"""``volume/move``: the tier that a claim's volume is to be in, and the VolumeAttributesClass that says so.

    params: {tier: fast}            # a computed class with that tier; other parameters stay
    params: {class: fast-disks}

A volume on a node's own storage moves between the tiers of that node. StoragePools say what those are, and
how much is free.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pilothouse.api.attributes_classes import computed_name, parameters_of
from pilothouse.api.kind_names import KindName, StoragePool, VolumeAttributesClass
from pilothouse.api.objects import Object
from pilothouse.api.openstorage.v1alpha1 import RuleAction
from pilothouse.rules.action_targets import (
    ActionTarget,
    ObjectLookup,
    TargetDeclined,
    TargetResult,
    bytes_of,
    capacity_of,
    size_text,
)
from pilothouse.rules.targets.volume_class import CLASS_READS, PresentClass, class_problem, present_class

READS: Final[tuple[KindName, ...]] = (*CLASS_READS, StoragePool)


def volume_tier(action: RuleAction, claim: Object, world: ObjectLookup) -> TargetResult:
    """The class with the tier to move to."""
    present = present_class(claim, world)
    if not isinstance(present, PresentClass):
        return present
    if "class" in action.params:
        name = action.params["class"]
        if problem := class_problem(name, present.driver, world):
            return TargetDeclined(problem)
        parameters = parameters_of(world.find(VolumeAttributesClass, "", name))
        tier = parameters.get("tier", present.tier)
    elif "tier" in action.params:
        tier = action.params["tier"]
        name = computed_name(present.driver, {**present.parameters, "tier": tier})
    else:
        return TargetDeclined(f"{action.name} needs the parameter tier or class")
    if tier == present.tier:
        # Another class of the same tier is one with other parameters, such as allocation: sparse.
        if "tier" in action.params or name == present.name:
            return TargetDeclined(f"the volume is in tier {tier} already")
    elif problem := _why_no_room(tier, present.node, capacity_of(claim), world.all(StoragePool)):
        return TargetDeclined(problem)
    return ActionTarget({"from": present.tier, "to": tier, "class": name})


def free_bytes(pool: Object) -> int:
    """How much of a pool is not used."""
    return max(0, bytes_of(pool.status.get("capacity")) - bytes_of(pool.status.get("used")))


def _why_no_room(tier: str, node: str, size: int, pools: Sequence[Object]) -> str:
    """Why a volume of this size can't be moved there; empty if it can."""
    if not node:
        return "the volume is not on a node's own storage, so it is in none of a node's tiers"
    here = {str(pool.status.get("tier")): pool for pool in pools if pool.status.get("node") == node}
    there = ", ".join(f"{name} ({size_text(free_bytes(pool))} free)" for name, pool in sorted(here.items()))
    if tier not in here:
        return f"node {node} has no tier {tier}; it has {there or 'none that is known'}"
    if free_bytes(here[tier]) < size:
        return f"tier {tier} of node {node} has no room for {size_text(size)}; there are {there}"
    return ""
