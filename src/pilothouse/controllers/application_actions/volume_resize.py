"""``openstorage.io.action.volume/resize``: grows a claim to an exact size.

    spec:
      action: openstorage.io.action.volume/resize
      object: {kind: PersistentVolumeClaim, name: data-db-0, uid: …}
      target: {to: 480Mi}

It raises the claim's request, once that equals the capacity, and has succeeded when the capacity is as large.
It never lowers a request. A refused request is tried again a few times; if another
client lowers it afterwards, it stays so, and the action fails with the name of the field manager.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pilothouse.api.kind_names import (
    ApplicationAction,
    AutopilotRule,
    ConfigMap,
    Namespace,
    PersistentVolumeClaim,
    StorageClass,
)
from pilothouse.api.objects import Object
from pilothouse.api.openstorage.actions import RESIZE
from pilothouse.api.openstorage.pauses import PAUSE_ALL, PAUSED, is_paused, pauses_all
from pilothouse.base.backoff import Backoff
from pilothouse.base.quantity import Quantity, parse_quantity
from pilothouse.controllers.application_actions.action_status import (
    SERVICE_ACCOUNT,
    finished,
    is_finished,
    reason_of,
    running,
)
from pilothouse.controllers.storage.volume_matching import class_of
from pilothouse.runtime.controller import Names, controller
from pilothouse.runtime.intents import Intent, PatchObject, RecordEvent, SetStatus, Wait
from pilothouse.runtime.snapshot import Snapshot

MOST_ATTEMPTS: Final = 6
"""Attempts to raise a claim's request."""
_BACKOFF: Final = Backoff(first=10.0, factor=2.0, longest=600.0)
_ATTEMPT_SECONDS: Final = 2.0
"""How long an attempt lasts: within it the runtime may retry, if the claim was changed meanwhile."""
START_SECONDS: Final = 600.0
"""How long it waits until it can begin."""
RESIZE_SECONDS: Final = 3600.0
"""How long the volume may take to grow."""
ERROR_SECONDS: Final = 600.0
"""How long it may take while the claim reports an error."""
_PAUSE_POLL: Final = 5.0
_REQUESTING, _RESIZING = "Requesting", "Resizing"
_ERRORS: Final = ("NodeResizeError", "ControllerResizeError")
_STORAGE: Final = ("spec", "resources", "requests", "storage")


def of_claim(claim: Object, world: Snapshot) -> Names:
    """The unfinished actions on a claim."""
    for action in world.where(ApplicationAction, "spec.object.uid", claim.uid):
        if not is_finished(action):
            yield action.key


@controller(
    ApplicationAction,
    also={PersistentVolumeClaim: of_claim},
    reads=(StorageClass, AutopilotRule, Namespace, ConfigMap),
    impersonate=SERVICE_ACCOUNT,
)
def volume_resize(action: Object, world: Snapshot) -> Iterator[Intent]:
    """Grow a claim to the size that an action names."""
    if action.spec.get("action") != RESIZE or action.deleting or is_finished(action):
        return
    reference = action.at("spec", "object", default={})
    claim = world.find(PersistentVolumeClaim, action.namespace, str(reference.get("name", "")))
    if claim is None or claim.deleting or claim.uid != reference.get("uid", claim.uid):
        message = f"claim {action.namespace}/{reference.get('name')} is gone"
        yield finished(action, "Failed", "ObjectGone", message, now=world.now)
        return
    try:
        to = parse_quantity(action.at("spec", "target", "to"))
        maxsize = parse_quantity(action.at("spec", "parameters", "maxsize", default="0"))
    except ValueError as problem:
        message = f"spec.target.to or spec.parameters.maxsize: {problem}"
        yield finished(action, "Failed", "InvalidTarget", message, now=world.now)
        return
    if action.status.get("phase") == "Running":
        yield from _continue(action, claim, to, world)
    else:
        yield from _begin(action, claim, to, maxsize, world)


