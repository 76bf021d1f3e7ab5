"""Compares the cache with the store at the same revision every few minutes.

A difference can only be a bug; it is logged and the cache is listed again, which makes watchers do the same.
"""

from __future__ import annotations

import asyncio
import logging
from hashlib import blake2b

from pilothouse.apiserver.discovery.catalog import ROOT
from pilothouse.apiserver.storage.watch_cache import WatchCache
from pilothouse.store.interface import StoreError

INTERVAL = 300.0
_PAGE = 1000
_MENTIONED = 10

log = logging.getLogger(__name__)


class ConsistencyChecker:
    def __init__(self, cache: WatchCache, interval: float = INTERVAL) -> None:
        self._cache = cache
        self._interval = interval

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._interval)
            if self._cache.ready:
                await self._audit()

    async def _audit(self) -> None:
        try:
            problems = await audit(self._cache)
        except StoreError as problem:
            # History may have been compacted, or the store is away: that says nothing about the cache.
            log.info("the cache could not be audited: %s", problem)
            return
        if problems:
            listed = "; ".join(problems[:_MENTIONED])
            log.error(
                "the cache differs from the store in %d places and is rebuilt: %s", len(problems), listed
            )
            self._cache.rebuild()


async def audit(cache: WatchCache) -> list[str]:
    """The differences between cache and store at the cache's revision."""
    revision = cache.revision
    held = {
        item.key: (item.revision, _digest(item.value))
        for collection in cache.collections()
        for item in collection.items.values()
    }
    problems = []
    after = ""
    while True:
        page = await cache.store.list(ROOT, revision=revision, limit=_PAGE, after=after)
        for entry in page.entries:
            found = held.pop(entry.key, None)
            if found is None:
                problems.append(f"{entry.key} is in the store and not in the cache")
            elif found != (entry.revision, _digest(entry.value)):
                problems.append(
                    f"{entry.key} is at {entry.revision} in the store and at {found[0]} in the cache"
                )
        if not page.remaining:
            break
        after = page.entries[-1].key
    return problems + [f"{key} is in the cache and not in the store" for key in held]


def _digest(value: bytes) -> bytes:
    return blake2b(value, digest_size=8).digest()
