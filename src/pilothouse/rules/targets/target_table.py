"""The targets of all actions.

target_of(RuleAction(name=RESIZE, params={"maxsize": "1Gi"}), claim, world)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pilothouse.api.kind_names import KindName
from pilothouse.api.objects import Object
from pilothouse.api.openstorage.actions import RESIZE
from pilothouse.api.openstorage.v1alpha1 import RuleAction
from pilothouse.rules.action_targets import ActionTarget, ObjectLookup, TargetFunction, TargetResult
from pilothouse.rules.targets.volume_size import volume_size

TARGET_READS: Final[tuple[KindName, ...]] = ()
"""The kinds that targets look up."""
TARGETS: Final[Mapping[str, TargetFunction]] = {
    RESIZE: volume_size,
}


def target_of(action: RuleAction, about: Object, world: ObjectLookup) -> TargetResult:
    """The target of an action on an object. One that is carried out by others has none but its parameters."""
    found = TARGETS.get(action.name)
    return found(action, about, world) if found is not None else ActionTarget()
