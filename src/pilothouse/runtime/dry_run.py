"""Dry run: controllers decide on the real objects, the intents are printed, nothing is executed.

manager = Manager(api, controllers, informers, election, clock, identity="m1", dry_run=DryRunLog(print))
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

Print = Callable[[str], None]


class NoopExecutor:
    async def execute(
        self, intents: Iterable[Intent], seen: Object, key: ReconcileKey, fence: FenceOf
    ) -> tuple[ExecutedIntent, ...]:
        return tuple(
            ExecutedIntent(intent, IntentOutcome.SKIPPED if _already(intent) else IntentOutcome.PENDING)
            for intent in intents
        )


class DryRunLog:
    """Prints each decision once, and again when it changes."""

    def __init__(self, print_line: Print) -> None:
        self._print = print_line
        self._printed: dict[tuple[str, ReconcileKey], str] = {}
        self.idle = True

    async def run(self, fence: FenceOf) -> None:
        await asyncio.get_running_loop().create_future()

    def note(
        self, controller: Controller, seen: Object, world: Snapshot, result: ReconcileResult, attempts: int
    ) -> None:
        text = "\n".join(f"  {line}" for line in _lines(result))
        key = (controller.name, ReconcileKey(seen.noun, seen.namespace, seen.name))
        if text == self._printed.get(key, ""):
            return
        self._printed[key] = text
        self._print(f"{key[1]} ({controller.name}):\n{text or '  nothing any more'}")

    def forget(self, controller: Controller, key: ReconcileKey) -> None:
        if self._printed.pop((controller.name, key), ""):
            self._print(f"{key} ({controller.name}):\n  is gone")


def _lines(result: ReconcileResult) -> Iterable[str]:
    if result.error:
        yield f"can't be decided: {result.error}"
    for each in result.executed:
        intent = each.intent
        match intent:
            case Wait():
                remedy = f"; {intent.remedy}" if intent.remedy else ""
                yield f"waits ({intent.reason}): {intent.because}{remedy}"
            case RequeueAfter():
                yield f"would look again in {intent.seconds:g}s: {intent.because}"
            case RecordEvent():
                yield f"would record an event ({intent.event}): {intent.because}"
            case _ if each.outcome is IntentOutcome.PENDING:
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