def _begin(
    action: Object, claim: Object, to: Quantity, maxsize: Quantity, world: Snapshot
) -> Iterator[Intent]:
    now, capacity, request = world.now, _capacity(claim), _request(claim)
    if maxsize and (capacity >= maxsize or to > maxsize):
        what = f"has {capacity}" if capacity >= maxsize else f"would have {to}"
        message = f"claim {claim.name} {what}, and maxsize is {maxsize}"
        yield finished(action, "Declined", "MaxSize", message, now=now, before={"size": str(capacity)})
    elif problem := _why_it_cannot_grow(claim, world):
        yield finished(action, "Failed", "ExpansionNotAllowed", problem, now=now)
    elif claim.status.get("phase") != "Bound":
        yield from _wait(action, "NotBound", f"claim {claim.name} is not bound to a volume", world)
    elif request != capacity:
        message = f"claim {claim.name} requests {request} and has {capacity}: it is being resized already"
        yield from _wait(action, "ResizeInProgress", message, world)
    elif capacity >= to:
        size = {"size": str(capacity)}
        message = f"claim {claim.name} has {capacity} already"
        yield finished(action, "Succeeded", "LargeEnough", message, now=now, before=size, after=size)
    elif pause := _pause(action, claim, world):
        yield pause
    else:
        yield from _attempt(action, claim, to, 1, world, before={"size": str(capacity)})


def _continue(action: Object, claim: Object, to: Quantity, world: Snapshot) -> Iterator[Intent]:
    now, capacity, request = world.now, _capacity(claim), _request(claim)
    requested = reason_of(action) == _RESIZING
    if capacity >= to:
        yield from _succeeded(action, claim, capacity, now)
    elif request >= to:
        yield from _resizing(action, claim, to, now)
    elif requested:
        # Lowered on purpose, so it is not raised again.
        by = next(iter(claim.managers(*_STORAGE)), "")
        message = f"the request of claim {claim.name} was changed from {to} to {request}"
        message += f" by the field manager {by}" if by else ""
        yield finished(action, "Failed", "Undone", message, now=now, event="Undone")
    elif problem := _why_it_cannot_grow(claim, world):
        yield finished(action, "Failed", "ExpansionNotAllowed", problem, now=now)
    elif pause := _pause(action, claim, world):
        yield pause
    else:
        yield from _retry(action, claim, to, world)


def _retry(action: Object, claim: Object, to: Quantity, world: Snapshot) -> Iterator[Intent]:
    attempts = int(action.status.get("attempts") or 1)
    began = action.moment("status", "startTime") or world.now
    since = world.now - began - sum(_BACKOFF.after(each) for each in range(1, attempts))
    if since < _ATTEMPT_SECONDS:
        yield _raised(action, claim, to)
        yield running(action, _RESIZING, _growing_message(claim, to), now=world.now)
    elif since < (pause := _BACKOFF.after(attempts)):
        message = f"the request of claim {claim.name} could not be raised to {to} in {attempts} attempts"
        yield Wait("Retrying", because=message, remedy=_remedy(action), seconds=pause - since)
    elif attempts >= MOST_ATTEMPTS:
        message = f"the request of claim {claim.name} could not be raised to {to} in {attempts} attempts"
        message += f"; {_remedy(action)}"
        yield finished(action, "Failed", "RequestRefused", message, now=world.now, event="RequestRefused")
    else:
        yield from _attempt(action, claim, to, attempts + 1, world)


def _attempt(
    action: Object, claim: Object, to: Quantity, number: int, world: Snapshot, **fields: Any
) -> Iterator[Intent]:
    """Record the attempt, raise the request, and record that it is raised."""
    message = f"raising the request of claim {claim.name} to {to}, attempt {number} of {MOST_ATTEMPTS}"
    begun = running(action, _REQUESTING, message, now=world.now, attempts=number, **fields)
    yield begun
    yield _raised(action, claim, to)
    because = f"rule {action.spec.get('rule')} grows it from {_capacity(claim)} to {to}: {action.name}"
    yield RecordEvent(claim, event="ResizeRequested", because=because)
    status = running(action, _RESIZING, _growing_message(claim, to), now=world.now, attempts=number, **fields)
    yield status


def _raised(action: Object, claim: Object, to: Quantity) -> PatchObject:
    fields = {"spec": {"resources": {"requests": {"storage": str(to)}}}}
    because = f"rule {action.spec.get('rule')} grows claim {claim.name} from {_capacity(claim)} to {to}"
    return PatchObject(claim, fields, exact=True, because=because)


