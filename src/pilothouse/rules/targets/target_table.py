"""The targets of all actions.

target_of(RuleAction(name=RESIZE, params={"maxsize": "1Gi"}), claim, world)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pilothouse.api.kind_names import KindName
from pilothouse.api.objects import Object
from pilothouse.api.openstorage.actions import EXPAND_POOL, HA, MOVE, REBALANCE_POOL, RESIZE, SET_IOPS
from pilothouse.api.openstorage.v1alpha1 import RuleAction
from pilothouse.rules.action_targets import ActionTarget, ObjectLookup, TargetFunction, TargetResult
from pilothouse.rules.targets import (
    pool_capacity,
    pool_moves,
    volume_copies,
    volume_iops,
    volume_size,
    volume_tier,
)

TARGETS: Final[Mapping[str, TargetFunction]] = {
    RESIZE: volume_size.volume_size,
    SET_IOPS: volume_iops.volume_iops,
    MOVE: volume_tier.volume_tier,
    HA: volume_copies.volume_copies,
    EXPAND_POOL: pool_capacity.pool_capacity,
    REBALANCE_POOL: pool_moves.pool_moves,
}
TARGET_READS: Final[tuple[KindName, ...]] = tuple(
    dict.fromkeys(
        (
            *volume_size.READS,
            *volume_iops.READS,
            *volume_tier.READS,
            *volume_copies.READS,
            *pool_capacity.READS,
            *pool_moves.READS,
        )
    )
)
"""The kinds that targets look up."""


def target_of(action: RuleAction, about: Object, world: ObjectLookup) -> TargetResult:
    """The target of an action on an object. One that is carried out by others has none but its parameters."""
    found = TARGETS.get(action.name)
    return found(action, about, world) if found is not None else ActionTarget()
