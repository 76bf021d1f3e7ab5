"""The targets of all actions.

target_of(RuleAction(name=RESIZE, params={"maxsize": "1Gi"}), claim, world)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pilothouse.api.kind_names import KindName
from pilothouse.api.objects import Object
from pilothouse.api.openstorage.actions import (
    EXPAND_POOL,
    HA,
    MOVE,
    REBALANCE,
    REBALANCE_POOL,
    REDUNDANCY,
    RESIZE,
    RESOURCES,
    SCALE,
    SET_IOPS,
)
from pilothouse.api.openstorage.v1alpha1 import RuleAction
from pilothouse.rules.action_targets import ActionTarget, ObjectLookup, TargetFunction, TargetResult
from pilothouse.rules.targets import (
    application_copies,
    application_rebalance,
    pool_capacity,
    pool_moves,
    volume_copies,
    volume_iops,
    volume_size,
    volume_tier,
    workload_replicas,
    workload_resources,
)

TARGETS: Final[Mapping[str, TargetFunction]] = {
    RESIZE: volume_size.volume_size,
    SET_IOPS: volume_iops.volume_iops,
    MOVE: volume_tier.volume_tier,
    HA: volume_copies.volume_copies,
    EXPAND_POOL: pool_capacity.pool_capacity,
    REBALANCE_POOL: pool_moves.pool_moves,
    SCALE: workload_replicas.workload_replicas,
    RESOURCES: workload_resources.workload_resources,
    REDUNDANCY: application_copies.application_copies,
    REBALANCE: application_rebalance.application_rebalance,
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
            *workload_replicas.READS,
            *workload_resources.READS,
            *application_copies.READS,
            *application_rebalance.READS,
        )
    )
)
"""The kinds that targets depend on besides the object itself."""


def target_of(action: RuleAction, about: Object, world: ObjectLookup) -> TargetResult:
    """The target of an action on an object. One that is carried out by others has none but its parameters."""
    found = TARGETS.get(action.name)
    return found(action, about, world) if found is not None else ActionTarget()
