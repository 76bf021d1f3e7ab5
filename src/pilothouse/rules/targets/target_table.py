"""The targets of all actions.

target_of(RuleAction(name=RESIZE, params={"maxsize": "1Gi"}), claim, world)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pilothouse.api.kind_names import KindName
from pilothouse.api.objects import Object
from pilothouse.api.openstorage.actions import REBALANCE, REDUNDANCY, RESIZE, RESOURCES, SCALE
from pilothouse.api.openstorage.v1alpha1 import RuleAction
from pilothouse.rules.action_targets import ActionTarget, ObjectLookup, TargetFunction, TargetResult
from pilothouse.rules.targets import (
    application_copies,
    application_rebalance,
    workload_replicas,
    workload_resources,
)
from pilothouse.rules.targets.volume_size import volume_size

TARGETS: Final[Mapping[str, TargetFunction]] = {
    RESIZE: volume_size,
    SCALE: workload_replicas.workload_replicas,
    RESOURCES: workload_resources.workload_resources,
    REDUNDANCY: application_copies.application_copies,
    REBALANCE: application_rebalance.application_rebalance,
}
TARGET_READS: Final[tuple[KindName, ...]] = tuple(
    dict.fromkeys(
        (
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
