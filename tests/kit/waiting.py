"""Waiting for a condition instead of for a time.

phase = await eventually(lambda: phase_of(namespace), seconds=90)
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")
_PAUSE = 0.05
_LONGEST_PAUSE = 1.0


async def eventually(probe: Callable[[], Awaitable[T | None]], *, seconds: float = 90) -> T:
    """What `probe` gives once it is true; an AssertionError with its last answer when that takes too long.

    A probe that takes long, such as kubectl, is asked less often, so that the processors are left to what is waited for.
    """
    deadline = time.monotonic() + seconds
    while True:
        asked = time.monotonic()
        if found := await probe():
            return found
        answered = time.monotonic()
        if answered > deadline:
            raise AssertionError(f"still {found!r} after {seconds} s")
        await asyncio.sleep(min(max(_PAUSE, 3 * (answered - asked)), _LONGEST_PAUSE))
