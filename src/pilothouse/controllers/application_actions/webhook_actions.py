"""``openstorage.io.action.<type>/webhook``: an action that is posted to a server of the configuration file.

    spec:
      action: openstorage.io.action.volume/webhook
      parameters: {name: tickets}

A controller does no I/O: it asks in ``status.progress.post``, a number, and the observer of webhooks
(``rules.webhooks``) answers in ``status.progress.answer``: ``<number> <HTTP status>``, ``<number> failed:
why`` or ``<number> refused: why``, which no repetition changes. A failed post is repeated a few times.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pilothouse.api.kind_names import ApplicationAction
from pilothouse.api.objects import Object
from pilothouse.api.openstorage.actions import WEBHOOKS
from pilothouse.base.backoff import Backoff
from pilothouse.base.rfc3339 import format_time, parse_time
from pilothouse.controllers.application_actions.action_pauses import PAUSE_READS, pause_of
from pilothouse.controllers.application_actions.action_status import (
    SERVICE_ACCOUNT,
    finished,
    is_finished,
    running,
)
from pilothouse.runtime.controller import controller
from pilothouse.runtime.intents import Intent, SetStatus, Wait
from pilothouse.runtime.snapshot import Snapshot

MOST_POSTS: Final = 6
ANSWER_SECONDS: Final = 120.0
"""How long an answer may take, with all that delays the observer."""
_BACKOFF: Final = Backoff(first=10.0, factor=2.0, longest=600.0)
_POSTING: Final = "Posting"


@controller(ApplicationAction, reads=PAUSE_READS, impersonate=SERVICE_ACCOUNT)
def webhook_actions(action: Object, world: Snapshot) -> Iterator[Intent]:
    """Have an action posted, and follow the answers."""
    if action.spec.get("action") not in WEBHOOKS or action.deleting or is_finished(action):
        return
    progress, now = dict(action.status.get("progress") or {}), world.now
    name = str(action.at("spec", "parameters", "name", default=""))
    if action.status.get("phase") != "Running":
        yield pause_of(action, action, world) or _asked(action, name, 1, now)
        return
    number = int(progress.get("post", "1"))
    asked = parse_time(progress["asked"]) if "asked" in progress else now
    answered, _, answer = progress.get("answer", "").partition(" ")
    if answered != str(number):
        answer = f"failed: nothing was posted within {ANSWER_SECONDS:g} seconds"
        if now < asked + ANSWER_SECONDS:
            because = f"webhook {name} has to answer"
            yield Wait(_POSTING, because=because, seconds=asked + ANSWER_SECONDS - now)
            return
    message = f"webhook {name}: {answer}"
    if answer.startswith("2"):
        yield finished(
            action, "Succeeded", "Posted", message, now=now, event="Posted", after={"answer": answer}
        )
    elif answer.startswith("refused") or number >= MOST_POSTS:
        yield finished(action, "Failed", "NotPosted", message, now=now, event="NotPosted")
    elif now < (due := asked + _BACKOFF.after(number)):
        yield Wait("Retrying", because=message, seconds=due - now)
    elif pause := pause_of(action, action, world):
        yield pause
    else:
        yield _asked(action, name, number + 1, now)


def _asked(action: Object, name: str, number: int, now: float) -> SetStatus:
    progress = {"post": str(number), "asked": format_time(now)}
    message = f"posting to webhook {name}, attempt {number} of {MOST_POSTS}"
    return running(action, _POSTING, message, now=now, attempts=number, progress=progress)
