"""The server instances that share a store.

    instances = ServerInstances(store, lambda: ServerInstance("host-1", "https://10.0.0.7:6443", authority))
    async with instances.announced():
        await instances.others()        # who else runs
        await instances.absent()        # who has run, and does not

Each has two keys that the API does not serve: one that expires soon unless renewed (the instance runs), and
one that lasts a month (the instance has records that are missing while it is away).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count

import msgspec

from pilothouse.aio.background_tasks import BackgroundTasks
from pilothouse.store.interface import Conflict, Store, StoreError

PREFIX = "/pilothouse/instances/"
RUNNING, KNOWN = f"{PREFIX}running/", f"{PREFIX}known/"
LIFETIME = 30.0
RENEWAL = 10.0
REMEMBERED = 30 * 86_400.0
"""As long as audit records are kept by default."""
_RENEWALS_A_DAY = round(86_400 / RENEWAL)

log = logging.getLogger(__name__)


class ServerInstance(msgspec.Struct, frozen=True):
    """One server: its name, its address for others, and the authority of its certificate (PEM)."""

    id: str
    url: str
    authority: str


async def running(store: Store) -> list[ServerInstance]:
    """All that run, by name. Raises ``StoreError``."""
    return await _listed(store, RUNNING)


async def _listed(store: Store, prefix: str) -> list[ServerInstance]:
    found: list[ServerInstance] = []
    for entry in (await store.list(prefix)).entries:
        try:
            found.append(msgspec.json.decode(entry.value, type=ServerInstance))
        except msgspec.DecodeError as problem:
            log.warning("%s is not what an instance writes: %s", entry.key, problem)
    return found


class ServerInstances:
    def __init__(self, store: Store, me: Callable[[], ServerInstance]) -> None:
        """``me`` is called each time: its authorities may change."""
        self._store = store
        self._me = me
        self._id = me().id
        self._running = _Sign(store, RUNNING + self._id, LIFETIME)
        self._known = _Sign(store, KNOWN + self._id, REMEMBERED)

    @asynccontextmanager
    async def announced(self) -> AsyncIterator[None]:
        """The others know this one while the context is open, and for a month that it has run."""
        await self._known.put(self._value())
        await self._running.put(self._value())
        try:
            async with BackgroundTasks({"announcing": self._renew}).running():
                yield
        finally:
            with contextlib.suppress(StoreError):
                await self._running.remove()

    async def others(self) -> list[ServerInstance]:
        """The other instances that run, by name. Raises ``StoreError``."""
        return [each for each in await running(self._store) if each.id != self._id]

    async def absent(self) -> list[ServerInstance]:
        """Those that ran within a month and have stopped, by name, as last seen. Raises ``StoreError``."""
        up = {each.id for each in await running(self._store)}
        return [each for each in await _listed(self._store, KNOWN) if each.id not in up | {self._id}]

    async def _renew(self) -> None:
        for turn in count(1):
            await asyncio.sleep(RENEWAL)
            try:
                await self._running.put(self._value())
                if turn % _RENEWALS_A_DAY == 0:
                    await self._known.put(self._value())
            except StoreError as problem:
                log.info("this instance could not announce itself: %s", problem)

    def _value(self) -> bytes:
        return msgspec.json.encode(self._me())


class _Sign:
    """A key that one instance writes, and that expires unless renewed."""

    def __init__(self, store: Store, key: str, lifetime: float) -> None:
        self._store = store
        self._key = key
        self._lifetime = lifetime
        self._revision = 0

    async def put(self, value: bytes) -> None:
        """Make or renew it."""
        try:
            if self._revision:
                self._revision = await self._store.update(
                    self._key, value, revision=self._revision, ttl=self._lifetime
                )
            else:
                self._revision = await self._store.create(self._key, value, ttl=self._lifetime)
        except Conflict as changed:
            # It expired while the store was unreachable, a response was lost, or an earlier run left it.
            self._revision = changed.current.revision if changed.current else 0
            await self.put(value)

    async def remove(self) -> None:
        await self._store.delete(self._key, revision=self._revision)
