"""Controllers stepped by hand: objects in memory, the real executor of intents, a kubelet and a collector
that are asked to.

    harness = ControllerHarness()
    web = harness.add(manifest)
    harness.step(stateful_sets, web)                   # decide once and execute; returns the intents
    harness.step(stateful_sets, web, crash_after=1)    # …and stop after the first write
    harness.run_pods()                                 # each pod gets one step further in its life
    harness.settle(stateful_sets, web)                 # all of it, until nobody writes any more

Intents go through ``runtime.intent_executor`` and the client; ``memory_transport`` stands for the API server.
Time stands still unless ``harness.now`` is moved, or ``settle`` has nothing else to wait for.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

import msgspec
from tests.kit.memory_transport import NOUNS, MemoryObjects, MemoryTransport

from pilothouse.api import kind_names
from pilothouse.api.objects import Object, Tree
from pilothouse.base.rfc3339 import format_time
from pilothouse.client.api import Api
from pilothouse.meta.conditions import with_condition
from pilothouse.runtime.controller import Controller, ReconcileKey
from pilothouse.runtime.expectations import Expectations
from pilothouse.runtime.intent_executor import IntentExecutor
from pilothouse.runtime.intents import (
    Create,
    Delete,
    Evict,
    Intent,
    PatchObject,
    RequeueAfter,
    SetStatus,
    Update,
    Wait,
)
from pilothouse.runtime.reconcile_result import IntentOutcome
from pilothouse.runtime.snapshot import Snapshot, StaticView
from pilothouse.sim.loop import SeededLoop

WRITES = (Create, Update, PatchObject, SetStatus, Delete, Evict)
_MOST_ROUNDS = 400


class Refused(Exception):
    """The executor has refused an intent: an object is not what its author has seen."""


class ControllerHarness(MemoryObjects):
    """Objects, and controllers that work on them."""

    def __init__(self, *, now: float = 1_000_000.0) -> None:
        super().__init__(now=now)
        self.before_write: Callable[[Intent], None] = lambda intent: None
        """Called before each write, with the intent that asks for it."""
        self._executing: Intent | None = None
        self._problem: Exception | None = None
        transport = MemoryTransport(self, before_write=self._before_write)
        self._executor = IntentExecutor(
            Api(transport, random.Random(0), manager="harness"),
            manager="harness",
            noun_of=lambda api_version, kind: NOUNS.get((api_version, kind)),
            record_event=lambda about, reason, message, warning, source: None,
            expectations=Expectations(),
        )

    def pod(self, name: str) -> Object:
        """A pod that must exist."""
        return Object.of(self.trees[kind_names.Pod]["default", name])

    def status(self, one: Object) -> Tree:
        """The current status of an object."""
        tree = self.trees[NOUNS[one.api_version, one.kind]][one.namespace, one.name]
        return tree.get("status") or {}

    def edit(self, one: Object, **spec: Any) -> Object:
        """Change fields of the spec."""
        return self.change(one, lambda tree: tree["spec"].update(spec))

    def world(self) -> Snapshot:
        return Snapshot(
            {noun: StaticView(map(copy.deepcopy, trees.values())) for noun, trees in self.trees.items()},
            now=self.now,
        )

    def decide(self, controller: Controller, one: Object) -> list[Intent]:
        """The intents of the controller for the current objects."""
        seen = self.get(one.noun, one.name, one.namespace)
        return [] if seen is None else controller(Object.of(copy.deepcopy(seen.tree)), self.world())

    def step(self, controller: Controller, one: Object, *, crash_after: int | None = None) -> list[Intent]:
        """Decide, and execute the intents: all of them, or so many writes."""
        intents = self.decide(controller, one)
        self._execute(_until_crash(intents, crash_after), one)
        return intents

    def execute(self, intent: Intent) -> None:
        """Execute one intent. Raises Refused."""
        if isinstance(intent, Create):
            about = Object.of(intent.object)
        else:
            assert isinstance(intent, Update | PatchObject | SetStatus | Delete | Evict)
            about = intent.seen
        if not self._execute([intent], about):
            raise Refused(repr(intent))

    def _execute(self, intents: Iterable[Intent], about: Object) -> bool:
        """False if an intent was refused."""
        key = ReconcileKey(about.noun, about.namespace, about.name)
        executing = self._executor.execute(self._one_by_one(intents), about, key, lambda: None)
        results = _loop().run_until_complete(executing)
        if self._problem is not None:
            raise self._problem
        for result in results:
            assert result.outcome is not IntentOutcome.FAILED, f"{result.intent!r}: {result.message}"
        return all(result.outcome is not IntentOutcome.REFUSED for result in results)

    def _one_by_one(self, intents: Iterable[Intent]) -> Iterator[Intent]:
        """In order, also those that could be executed at the same time."""
        for intent in intents:
            self._executing = intent
            is_independent = isinstance(intent, PatchObject) and intent.independent
            yield msgspec.structs.replace(intent, independent=False) if is_independent else intent

    def _before_write(self) -> None:
        assert self._executing is not None
        try:
            self.before_write(self._executing)
        except Exception as problem:
            # The executor takes it for a failed write; the test has to see it.
            self._problem = problem
            raise

    def run_pods(self, *, broken: Callable[[Object], bool] = lambda pod: False) -> bool:
        """Each pod goes one step: it goes if it should, else it runs and, unless broken, gets ready. False if
        none moved."""
        moved = False
        for pod in self.all(kind_names.Pod):
            if pod.deleting:
                self.remove(pod)
                moved = True
            elif pod.status.get("phase") in ("Pending", "Running"):
                moved = self.set_ready(pod, not broken(pod)) or moved
        return moved

    def set_ready(self, pod: Object, ready: bool) -> bool:
        """Set a pod running, ready or not. False if it was so."""
        condition = {"type": "Ready", "status": "True" if ready else "False"}
        before = pod.status.get("conditions")
        conditions = with_condition(before, condition, now=format_time(self.now))
        if conditions == before and pod.status.get("phase") == "Running":
            return False
        self.change(pod, lambda tree: tree["spec"].setdefault("nodeName", "n1"))
        self.change(pod, lambda tree: tree.update(status={"phase": "Running", "conditions": conditions}))
        return True

    def fail(self, pod: Object, phase: str = "Failed") -> None:
        """End a pod."""
        self.change(pod, lambda tree: tree.update(status={"phase": phase}))

    def collect(self) -> bool:
        """Delete objects whose owners are all gone. False if there are none."""
        uids = {tree["metadata"]["uid"] for trees in self.trees.values() for tree in trees.values()}
        dangling = [
            Object.of(tree)
            for trees in self.trees.values()
            for tree in trees.values()
            if tree["metadata"].get("ownerReferences")
            and not any(owner["uid"] in uids for owner in tree["metadata"]["ownerReferences"])
        ]
        for one in dangling:
            self.delete(one)
        return any(not one.deleting for one in dangling)

    def settle(self, controller: Controller, one: Object) -> list[Intent]:
        """Run the controller, the kubelet and the collector until nothing is written. Returns the last intents."""
        for _ in range(_MOST_ROUNDS):
            intents = self.step(controller, one)
            wrote = any(isinstance(intent, WRITES) for intent in intents)
            moved = self.run_pods()
            collected = self.collect()
            if wrote or moved or collected:
                continue
            later = [intent.seconds for intent in intents if isinstance(intent, RequeueAfter)]
            if not later:
                return intents
            self.now += min(later)
        raise AssertionError(f"no end after {_MOST_ROUNDS} rounds; the last: {intents}")


def created(intents: list[Intent], kind: str = "Pod") -> list[str]:
    """The names of the objects to create."""
    creates = (intent.object for intent in intents if isinstance(intent, Create))
    return [tree["metadata"]["name"] for tree in creates if tree["kind"] == kind]


def deleted(intents: list[Intent], kind: str = "Pod") -> list[str]:
    """The names of the objects to delete."""
    deletes = (intent.seen for intent in intents if isinstance(intent, Delete))
    return [seen.name for seen in deletes if seen.kind == kind]


def reasons(intents: list[Intent]) -> list[str]:
    """The reasons of the waits."""
    return [wait.reason for wait in waits(intents)]


def waits(intents: list[Intent]) -> list[Wait]:
    return [intent for intent in intents if isinstance(intent, Wait)]


def _until_crash(intents: list[Intent], writes: int | None) -> Iterator[Intent]:
    """The intents before the write that comes after so many others."""
    done = 0
    for intent in intents:
        if isinstance(intent, WRITES):
            if done == writes:
                return
            done += 1
        yield intent


@cache
def _loop() -> SeededLoop:
    """One loop for every harness: nothing is left in it between two calls."""
    return SeededLoop()
