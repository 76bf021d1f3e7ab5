"""Work that is done unless something else happens first.

    if not await unless(server.finish(grace), hurried.wait()):
        ...                                 # there was a hurry, and finishing was given up

Neither goes on when this returns, or is cancelled. A failure of either is raised, also one of work that fails as it is ended:
nobody else would hear of it. Only whoever is cancelled hears of that alone, whatever fails as the two are ended for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable


async def unless(work: Awaitable[object], interruption: Awaitable[object]) -> bool:
    """Whether the work was done. Once the interruption is over the work is cancelled, and the other way round."""
    doing, waiting = asyncio.ensure_future(work), asyncio.ensure_future(interruption)
    try:
        _, left = await asyncio.wait((doing, waiting), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in (doing, waiting):
            each.cancel()
        await asyncio.gather(doing, waiting, return_exceptions=True)
    for each in (doing, waiting):
        if each not in left or not each.cancelled():
            each.result()
    return doing not in left
