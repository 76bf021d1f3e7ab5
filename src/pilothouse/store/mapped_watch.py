"""A watch whose batches are mapped by a wrapping store.

    store.watch = lambda prefix, after: MappedWatch(inner.watch(prefix, after=after), self._opened)

An iterator, not a generator, so that cancelling a read is harmless, as with every watch.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from types import TracebackType

from pilothouse.store.interface import Batch, StoreError

Watch = AbstractAsyncContextManager[AsyncIterator[Batch]]


def _same(error: StoreError) -> StoreError:
    return error


class MappedWatch:
    """Batches pass through ``show``, errors through ``explain``."""

    def __init__(
        self,
        inner: Watch,
        show: Callable[[Batch], Batch],
        explain: Callable[[StoreError], StoreError] = _same,
    ) -> None:
        self._inner = inner
        self._show = show
        self._explain = explain
        self._batches: AsyncIterator[Batch] | None = None

    async def __aenter__(self) -> AsyncIterator[Batch]:
        try:
            self._batches = await self._inner.__aenter__()
        except StoreError as error:
            raise self._explain(error) from None
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._inner.__aexit__(kind, error, trace)

    def __aiter__(self) -> AsyncIterator[Batch]:
        return self

    async def __anext__(self) -> Batch:
        if self._batches is None:
            raise StopAsyncIteration
        try:
            return self._show(await anext(self._batches))
        except StoreError as error:
            raise self._explain(error) from None


class LostWatch:
    """A watch whose history is gone: it raises on the first read."""

    def __init__(self, error: StoreError) -> None:
        self._error = error

    async def __aenter__(self) -> AsyncIterator[Batch]:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    def __aiter__(self) -> AsyncIterator[Batch]:
        return self

    async def __anext__(self) -> Batch:
        raise self._error
