"""One at a time per key.

    async with turns.of("pods/a"):
        ...

Where nobody else wants the key this costs a look-up and no waiting. Whoever waits is served in order of coming.
"""

from __future__ import annotations

import asyncio
from collections import deque
from types import TracebackType


class Turns:
    """Who may act on which key."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    def of(self, key: str) -> Turn:
        """A turn at a key, taken by entering it."""
        return Turn(self._waiting, key)


class Turn:
    """An async context: entered when it is this one's turn."""

    __slots__ = ("_key", "_waiting")

    def __init__(self, waiting: dict[str, deque[asyncio.Future[None]]], key: str) -> None:
        self._waiting = waiting
        self._key = key

    async def __aenter__(self) -> None:
        queue = self._waiting.get(self._key)
        if queue is None:
            self._waiting[self._key] = deque()
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._pass_on()
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pass_on()

    def _pass_on(self) -> None:
        queue = self._waiting[self._key]
        while queue:
            turn = queue.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        del self._waiting[self._key]
