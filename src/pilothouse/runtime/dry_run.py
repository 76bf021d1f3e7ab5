"""Decisions taken and told, and nothing done: what ``--dry-run`` shows.

    manager = Manager(api, controllers, informers, lease, clock, identity="m1", rehearsal=DryRunLog(print))

The decisions are the real ones, on the real world. What they would do is told, and not done; so the world stays as it is,
and each object is decided about once, unless somebody else changes something.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from pilothouse.api.objects import Object
from pilothouse.runtime.controller import Controller, ReconcileKey
from pilothouse.runtime.intent_executor import FenceOf
from pilothouse.runtime.intents import Intent, RecordEvent, RequeueAfter, SetStatus, Update, Wait, subject
from pilothouse.runtime.reconcile_result import ExecutedIntent, IntentOutcome, ReconcileResult
from pilothouse.runtime.snapshot import Snapshot

Say = Callable[[str], None]


class NoopExecutor:
    """Carries nothing out."""

    async def carry_out(
        self, intents: Iterable[Intent], seen: Object, key: ReconcileKey, fence: FenceOf
    ) -> tuple[ExecutedIntent, ...]:
        return tuple(
            ExecutedIntent(intent, IntentOutcome.SKIPPED if _already(intent) else IntentOutcome.PENDING)
            for intent in intents
        )


class DryRunLog:
    """A journal that is spoken, not written: each decision once, and again when it has become another."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._said: dict[tuple[str, ReconcileKey], str] = {}
        self.idle = True

    async def run(self, fence: FenceOf) -> None:
        """There is nothing to be written."""
        await asyncio.get_running_loop().create_future()

    def note(
        self, controller: Controller, seen: Object, world: Snapshot, result: ReconcileResult, attempts: int
    ) -> None:
        told = "\n".join(f"  {line}" for line in _lines(result))
        place = (controller.name, ReconcileKey(seen.noun, seen.namespace, seen.name))
        if told == self._said.get(place, ""):
            return
        self._said[place] = told
        self._say(f"{place[1]} ({controller.name}):\n{told or '  nothing any more'}")

    def forget(self, controller: Controller, key: ReconcileKey) -> None:
        if self._said.pop((controller.name, key), ""):
            self._say(f"{key} ({controller.name}):\n  is gone")


def _lines(result: ReconcileResult) -> Iterable[str]:
    if result.error:
        yield f"can't be decided: {result.error}"
    for act in result.acts:
        intent = act.intent
        match intent:
            case Wait():
                remedy = f"; {intent.remedy}" if intent.remedy else ""
                yield f"waits ({intent.reason}): {intent.because}{remedy}"
            case RequeueAfter():
                yield f"would look again in {intent.seconds:g}s: {intent.because}"
            case RecordEvent():
                yield f"would tell ({intent.event}): {intent.because}"
            case _ if act.outcome is IntentOutcome.PENDING:
                yield f"would {intent.verb}{_whom(intent)}: {intent.because}"


def _whom(intent: Intent) -> str:
    about = subject(intent)
    if about is None:
        return ""
    _, kind, namespace, name = about
    return f" {kind} " + "/".join(part for part in (namespace, name) if part)


def _already(intent: Intent) -> bool:
    match intent:
        case SetStatus():
            return intent.status == intent.seen.status
        case Update():
            return intent.object == intent.seen.tree
        case _:
            return False
