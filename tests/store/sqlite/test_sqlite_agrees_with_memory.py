"""Any sequence of acts gives the same answers on SQLite as on the model, over restarts too."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from pilothouse.store.interface import Change, Guard, Store, StoreError
from pilothouse.store.memory import MemoryStore
from pilothouse.store.sqlite import SqliteStore

T = TypeVar("T")

KEYS = st.sampled_from(["/a/1", "/a/2", "/a", "/ab/1", "/a/1/x", "/ä/1", "/🚢", "b"])
PREFIXES = st.sampled_from(["", "/", "/a", "/a/", "/a/1", "/ab/", "/ä", "/none/"])
VALUES = st.binary(max_size=20)
OFFSETS = st.integers(min_value=-3, max_value=1)


class Twins(RuleBasedStateMachine):
    """The model and SQLite, side by side."""

    revisions = Bundle("revisions")

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="twins-"))
        self.runner = asyncio.Runner()

    @initialize(target=revisions)
    def open(self) -> int:
        async def both() -> tuple[MemoryStore, SqliteStore]:
            return MemoryStore(progress_every=0), await SqliteStore.open(
                self.folder / "store", progress_every=0
            )

        self.model, self.sqlite = self.runner.run(both())
        return self.model.current

    def on_both(self, act: Callable[[Store], Awaitable[Any]]) -> Any:
        """Do the same on both; the answers, refusals included, must be equal."""

        async def run() -> Any:
            expected, found = await _outcome(act(self.model)), await _outcome(act(self.sqlite))
            assert found == expected
            return expected

        return self.runner.run(run())

    @rule(target=revisions, key=KEYS, value=VALUES)
    def create(self, key: str, value: bytes) -> int:
        self.on_both(lambda store: store.create(key, value))
        return self.model.current

    @rule(target=revisions, key=KEYS, value=VALUES)
    def update_the_latest(self, key: str, value: bytes) -> int:
        revision = self.standing(key)
        self.on_both(lambda store: store.update(key, value, revision=revision))
        return self.model.current

    @rule(key=KEYS, value=VALUES, revision=revisions)
    def update_at_some_revision(self, key: str, value: bytes, revision: int) -> None:
        self.on_both(lambda store: store.update(key, value, revision=revision))

    @rule(target=revisions, key=KEYS)
    def delete_the_latest(self, key: str) -> int:
        revision = self.standing(key)
        self.on_both(lambda store: store.delete(key, revision=revision))
        return self.model.current

    @rule(key=KEYS, other=KEYS, value=VALUES, revision=revisions)
    def create_under_a_guard(self, key: str, other: str, value: bytes, revision: int) -> None:
        self.on_both(lambda store: store.create(key, value, guard=Guard(other, revision)))

    @rule(key=KEYS, other=KEYS, value=VALUES)
    def update_under_a_guard_that_holds(self, key: str, other: str, value: bytes) -> None:
        revision, guard = self.standing(key), Guard(other, self.standing(other))
        self.on_both(lambda store: store.update(key, value, revision=revision, guard=guard))

    @rule(key=KEYS)
    def get(self, key: str) -> None:
        self.on_both(lambda store: store.get(key))

    @rule(prefix=PREFIXES, limit=st.integers(0, 4), after=st.one_of(st.just(""), KEYS))
    def list_the_present(self, prefix: str, limit: int, after: str) -> None:
        self.on_both(lambda store: store.list(prefix, limit=limit, after=after))

    @rule(
        prefix=PREFIXES,
        limit=st.integers(0, 4),
        after=st.one_of(st.just(""), KEYS),
        revision=revisions,
        by=OFFSETS,
    )
    def list_the_past(self, prefix: str, limit: int, after: str, revision: int, by: int) -> None:
        at = max(revision + by, 0)
        self.on_both(lambda store: store.list(prefix, revision=at, limit=limit, after=after))

    @rule(prefix=PREFIXES, revision=revisions, by=OFFSETS)
    def watch_the_past(self, prefix: str, revision: int, by: int) -> None:
        after = max(revision + by, 0)

        async def follow(store: Store) -> Any:
            changes: list[Change] = []
            async with store.watch(prefix, after=after) as batches:
                mark = after
                while mark < (store.current or 0):
                    await store.progress()
                    batch = await anext(batches)
                    changes += batch.changes
                    mark = batch.revision
            return changes

        self.on_both(follow)

    @rule(revision=revisions, by=OFFSETS)
    def compact(self, revision: int, by: int) -> None:
        self.on_both(lambda store: store.compact(max(revision + by, 0)))

    @rule()
    def restart(self) -> None:
        async def again() -> SqliteStore:
            await self.sqlite.close()
            return await SqliteStore.open(self.folder / "store", progress_every=0)

        self.sqlite = self.runner.run(again())

    @invariant()
    def they_stand_at_the_same_revision(self) -> None:
        if hasattr(self, "model"):
            assert self.sqlite.current == self.model.current

    def standing(self, key: str) -> int:
        entry = self.runner.run(self.model.get(key))
        return entry.revision if entry else 0

    def teardown(self) -> None:
        if hasattr(self, "sqlite"):
            self.runner.run(self.sqlite.close())
            self.runner.run(self.model.close())
        self.runner.close()
        shutil.rmtree(self.folder)


async def _outcome(call: Awaitable[T]) -> T | tuple[type[StoreError], str]:
    try:
        return await call
    except StoreError as error:
        return type(error), str(error)


TestSqliteAgreesWithMemory = Twins.TestCase
TestSqliteAgreesWithMemory.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
