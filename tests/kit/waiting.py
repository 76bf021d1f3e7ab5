"""Waiting for a condition instead of for a time.

phase = await eventually(lambda: phase_of(namespace), seconds=90)
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


async def eventually(probe: Callable[[], Awaitable[T | None]], *, seconds: float = 90) -> T:
    """What `probe` gives once it is true; an AssertionError with its last answer when that takes too long."""
    deadline = time.monotonic() + seconds
    while not (found := await probe()):
        if time.monotonic() > deadline:
            raise AssertionError(f"still {found!r} after {seconds} s")
        await asyncio.sleep(0.05)
    return found
