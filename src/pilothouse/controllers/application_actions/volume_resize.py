"""``openstorage.io.action.volume/resize``: grows a claim to an exact size.

    spec:
      action: openstorage.io.action.volume/resize
      object: {kind: PersistentVolumeClaim, name: data-db-0, uid: …}
      target: {to: 480Mi}

It raises the claim's request, once that equals the capacity, and has succeeded when the capacity is as large.
It never lowers a request. If the target has ``owner: Cluster/db`` and ``field: spec.storage.size``, that
field of the claim's topmost controller is raised instead, which raises the claim. A refused request is tried
again a few times; if another client lowers it afterwards, it stays so, and the action fails with the name of
the field manager.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pilothouse.api.field_paths import value_at
from pilothouse.api.kind_names import ApplicationAction, PersistentVolumeClaim, StorageClass
from pilothouse.api.objects import Object
from pilothouse.api.openstorage.actions import RESIZE
from pilothouse.base.quantity import Quantity, parse_quantity
from pilothouse.controllers.application_actions.action_attempts import Attempt, first_attempt, next_attempt
from pilothouse.controllers.application_actions.action_pauses import PAUSE_READS, pause_of
from pilothouse.controllers.application_actions.action_status import (
    SERVICE_ACCOUNT,
    changed_by,
    finished,
    gone,
    is_finished,
    object_of,
    reason_of,
    running,
    waiting_to_begin,
)
from pilothouse.controllers.application_actions.owner_fields import (
    OWNER_READS,
    owner_of,
    raised,
    role_for,
)
from pilothouse.controllers.storage.volume_matching import class_of
from pilothouse.runtime.controller import Names, controller
from pilothouse.runtime.intents import Intent, PatchObject, RecordEvent, Wait
from pilothouse.runtime.snapshot import Snapshot

RESIZE_SECONDS: Final = 3600.0
"""How long the volume may take to grow."""
ERROR_SECONDS: Final = 600.0
"""How long it may take while the claim reports an error."""
_RESIZING: Final = "Resizing"
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
    reads=(StorageClass, *OWNER_READS, *PAUSE_READS),
    impersonate=SERVICE_ACCOUNT,
)
def volume_resize(action: Object, world: Snapshot) -> Iterator[Intent]:
    """Grow a claim to the size that an action names."""
    if action.spec.get("action") != RESIZE or action.deleting or is_finished(action):
        return
    claim = object_of(action, PersistentVolumeClaim, world)
    if claim is None:
        yield gone(action, now=world.now)
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
        message = f"claim {claim.name} is not bound to a volume"
        yield from waiting_to_begin(action, "NotBound", message, world, remedy=_described(claim))
    elif request != capacity:
        message = f"claim {claim.name} requests {request} and has {capacity}: it is being resized already"
        yield from waiting_to_begin(action, "ResizeInProgress", message, world, remedy=_described(claim))
    elif capacity >= to:
        size = {"size": str(capacity)}
        message = f"claim {claim.name} has {capacity} already"
        yield finished(action, "Succeeded", "LargeEnough", message, now=now, before=size, after=size)
    elif problem := _why_no_owner(action, claim, world):
        yield finished(action, "Failed", "OwnerChanged", problem, now=now)
    elif pause := pause_of(action, claim, world):
        yield pause
    else:
        attempt = _attempt(action, claim, to, world)
        yield from first_attempt(action, attempt, world, before={"size": str(capacity)})


def _continue(action: Object, claim: Object, to: Quantity, world: Snapshot) -> Iterator[Intent]:
    now, capacity = world.now, _capacity(claim)
    requested = reason_of(action) == _RESIZING
    if capacity >= to:
        yield from _succeeded(action, claim, capacity, now)
    elif requested and (undone := _undone(action, claim, to, world)):
        # Taken back on purpose, so it is not raised again.
        yield finished(action, "Failed", "Undone", undone, now=now, event="Undone")
    elif requested or _request(claim) >= to:
        yield from _resizing(action, claim, to, now)
    elif problem := _why_it_cannot_grow(claim, world):
        yield finished(action, "Failed", "ExpansionNotAllowed", problem, now=now)
    elif problem := _why_no_owner(action, claim, world):
        yield finished(action, "Failed", "OwnerChanged", problem, now=now)
    elif pause := pause_of(action, claim, world):
        yield pause
    else:
        yield from next_attempt(action, _attempt(action, claim, to, world), world)


def _attempt(action: Object, claim: Object, to: Quantity, world: Snapshot) -> Attempt:
    """Raise the request of the claim, or the size that its owner has for it."""
    because = f"rule {action.spec.get('rule')} grows claim {claim.name} from {_capacity(claim)} to {to}"
    event = f"rule {action.spec.get('rule')} grows it from {_capacity(claim)} to {to}: {action.name}"
    what, remedy, path = f"the request of claim {claim.name}", "", _field(action)
    fields = {"spec": {"resources": {"requests": {"storage": str(to)}}}}
    write = PatchObject(claim, fields, exact=True, because=because)
    if path and (owner := owner_of(claim, _owner(action), world)) is not None:
        what, remedy = f"{path} of {owner}", role_for(owner)
        write = raised(owner, path, str(to), because=because)
    return Attempt(
        doing=f"raising {what} to {to}",
        failed=f"{what} could not be raised to {to}",
        writes=(write,),
        then=(_RESIZING, _growing_message(action, claim, to)),
        events=(RecordEvent(claim, event="ResizeRequested", because=event),),
        remedy=remedy,
    )


def _why_no_owner(action: Object, claim: Object, world: Snapshot) -> str:
    """Why the owner that the action names can't be asked; empty if it can, or none is named."""
    if not _field(action) or owner_of(claim, _owner(action), world) is not None:
        return ""
    return f"claim {claim.name} is not controlled by {_owner(action)} any more"


