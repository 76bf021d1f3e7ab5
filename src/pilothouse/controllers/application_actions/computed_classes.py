"""VolumeAttributesClasses that executors have computed, and that nothing uses any more.

They are shared, so that no action knows when the last claim has left one. A class is deleted when no claim,
volume or unfinished action names it, once it is ten minutes old.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pilothouse.api.attributes_classes import COMPUTED, current_class, requested_class
from pilothouse.api.kind_names import (
    ApplicationAction,
    PersistentVolume,
    PersistentVolumeClaim,
    VolumeAttributesClass,
)
from pilothouse.api.objects import Object
from pilothouse.controllers.application_actions.action_status import SERVICE_ACCOUNT, is_finished
from pilothouse.runtime.controller import controller
from pilothouse.runtime.intents import Delete, Intent, RequeueAfter
from pilothouse.runtime.snapshot import Snapshot

KEPT_SECONDS: Final = 600.0


@controller(
    VolumeAttributesClass,
    reads=(PersistentVolumeClaim, PersistentVolume, ApplicationAction),
    impersonate=SERVICE_ACCOUNT,
)
def computed_classes(attributes: Object, world: Snapshot) -> Iterator[Intent]:
    """Delete a computed class that nothing names."""
    if attributes.deleting or attributes.labels.get(COMPUTED) != "true":
        return
    left = attributes.created + KEPT_SECONDS - world.now
    if left > 0 or _is_named(attributes.name, world):
        yield RequeueAfter(max(left, KEPT_SECONDS), because="it is deleted when no claim uses it")
        return
    yield Delete(attributes, exact=True, because="no claim, volume or action names it")


def _is_named(name: str, world: Snapshot) -> bool:
    if any(name in (requested_class(one), current_class(one)) for one in world.all(PersistentVolumeClaim)):
        return True
    if any(one.spec.get("volumeAttributesClassName") == name for one in world.all(PersistentVolume)):
        return True
    for action in world.all(ApplicationAction):
        target = action.at("spec", "target", default={})
        progress = action.status.get("progress") or {}
        named = (target.get("to"), target.get("class"), target.get("from"), progress.get("class"))
        if name in named and not is_finished(action):
            return True
    return False
