"""Compacts the store periodically.

Each round compacts up to the revision of the round before, so history lasts between one and two intervals.
"""

from __future__ import annotations

import asyncio
import logging

from pilothouse.store.interface import Compacted, Store, StoreError

log = logging.getLogger(__name__)


class Compactor:
    """Compacts a store at intervals. Several instances may do so."""

    def __init__(self, store: Store, interval: float) -> None:
        self._store = store
        self._interval = interval

    async def run(self) -> None:
        passed = 0
        while True:
            try:
                latest = await self._store.revision()
                if passed:
                    await self._store.compact(passed)
                passed = latest
            except Compacted:
                passed = 0
            except StoreError as problem:
                log.warning("history could not be compacted: %s", problem)
            await asyncio.sleep(self._interval)
