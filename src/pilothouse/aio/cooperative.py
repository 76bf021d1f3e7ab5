"""Long loops that yield to the event loop.

    await yielding(ten_thousand, take)

A loop that runs for seconds lets no lease be renewed and no health check be answered. So after a fixed number
of items the event loop gets a turn; a short loop runs without any. It is a number and not a time, so that a
run in virtual time is always the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

T = TypeVar("T")

STRETCH: Final = 200
"""Items between two turns: at ten microseconds each, a few milliseconds."""


async def yielding(things: Iterable[T], take: Callable[[T], object], *, stretch: int = STRETCH) -> None:
    """Call ``take`` with each item, in order."""
    taken = 0
    for thing in things:
        if taken == stretch:
            await asyncio.sleep(0)
            taken = 0
        take(thing)
        taken += 1
