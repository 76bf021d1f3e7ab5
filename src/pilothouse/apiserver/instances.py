"""The instances that share a store, known to each other.

    instances = Instances(store, lambda: Instance("host-1-5f3a", "https://10.0.0.7:6443", authority))
    async with instances.announced():
        await instances.others()

Each keeps a key of its own, below a prefix that the API does not serve; the key goes away by itself when nobody renews it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec

from pilothouse.store.interface import Conflict, Store, StoreError

PREFIX = "/pilothouse/instances/"
LIFETIME = 30.0
RENEWAL = 10.0

log = logging.getLogger(__name__)


class Instance(msgspec.Struct, frozen=True):
    """One server: its name, where the others reach it, and the certificate that its own is checked against (PEM)."""

    id: str
    url: str
    authority: str


class Instances:
    """This instance among the others."""

    def __init__(self, store: Store, me: Callable[[], Instance]) -> None:
        """``me`` is asked each time: its authorities may change."""
        self._store = store
        self._me = me
        self._key = PREFIX + me().id
        self._revision = 0

    @asynccontextmanager
    async def announced(self) -> AsyncIterator[None]:
        """The others know of this one while the context is open."""
        await self._announce()
        renewing = asyncio.create_task(self._renew())
        try:
            yield
        finally:
            renewing.cancel()
            await asyncio.gather(renewing, return_exceptions=True)
            with contextlib.suppress(StoreError):
                await self._store.delete(self._key, revision=self._revision)

    async def others(self) -> list[Instance]:
        """The other instances, by name. Raises ``StoreError``."""
        page = await self._store.list(PREFIX)
        found: list[Instance] = []
        for entry in page.entries:
            if entry.key != self._key:
                try:
                    found.append(msgspec.json.decode(entry.value, type=Instance))
                except msgspec.DecodeError as problem:
                    log.warning("%s is not what an instance writes: %s", entry.key, problem)
        return found

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(RENEWAL)
            try:
                await self._announce()
            except StoreError as problem:
                log.info("this instance could not announce itself: %s", problem)

    async def _announce(self) -> None:
        value = msgspec.json.encode(self._me())
        try:
            if self._revision:
                self._revision = await self._store.update(
                    self._key, value, revision=self._revision, ttl=LIFETIME
                )
            else:
                self._revision = await self._store.create(self._key, value, ttl=LIFETIME)
        except Conflict as changed:
            # It expired while the store could not be reached, or a write was made whose answer was lost.
            self._revision = changed.current.revision if changed.current else 0
            await self._announce()
