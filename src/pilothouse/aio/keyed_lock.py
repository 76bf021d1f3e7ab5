"""Locks by key; waiters are served in order.

async with locks.of("pods/a"):
    ...
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Generator
from types import TracebackType
from typing import Final


class _AtOnce:
    """A completed awaitable: makes an uncontended lock free of a coroutine. It can be awaited repeatedly."""

    def __await__(self) -> Generator[None, None, None]:
        yield from ()


_AT_ONCE: Final = _AtOnce()


class KeyedLocks:
    """A lock for each key in use."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    def of(self, key: str) -> KeyedLock:
        return KeyedLock(self._waiting, key)


class KeyedLock:
    """The lock of one key, for ``async with``."""

    __slots__ = ("_key", "_waiting")

    def __init__(self, waiting: dict[str, deque[asyncio.Future[None]]], key: str) -> None:
        self._waiting = waiting
        self._key = key

    def __aenter__(self) -> Awaitable[None]:
        queue = self._waiting.get(self._key)
        if queue is None:
            self._waiting[self._key] = deque()
            return _AT_ONCE
        return self._wait(queue)

    def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Awaitable[None]:
        self._pass_on()
        return _AT_ONCE

    async def _wait(self, queue: deque[asyncio.Future[None]]) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._pass_on()
            raise

    def _pass_on(self) -> None:
        queue = self._waiting[self._key]
        while queue:
            turn = queue.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        del self._waiting[self._key]
