"""``openstorage.io.action.volume/move``: moves a volume to another tier of its node.

    spec:
      action: openstorage.io.action.volume/move
      object: {kind: PersistentVolumeClaim, name: data-db-0, uid: …}
      parameters: {tier: fast, keep: 1h}
      target: {from: default, to: fast, class: autopilot-<hash>}

The claim gets the class, and the node carries the move out: see ``move_steps``. It has succeeded when a
pod was ready with the volume there; the old copy stays for ``keep``, which is an annotation of the claim
until the action has ended: the node has read it by then.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pilothouse.api.attributes_classes import current_class
from pilothouse.api.kind_names import ApplicationAction, PersistentVolumeClaim, Pod
from pilothouse.api.local_volumes import MOVE_KEEP
from pilothouse.api.objects import Object
from pilothouse.api.openstorage.actions import FINISHED, MOVE
from pilothouse.api.owner_chain import claims_of_pod
from pilothouse.controllers.application_actions.action_attempts import Attempt, first_attempt, next_attempt
from pilothouse.controllers.application_actions.action_pauses import PAUSE_READS, pause_of, pause_under_way
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
from pilothouse.controllers.application_actions.class_changes import ClassChange
from pilothouse.controllers.application_actions.move_steps import (
    MOVE_READS,
    MoveDone,
    MoveFailed,
    move_step,
)
from pilothouse.controllers.application_actions.volume_resize import of_claim
from pilothouse.runtime.controller import Names, controller
from pilothouse.runtime.intents import Intent, PatchObject, RecordEvent, SetStatus, Wait
from pilothouse.runtime.snapshot import Snapshot

_MOVING: Final = "Moving"


def of_pod(pod: Object, world: Snapshot) -> Names:
    """The unfinished moves of a pod's volumes."""
    for name in claims_of_pod(pod):
        claim = world.find(PersistentVolumeClaim, pod.namespace, name)
        if claim is not None:
            yield from of_claim(claim, world)


@controller(
    ApplicationAction,
    also={PersistentVolumeClaim: of_claim, Pod: of_pod},
    reads=(*MOVE_READS, *PAUSE_READS),
    impersonate=SERVICE_ACCOUNT,
)
def volume_move(action: Object, world: Snapshot) -> Iterator[Intent]:
    """Move the volume of a claim to the tier that an action names."""
    if action.spec.get("action") != MOVE or action.deleting or is_finished(action):
        return
    claim = object_of(action, PersistentVolumeClaim, world)
    if claim is None:
        yield gone(action, now=world.now)
        return
    target = action.at("spec", "target", default={})
    tier, name = str(target.get("to", "")), str(target.get("class", ""))
    if not tier or not name:
        message = "spec.target: needs to, a tier, and class"
        yield finished(action, "Failed", "InvalidTarget", message, now=world.now)
        return
    parameters = action.spec.get("parameters") or {}
    change = ClassChange(
        claim,
        name,
        {} if "class" in parameters else {"tier": tier},
        {MOVE_KEEP: parameters["keep"]} if "keep" in parameters else {},
    )
    if action.status.get("phase") == "Running":
        for intent in _continue(action, change, tier, world):
            if isinstance(intent, SetStatus) and intent.status.get("phase") in FINISHED:
                yield from _keep_put_back(action, claim)
            yield intent
    else:
        yield from _begin(action, change, tier, world)


def _begin(action: Object, change: ClassChange, tier: str, world: Snapshot) -> Iterator[Intent]:
    claim = change.claim
    tier_before = str(action.at("spec", "target", "from", default=""))
    before = {"tier": tier_before, "class": current_class(claim)}
    if keep := claim.annotations.get(MOVE_KEEP):
        before["keep"] = keep
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
        yield from first_attempt(action, _attempt(action, change, tier, world), world, before=before)


def _continue(action: Object, change: ClassChange, tier: str, world: Snapshot) -> Iterator[Intent]:
    now = world.now
    if change.is_requested:
        yield from _followed(action, change, tier, world)
    elif reason_of(action) == _MOVING:
        # Changed on purpose, so it is not changed again.
        yield finished(action, "Failed", "Undone", change.undone(), now=now, event="Undone")
    elif other := change.overruled(action.at("status", "before", "class")):
        yield finished(action, "Failed", "Undone", other, now=now, event="Undone")
    elif problem := change.problem(world):
        yield finished(action, "Failed", "ClassNotUsable", problem, now=now, event="ClassNotUsable")
    elif pause := pause_of(action, change.claim, world):
        yield pause
    else:
        yield from next_attempt(action, _attempt(action, change, tier, world), world)


def _keep_put_back(action: Object, claim: Object) -> Iterator[Intent]:
    """The annotation of the claim as it was: what the action says of the old copy is about this move."""
    ours, before = action.at("spec", "parameters", "keep"), action.at("status", "before", "keep")
    if ours is not None and claim.annotations.get(MOVE_KEEP) == ours != before:
        fields = {"metadata": {"annotations": {MOVE_KEEP: before}}}
        because = f"the move of {action.name} has ended: its keep is not for later moves"
        yield PatchObject(claim, fields, because=because)


def _attempt(action: Object, change: ClassChange, tier: str, world: Snapshot) -> Attempt:
    claim = change.claim
    event = f"rule {action.spec.get('rule')} moves its volume to tier {tier}: {action.name}"
    return Attempt(
        doing=f"asking for tier {tier} by class {change.to} of claim {claim.name}",
        failed=f"claim {claim.name} could not be given class {change.to}",
        writes=change.writes(world, because=reason_text(action, claim, tier)),
        then=(_MOVING, f"the volume of claim {claim.name} moves to tier {tier}"),
        events=(RecordEvent(claim, event="MoveRequested", because=event),),
    )


def _followed(action: Object, change: ClassChange, tier: str, world: Snapshot) -> Iterator[Intent]:
    """The class is asked for; the node has to follow, and the pod to stop once."""
    now, claim = world.now, change.claim
    began = action.moment("status", "startTime") or now
    unused_since = str(action.at("status", "progress", "unused", default=""))
    step = move_step(change, tier, began, reason_text(action, claim, tier), world, unused_since)
    if isinstance(step, MoveDone):
        after = {"tier": tier, "class": change.to}
        yield finished(action, "Succeeded", "Moved", step.message, now=now, event="Moved", after=after)
    elif isinstance(step, MoveFailed):
        yield finished(action, "Failed", step.reason, step.message, now=now, event=step.reason)
    else:
        unused = {"unused": step.unused_since} if step.unused_since else {}
        fields = {"progress": unused} if step.unused_since != unused_since else {}
        pause = pause_under_way(action, claim, world) if step.intents else None
        message = f"{step.message}; {pause.because}" if pause is not None else step.message
        yield running(action, _MOVING, message, now=now, **fields)
        if pause is not None:
            yield pause
            return
        yield from step.intents
        yield Wait(_MOVING, because=step.message, remedy=_described(claim), seconds=step.left)


def reason_text(action: Object, claim: Object, tier: str) -> str:
    """Why a pod of the claim is evicted, and its class changed."""
    return f"rule {action.spec.get('rule')} moves the volume of claim {claim.name} to tier {tier}"


def _described(claim: Object) -> str:
    return f"kubectl describe pvc {claim.name} -n {claim.namespace}"