def _succeeded(action: Object, claim: Object, capacity: Quantity, now: float) -> Iterator[Intent]:
    before = action.at("status", "before", "size", default="")
    message = f"claim {claim.name} grew from {before} to {capacity}"
    after = {"size": str(capacity)}
    yield finished(action, "Succeeded", "Resized", message, now=now, event="Resized", after=after)


def _resizing(action: Object, claim: Object, to: Quantity, now: float) -> Iterator[Intent]:
    """The request is there; the volume has to follow."""
    began = action.moment("status", "startTime") or now
    problem = next((f"{kind}: {each.get('message', '')}" for kind in _ERRORS
                    if (each := claim.condition(kind)) and each.get("status") == "True"), "")  # fmt: skip
    left = began + (ERROR_SECONDS if problem else RESIZE_SECONDS) - now
    message = _growing_message(claim, to) + (f": {problem}" if problem else "")
    if left <= 0:
        message = f"claim {claim.name} has not grown to {to}" + (f": {problem}" if problem else "")
        message += "; its request stays, and the rule acts again once the volume has that size"
        yield finished(action, "Failed", "NotResized", message, now=now, event="NotResized")
        return
    yield running(action, _RESIZING, message, now=now)
    yield Wait("Resizing", because=message, remedy=f"kubectl describe pvc {claim.name}", seconds=left)


def _growing_message(claim: Object, to: Quantity) -> str:
    return f"claim {claim.name} grows from {_capacity(claim)} to {to}"


def _wait(action: Object, reason: str, message: str, world: Snapshot) -> Iterator[Intent]:
    """Wait for a claim that can't be resized now, for a while."""
    left = action.created + START_SECONDS - world.now
    if left <= 0:
        yield finished(action, "Failed", reason, message, now=world.now, event=reason)
    else:
        name = action.at("spec", "object", "name")
        yield Wait(reason, because=message, remedy=f"kubectl describe pvc {name}", seconds=left)


def _pause(action: Object, claim: Object, world: Snapshot) -> Wait | SetStatus | None:
    """A wait, if rules are paused for this claim. It is limited for a pause of the claim alone, which its
    owner sets: actions that are under way count against budgets that claims of other owners share."""
    rule, where, name = str(action.spec.get("rule", "")), "", ""
    everything = world.find(ConfigMap, *PAUSE_ALL)
    if everything is not None and pauses_all(everything.get("data")):
        where, name = "all rules are paused", "--all"
    for noun, named, text, flag in (
        (AutopilotRule, rule, f"rule {rule} is paused", rule),
        (Namespace, claim.namespace, f"namespace {claim.namespace} is paused", f"-n {claim.namespace}"),
    ):
        found = world.find(noun, "", named)
        if found is not None and is_paused(found.annotations):
            where, name = text, flag
    if where:
        return Wait("Paused", because=where, remedy=f"pilothouse rule resume {name}", seconds=_PAUSE_POLL)
    if is_paused(claim.annotations):
        message = f"claim {claim.name} is paused"
        if world.now >= action.created + START_SECONDS:
            return finished(action, "Failed", "Paused", message, now=world.now, event="Paused")
        remedy = f"kubectl annotate pvc {claim.name} -n {claim.namespace} {PAUSED}-"
        return Wait("Paused", because=message, remedy=remedy, seconds=_PAUSE_POLL)
    return None


def _why_it_cannot_grow(claim: Object, world: Snapshot) -> str:
    """Why the claim's class does not allow it; empty if it does."""
    name = class_of(claim)
    if not name:
        return f"claim {claim.name} has no storage class, so it can't grow"
    found = world.find(StorageClass, "", name)
    if found is None:
        return f"storage class {name} does not exist, so claim {claim.name} can't grow"
    if not found.get("allowVolumeExpansion"):
        return f"storage class {name} does not have allowVolumeExpansion: true"
    return ""


def _remedy(action: Object) -> str:
    return f"pilothouse why applicationaction {action.name} -n {action.namespace} says why"


def _capacity(claim: Object) -> Quantity:
    return _amount(claim.status.get("capacity"))


def _request(claim: Object) -> Quantity:
    return _amount(claim.at(*_STORAGE[:-1]))


def _amount(amounts: Mapping[str, Any] | None) -> Quantity:
    found = (amounts or {}).get("storage")
    return Quantity(0) if found is None else parse_quantity(found)
