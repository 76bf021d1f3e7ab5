"""Actions that set a field of an object and wait until it has come about.

    change = FieldChange(cluster, "replicas of pool data", path, current="2", to="3", fields={"spec": …})
    yield from change_field(action, change, progress, world)

The phase Running is written before the field, and the reason ``Applied`` after it. A refused write is tried
again a few times. A field that is neither as before nor as set was changed by another client: the action
fails with the name of its field manager, and does not set it again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from pilothouse.api.kind_names import ApplicationAction
from pilothouse.api.objects import Object, Tree
from pilothouse.base.backoff import Backoff
from pilothouse.controllers.application_actions.action_pauses import pause_of
from pilothouse.controllers.application_actions.action_status import finished, reason_of, running
from pilothouse.runtime.controller import Mapper, Names
from pilothouse.runtime.intents import Intent, PatchObject, RecordEvent, Wait
from pilothouse.runtime.snapshot import Snapshot

MOST_ATTEMPTS: Final = 6
APPLYING, APPLIED = "Applying", "Applied"
_BACKOFF: Final = Backoff(first=10.0, factor=2.0, longest=600.0)
_ATTEMPT_SECONDS: Final = 2.0
"""How long an attempt lasts: within it the runtime may retry, if the object was changed meanwhile."""


class FieldChange(msgspec.Struct, frozen=True):
    """A field, what it has and what it is to have."""

    owner: Object
    """The object that has the field."""
    what: str
    """The field, for people: ``replicas of pool data``."""
    path: tuple[str | Mapping[str, str], ...]
    current: str
    to: str
    fields: Tree
    """The merge patch to the owner."""

    @property
    def sentence(self) -> str:
        return f"{self.what} of {self.owner.kind} {self.owner.name}"


class ChangeProgress(msgspec.Struct, frozen=True):
    """How far the field's value has taken effect."""

    done: bool
    message: str
    """What is waited for, or how it ended."""
    reason: str
    """The reason of the condition once it is done: ``Scaled``."""
    seconds: float
    """How long it may take."""


def running_in_namespace(name: str) -> Mapper:
    """Maps any object to the running actions of this name in its namespace."""

    def mapper(changed: Object, world: Snapshot) -> Names:
        for action in world.where(ApplicationAction, "status.phase", "Running"):
            if action.namespace == changed.namespace and action.spec.get("action") == name:
                yield action.key

    return mapper


def change_field(
    action: Object, change: FieldChange, progress: ChangeProgress, world: Snapshot
) -> Iterator[Intent]:
    """Set the field and wait until it has taken effect, from the step that the action is at."""
    if action.status.get("phase") != "Running":
        yield from _begin(action, change, progress, world)
    elif change.current == change.to:
        yield from _follow(action, change, progress, world)
    elif reason_of(action) == APPLIED or change.current != _before(action):
        yield undone(action, change, world)
    elif pause := pause_of(action, change.owner, world):
        yield pause
    else:
        yield from _retry(action, change, world)


def undone(action: Object, change: FieldChange, world: Snapshot) -> Intent:
    """The failure of an action whose field another client has changed."""
    by = next(iter(change.owner.managers(*change.path)), "")
    message = f"{change.sentence} should be {change.to} and was changed to {change.current}"
    message += f" by the field manager {by}" if by else ""
    return finished(action, "Failed", "Undone", message, now=world.now, event="Undone")


def _begin(
    action: Object, change: FieldChange, progress: ChangeProgress, world: Snapshot
) -> Iterator[Intent]:
    now = world.now
    before = {"value": change.current}
    expected = str(action.at("spec", "target", "from", default=""))
    if change.current == change.to and progress.done:
        message = f"{change.sentence} is {change.to} already"
        yield finished(action, "Succeeded", "AlreadySo", message, now=now, before=before, after=before)
    elif change.current not in (change.to, expected):
        message = (
            f"{change.sentence} is {change.current}, and was {expected or 'not set'} when the rule decided"
        )
        yield finished(action, "Declined", "Changed", message, now=now, before=before)
    elif pause := pause_of(action, change.owner, world):
        yield pause
    else:
        yield from _attempt(action, change, 1, world, before=before)


def _follow(
    action: Object, change: FieldChange, progress: ChangeProgress, world: Snapshot
) -> Iterator[Intent]:
    """Wait until the field that is set has taken effect."""
    now = world.now
    if progress.done:
        message, after = progress.message, {"value": change.to}
        yield finished(
            action, "Succeeded", progress.reason, message, now=now, event=progress.reason, after=after
        )
        return
    left = (action.moment("status", "startTime") or now) + progress.seconds - now
    if left <= 0:
        message = f"{change.sentence} is {change.to}, and has not come about in time: {progress.message}"
        yield finished(action, "Failed", "NotInTime", message, now=now, event="NotInTime")
        return
    yield running(action, APPLIED, progress.message, now=now)
    remedy = f"pilothouse why {change.owner.noun.resource} {change.owner.name} -n {change.owner.namespace}"
    yield Wait(APPLIED, because=progress.message, remedy=remedy, seconds=left)


def _retry(action: Object, change: FieldChange, world: Snapshot) -> Iterator[Intent]:
    attempts = int(action.status.get("attempts") or 1)
    began = action.moment("status", "startTime") or world.now
    since = world.now - began - sum(_BACKOFF.after(each) for each in range(1, attempts))
    message = f"{change.sentence} could not be set to {change.to} in {attempts} attempts"
    remedy = f"pilothouse why applicationaction {action.name} -n {action.namespace} says why"
    if since < _ATTEMPT_SECONDS:
        yield from _write(action, change, attempts, world)
    elif since < (pause := _BACKOFF.after(attempts)):
        yield Wait("Retrying", because=message, remedy=remedy, seconds=pause - since)
    elif attempts >= MOST_ATTEMPTS:
        message = f"{message}; {remedy}"
        yield finished(action, "Failed", "RequestRefused", message, now=world.now, event="RequestRefused")
    else:
        yield from _attempt(action, change, attempts + 1, world)


def _attempt(
    action: Object, change: FieldChange, number: int, world: Snapshot, before: Tree | None = None
) -> Iterator[Intent]:
    """Record the attempt, and make it."""
    message = f"setting {change.sentence} to {change.to}, attempt {number} of {MOST_ATTEMPTS}"
    fields = {"before": before} if before is not None else {}
    yield running(action, APPLYING, message, now=world.now, attempts=number, **fields)
    yield from _write(action, change, number, world, **fields)


def _write(
    action: Object, change: FieldChange, number: int, world: Snapshot, **fields: Tree
) -> Iterator[Intent]:
    because = f"rule {action.spec.get('rule')} sets {change.sentence} from {change.current} to {change.to}"
    if change.current != change.to:
        yield PatchObject(change.owner, change.fields, exact=True, because=because)
        yield RecordEvent(change.owner, event="ChangedByRule", because=f"{because}: {action.name}")
    message = f"{change.sentence} is set to {change.to}"
    yield running(action, APPLIED, message, now=world.now, attempts=number, **fields)


def _before(action: Object) -> str:
    return str(action.at("status", "before", "value", default=""))
