"""Attempts of an executor to make the write that its action is about, a few times.

    attempt = Attempt(
        doing="raising the request of claim data to 480Mi",
        failed="the request of claim data could not be raised to 480Mi",
        writes=(PatchObject(…),),
        then=("Resizing", "claim data grows from 320Mi to 480Mi"),
    )
    yield from first_attempt(action, attempt, world, before={"size": "320Mi"})

The status says Running before anything is written, and has the reason ``then`` once it is. A decision that
finds the reason ``REQUESTING`` calls ``next_attempt``: within a few seconds the runtime may retry by itself;
later attempts come after longer and longer pauses, and after ``MOST_ATTEMPTS`` the action has failed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from pilothouse.api.objects import Object
from pilothouse.base.backoff import Backoff
from pilothouse.controllers.application_actions.action_status import finished, running
from pilothouse.runtime.intents import Intent, Wait
from pilothouse.runtime.snapshot import Snapshot

MOST_ATTEMPTS: Final = 6
REQUESTING: Final = "Requesting"
_BACKOFF: Final = Backoff(first=10.0, factor=2.0, longest=600.0)
_ATTEMPT_SECONDS: Final = 2.0
"""How long an attempt lasts: within it the runtime may retry, if the object was changed meanwhile."""


class Attempt(msgspec.Struct, frozen=True):
    """What is attempted."""

    doing: str
    failed: str
    writes: tuple[Intent, ...]
    then: tuple[str, str]
    """The reason and the message of the condition once it is written."""
    events: tuple[Intent, ...] = ()
    remedy: str = ""
    """What a person could do about a refusal, besides ``pilothouse why``."""


def first_attempt(action: Object, attempt: Attempt, world: Snapshot, **fields: Any) -> Iterator[Intent]:
    """Record the attempt, write, and record that it is written."""
    yield from _attempted(action, attempt, 1, world, fields)


def next_attempt(action: Object, attempt: Attempt, world: Snapshot) -> Iterator[Intent]:
    """Try again, wait until it is time to, or give up."""
    attempts = int(action.status.get("attempts") or 1)
    began = action.moment("status", "startTime") or world.now
    since = world.now - began - sum(_BACKOFF.after(each) for each in range(1, attempts))
    message = f"{attempt.failed} in {attempts} attempts"
    if since < _ATTEMPT_SECONDS:
        yield from attempt.writes
        reason, then = attempt.then
        yield running(action, reason, then, now=world.now)
    elif since < (pause := _BACKOFF.after(attempts)):
        remedy = "; ".join(filter(None, (attempt.remedy, _remedy(action))))
        if attempt.remedy:
            yield running(action, REQUESTING, f"{message}; {attempt.remedy}", now=world.now)
        yield Wait("Retrying", because=message, remedy=remedy, seconds=pause - since)
    elif attempts >= MOST_ATTEMPTS:
        message = "; ".join(filter(None, (message, attempt.remedy, _remedy(action))))
        yield finished(action, "Failed", "RequestRefused", message, now=world.now, event="RequestRefused")
    else:
        yield from _attempted(action, attempt, attempts + 1, world, {})


def _attempted(
    action: Object, attempt: Attempt, number: int, world: Snapshot, fields: dict[str, Any]
) -> Iterator[Intent]:
    message = f"{attempt.doing}, attempt {number} of {MOST_ATTEMPTS}"
    yield running(action, REQUESTING, message, now=world.now, attempts=number, **fields)
    yield from attempt.writes
    yield from attempt.events
    reason, then = attempt.then
    yield running(action, reason, then, now=world.now, attempts=number, **fields)


def _remedy(action: Object) -> str:
    return f"pilothouse why applicationaction {action.name} -n {action.namespace} says why"
