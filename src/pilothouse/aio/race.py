"""Awaits work unless something else happens first.

if not await unless(server.finish(grace), hurried.wait()):
    ...                                 # interrupted: finishing was cancelled
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable


async def unless(work: Awaitable[object], interruption: Awaitable[object]) -> bool:
    """True if the work was done. When either ends, or the caller is cancelled, the other is cancelled.

    A failure of either is raised, also that of work that fails while it is cancelled.
    """
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
