"""``openstorage.io.action.volume/setiops``: gives a claim another VolumeAttributesClass.

    spec:
      action: openstorage.io.action.volume/setiops
      object: {kind: PersistentVolumeClaim, name: data-db-0, uid: …}
      target: {from: silver, to: gold}
      # or   {from: 500 IOPS, to: 750 IOPS, class: autopilot-<hash>, iops: "750"}

The class is ``to`` where the target has no ``class``.

It has succeeded when the volume has the class. A driver that refuses, or does not answer, makes it fail; if
another client asks for another class meanwhile, that stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pilothouse.api.attributes_classes import IOPS_LIMITS, current_class
from pilothouse.api.kind_names import ApplicationAction, PersistentVolumeClaim
from pilothouse.api.objects import Object
from pilothouse.api.openstorage.actions import SET_IOPS
from pilothouse.controllers.application_actions.action_attempts import Attempt, first_attempt, next_attempt
from pilothouse.controllers.application_actions.action_pauses import PAUSE_READS, pause_of
from pilothouse.controllers.application_actions.action_status import (
    SERVICE_ACCOUNT,
    finished,
    gone,
    is_finished,
    object_of,
    reason_of,
    running,
    waiting_to_begin,
)
from pilothouse.controllers.application_actions.class_changes import (
    CLASS_READS,
    ClassChange,
    NotChanged,
    progress_of,
)
from pilothouse.controllers.application_actions.volume_resize import of_claim
from pilothouse.runtime.controller import controller
from pilothouse.runtime.intents import Intent, RecordEvent, Wait
from pilothouse.runtime.snapshot import Snapshot

MODIFY_SECONDS: Final = 3600.0
"""How long a driver may work on it."""
_MODIFYING: Final = "Modifying"


@controller(
    ApplicationAction,
    also={PersistentVolumeClaim: of_claim},
    reads=(*CLASS_READS, *PAUSE_READS),
    impersonate=SERVICE_ACCOUNT,
)
def volume_setiops(action: Object, world: Snapshot) -> Iterator[Intent]:
    """Give a claim the class that an action names."""
    if action.spec.get("action") != SET_IOPS or action.deleting or is_finished(action):
        return
    claim = object_of(action, PersistentVolumeClaim, world)
    if claim is None:
        yield gone(action, now=world.now)
        return
    target = action.at("spec", "target", default={})
    name = str(target.get("class") or target.get("to") or "")
    if not name:
        message = "spec.target: needs to or class, the name of a class"
        yield finished(action, "Failed", "InvalidTarget", message, now=world.now)
        return
    limits = {name: target[name] for name in IOPS_LIMITS if name in target}
    change = ClassChange(claim, name, limits)
    if change.is_reached:
        yield from _reached(action, change, world)
    elif action.status.get("phase") == "Running":
        yield from _continue(action, change, world)
    else:
        yield from _begin(action, change, world)


def _begin(action: Object, change: ClassChange, world: Snapshot) -> Iterator[Intent]:
    claim = change.claim
    if claim.status.get("phase") != "Bound":
        message = f"claim {claim.name} is not bound to a volume"
        yield from waiting_to_begin(action, "NotBound", message, world, remedy=_described(claim))
    elif other := change.other_change():
        yield from waiting_to_begin(action, "ModifyInProgress", other, world, remedy=_described(claim))
    elif problem := change.problem(world):
        yield finished(action, "Failed", "ClassNotUsable", problem, now=world.now, event="ClassNotUsable")
    elif pause := pause_of(action, claim, world):
        yield pause
    else:
        before = {"class": current_class(claim)}
        yield from first_attempt(action, _attempt(action, change, world), world, before=before)


def _continue(action: Object, change: ClassChange, world: Snapshot) -> Iterator[Intent]:
    now, claim = world.now, change.claim
    if change.is_requested:
        yield from _followed(action, change, now)
    elif reason_of(action) == _MODIFYING:
        # Changed on purpose, so it is not changed again.
        yield finished(action, "Failed", "Undone", change.undone(), now=now, event="Undone")
    elif other := change.overruled(action.at("status", "before", "class")):
        yield finished(action, "Failed", "Undone", other, now=now, event="Undone")
    elif problem := change.problem(world):
        yield finished(action, "Failed", "ClassNotUsable", problem, now=now, event="ClassNotUsable")
    elif pause := pause_of(action, claim, world):
        yield pause
    else:
        yield from next_attempt(action, _attempt(action, change, world), world)


def _attempt(action: Object, change: ClassChange, world: Snapshot) -> Attempt:
    claim, to = change.claim, change.to
    was = current_class(claim) or "none"
    because = f"rule {action.spec.get('rule')} changes the class of claim {claim.name} from {was} to {to}"
    event = f"rule {action.spec.get('rule')} changes its class from {was} to {to}: {action.name}"
    return Attempt(
        doing=f"giving claim {claim.name} class {to}",
        failed=f"claim {claim.name} could not be given class {to}",
        writes=change.writes(world, because=because),
        then=(_MODIFYING, f"claim {claim.name} waits for class {to}"),
        events=(RecordEvent(claim, event="ModifyRequested", because=event),),
    )


def _followed(action: Object, change: ClassChange, now: float) -> Iterator[Intent]:
    """The class is asked for; the driver has to follow."""
    began = action.moment("status", "startTime") or now
    progress = progress_of(change, began, now, longest=MODIFY_SECONDS)
    if isinstance(progress, NotChanged):
        yield finished(action, "Failed", progress.reason, progress.message, now=now, event=progress.reason)
        return
    yield running(action, _MODIFYING, progress.message, now=now)
    remedy = _described(change.claim)
    yield Wait(_MODIFYING, because=progress.message, remedy=remedy, seconds=progress.left)


def _reached(action: Object, change: ClassChange, world: Snapshot) -> Iterator[Intent]:
    name, after = change.claim.name, {"class": change.to, **change.changes}
    before = action.at("status", "before", "class")
    if before is None:
        message = f"claim {name} has class {change.to} already"
        yield finished(action, "Succeeded", "HasClass", message, now=world.now, before=after, after=after)
        return
    message = f"the class of claim {name} changed from {before or 'none'} to {change.to}"
    yield finished(action, "Succeeded", "Modified", message, now=world.now, event="Modified", after=after)


def _described(claim: Object) -> str:
    return f"kubectl describe pvc {claim.name} -n {claim.namespace}"
