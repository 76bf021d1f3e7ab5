"""Walking through all keys below a prefix, a page at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator

from pilothouse.store.interface import EntryPage, Store

SIZE = 1000


async def pages(
    store: Store, prefix: str, *, revision: int = 0, size: int = SIZE
) -> AsyncIterator[EntryPage]:
    """Every page of a listing as of ``revision``; with 0 each page shows the moment at which it is read."""
    after = ""
    while True:
        page = await store.list(prefix, revision=revision, limit=size, after=after)
        yield page
        if not page.remaining:
            return
        after = page.entries[-1].key
