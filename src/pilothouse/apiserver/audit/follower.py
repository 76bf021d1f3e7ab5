"""Where lines wait for somebody who follows the trail."""

from __future__ import annotations

import asyncio
from collections import deque


class Follower:
    """Receives each line as it is made. One that reads too slowly falls behind, and is notified."""

    def __init__(self, most: int) -> None:
        self._lines: deque[bytes] = deque()
        self._most = most
        self._more = asyncio.Event()
        self.behind = False

    def give(self, line: bytes) -> None:
        if len(self._lines) >= self._most:
            self.behind = True
        else:
            self._lines.append(line)
        self._more.set()

    def drain(self) -> list[bytes]:
        """The buffered lines, without waiting."""
        lines = list(self._lines)
        self._lines.clear()
        self._more.clear()
        return lines

    async def wait(self) -> None:
        await self._more.wait()