def _undone(action: Object, claim: Object, to: Quantity, world: Snapshot) -> str:
    """Which client has taken the request back, as a sentence; empty if none has."""
    path = _field(action)
    if not path:
        request = _request(claim)
        if request >= to:
            return ""
        by = changed_by(claim, *_STORAGE)
        return f"the request of claim {claim.name} was changed from {to} to {request}{by}"
    owner = owner_of(claim, _owner(action), world)
    if owner is None or owner.object is None:
        return ""
    size = value_at(owner.object.tree, path)
    if size is None or parse_quantity(size) >= to:
        return ""
    return f"{path} of {owner} was changed from {to} to {size}{changed_by(owner.object, *path.split('.'))}"


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
    message = _growing_message(action, claim, to) + (f": {problem}" if problem else "")
    if left <= 0:
        message = f"claim {claim.name} has not grown to {to}" + (f": {problem}" if problem else "")
        stays = f"{_field(action)} of {_owner(action)}" if _field(action) else "its request"
        message += f"; {stays} stays, and the rule acts again once the volume has that size"
        yield finished(action, "Failed", "NotResized", message, now=now, event="NotResized")
        return
    yield running(action, _RESIZING, message, now=now)
    yield Wait("Resizing", because=message, remedy=_described(claim), seconds=left)


def _growing_message(action: Object, claim: Object, to: Quantity) -> str:
    through = f" by {_field(action)} of {_owner(action)}" if _field(action) else ""
    return f"claim {claim.name} grows from {_capacity(claim)} to {to}{through}"


def _described(claim: Object) -> str:
    return f"kubectl describe pvc {claim.name}"


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


def _owner(action: Object) -> str:
    return str(action.at("spec", "target", "owner", default=""))


def _field(action: Object) -> str:
    """The field of the owner; empty if the claim itself is changed."""
    return str(action.at("spec", "target", "field", default="")) if _owner(action) else ""


def _capacity(claim: Object) -> Quantity:
    return _amount(claim.status.get("capacity"))


def _request(claim: Object) -> Quantity:
    return _amount(claim.at(*_STORAGE[:-1]))


def _amount(amounts: Mapping[str, Any] | None) -> Quantity:
    found = (amounts or {}).get("storage")
    return Quantity(0) if found is None else parse_quantity(found)
