"""A store that measures the duration of its calls.

    store = TimedStore(MemoryStore())
    await store.create("/a", b"1")
    store.seconds["create"].counts

Failed calls count too. Watches are not timed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine
from time import perf_counter
from typing import Any, Protocol, TypeVar, runtime_checkable

from pilothouse.base.histogram import Histogram
from pilothouse.store.interface import Entry, EntryPage, Guard, Store
from pilothouse.store.wrapped_store import WrappedStore

SECONDS = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01),
    *(0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
)
T = TypeVar("T")
CALLS = ("revision", "get", "list", "create", "update", "delete", "compact")


class TimedStore(WrappedStore):
    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.seconds = {call: Histogram(SECONDS) for call in CALLS}

    def revision(self) -> Coroutine[Any, Any, int]:
        return self._timed("revision", self.inner.revision())

    def get(self, key: str) -> Coroutine[Any, Any, Entry | None]:
        return self._timed("get", self.inner.get(key))

    def list(
        self, prefix: str, *, revision: int = 0, limit: int = 0, after: str = ""
    ) -> Coroutine[Any, Any, EntryPage]:
        return self._timed("list", self.inner.list(prefix, revision=revision, limit=limit, after=after))

    def create(
        self, key: str, value: bytes, *, ttl: float = 0, guard: Guard | None = None
    ) -> Coroutine[Any, Any, int]:
        return self._timed("create", self.inner.create(key, value, ttl=ttl, guard=guard))

    def update(
        self, key: str, value: bytes, *, revision: int, ttl: float = 0, guard: Guard | None = None
    ) -> Coroutine[Any, Any, int]:
        return self._timed("update", self.inner.update(key, value, revision=revision, ttl=ttl, guard=guard))

    def delete(self, key: str, *, revision: int, guard: Guard | None = None) -> Coroutine[Any, Any, int]:
        return self._timed("delete", self.inner.delete(key, revision=revision, guard=guard))

    def compact(self, revision: int) -> Coroutine[Any, Any, None]:
        return self._timed("compact", self.inner.compact(revision))

    async def _timed(self, call: str, answer: Awaitable[T]) -> T:
        began = perf_counter()
        try:
            return await answer
        finally:
            self.seconds[call].observe(perf_counter() - began)


@runtime_checkable
class Grouping(Protocol):
    """A store that commits writes in groups."""

    @property
    def group_sizes(self) -> Histogram:
        """How many writes became durable together."""

    @property
    def commit_seconds(self) -> Histogram:
        """How long the commits took."""


def grouping(store: object) -> Grouping | None:
    """The innermost store, if it commits in groups."""
    while not isinstance(store, Grouping):
        store = getattr(store, "inner", None)
        if store is None:
            return None
    return store
