"""Reading a watch in a test: what to wait for, and how long at most."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from pilothouse.store.interface import Batch, Change

PATIENCE = 120.0


async def next_batch(batches: AsyncIterator[Batch]) -> Batch:
    """The next batch, marks included."""
    return await asyncio.wait_for(anext(batches), PATIENCE)


async def collect(batches: AsyncIterator[Batch], count: int) -> list[Change]:
    """At least ``count`` changes, in the order in which they come."""
    found: list[Change] = []
    while len(found) < count:
        found += (await next_batch(batches)).changes
    return found


async def until(batches: AsyncIterator[Batch], revision: int) -> list[Change]:
    """Every change up to ``revision``: reads on until a batch's mark reaches it."""
    found: list[Change] = []
    while True:
        batch = await next_batch(batches)
        found += batch.changes
        if batch.revision >= revision:
            return found


def brief(changes: list[Change]) -> list[tuple[str, bytes | None]]:
    return [(change.key, change.value) for change in changes]
