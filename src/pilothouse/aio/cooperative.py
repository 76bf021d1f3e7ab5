"""Long work that leaves others their turn.

    await yielding(ten_thousand, take)

A loop that is busy for seconds renews no lease and answers no question about its health. Whoever has thousands of things to
take up does so many at a stretch; in between, the loop does what else there is. Work that is short waits for nothing: it is
done in one go, as by a plain loop. The stretch is a number of things and not a time, so that in virtual time it is always
the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

T = TypeVar("T")

STRETCH: Final = 200
"""Things that take some ten microseconds each are a few milliseconds together."""


async def yielding(things: Iterable[T], take: Callable[[T], object], *, stretch: int = STRETCH) -> None:
    """Call ``take`` with each, in order."""
    taken = 0
    for thing in things:
        if taken == stretch:
            await asyncio.sleep(0)
            taken = 0
        take(thing)
        taken += 1
