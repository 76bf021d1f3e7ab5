"""A store around another one, which it passes every call on to; subclasses override what they change."""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any

from pilothouse.store.interface import Batch, Entry, EntryPage, Guard, Store


class WrappedStore:
    def __init__(self, inner: Store) -> None:
        self.inner = inner

    @property
    def current(self) -> int | None:
        return self.inner.current

    def revision(self) -> Coroutine[Any, Any, int]:
        return self.inner.revision()

    def get(self, key: str) -> Coroutine[Any, Any, Entry | None]:
        return self.inner.get(key)

    def list(
        self, prefix: str, *, revision: int = 0, limit: int = 0, after: str = ""
    ) -> Coroutine[Any, Any, EntryPage]:
        return self.inner.list(prefix, revision=revision, limit=limit, after=after)

    def create(
        self, key: str, value: bytes, *, ttl: float = 0, guard: Guard | None = None
    ) -> Coroutine[Any, Any, int]:
        return self.inner.create(key, value, ttl=ttl, guard=guard)

    def update(
        self, key: str, value: bytes, *, revision: int, ttl: float = 0, guard: Guard | None = None
    ) -> Coroutine[Any, Any, int]:
        return self.inner.update(key, value, revision=revision, ttl=ttl, guard=guard)

    def delete(self, key: str, *, revision: int, guard: Guard | None = None) -> Coroutine[Any, Any, int]:
        return self.inner.delete(key, revision=revision, guard=guard)

    def watch(self, prefix: str, *, after: int) -> AbstractAsyncContextManager[AsyncIterator[Batch]]:
        return self.inner.watch(prefix, after=after)

    def progress(self) -> Coroutine[Any, Any, None]:
        return self.inner.progress()

    def compact(self, revision: int) -> Coroutine[Any, Any, None]:
        return self.inner.compact(revision)

    def close(self) -> Coroutine[Any, Any, None]:
        return self.inner.close()
