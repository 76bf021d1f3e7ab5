"""Long loops that yield to the event loop.

A loop that runs for seconds lets no lease be renewed and no health check be answered. The event loop gets its
turn after a number of items, not after a time, so that a run in virtual time is always the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

T = TypeVar("T")

STRETCH: Final = 200
"""Items between two turns: at ten microseconds each, a few milliseconds."""


async def yielding(things: Iterable[T], take: Callable[[T], object], *, stretch: int = STRETCH) -> None:
    """Call ``take`` with each item, in order; every ``stretch`` items the event loop gets a turn."""
    taken = 0
    for thing in things:
        if taken == stretch:
            await asyncio.sleep(0)
            taken = 0
        take(thing)
        taken += 1
