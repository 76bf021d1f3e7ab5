"""The store interface on etcd: each write one transaction, each watch one stream.

A write compares the revisions of key and guards and puts or deletes; if a comparison fails, the same
transaction reads what is there, for the conflict.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any

from pilothouse.store.etcd import messages as wire
from pilothouse.store.etcd import transactions
from pilothouse.store.etcd.cluster_connection import (
    COMPACT,
    RANGE,
    STATUS,
    TXN,
    ClusterConnection,
    GrpcRefused,
)
from pilothouse.store.etcd.etcd_watch import EtcdWatch
from pilothouse.store.etcd.lease_pool import LeasePool
from pilothouse.store.etcd.member_endpoint import Tls
from pilothouse.store.interface import (
    Batch,
    Compacted,
    Conflict,
    Entry,
    EntryPage,
    FutureRevision,
    Guard,
    GuardFailed,
    NoSpace,
    StoreError,
    TooLarge,
    Unavailable,
)
from pilothouse.store.keys import end_of, start_of

_PAGE = 2000
"""How many keys one call reads at most, so that a long listing doesn't run into a call's deadline."""


class EtcdStore:
    def __init__(
        self, connection: ClusterConnection, *, prefix: str, progress_every: float, watch_patience: float
    ) -> None:
        self._connection = connection
        self._prefix = prefix
        self._base = len(prefix.encode())
        self._watch_patience = watch_patience
        self._leases = LeasePool(connection, clock=asyncio.get_running_loop().time)
        self._watches: set[EtcdWatch] = set()
        self._ticker = asyncio.create_task(self._tick(progress_every), name="etcd-progress")

    @classmethod
    async def open(
        cls,
        endpoints: Sequence[str],
        *,
        prefix: str = "",
        tls: Tls | None = None,
        user: str = "",
        password: str = "",
        timeout: float = 10.0,
        progress_every: float = 5.0,
        watch_patience: float = 60.0,
    ) -> EtcdStore:
        """Connect to the cluster, or raise ``Unavailable``.

        ``prefix`` precedes every key; ``timeout`` limits each call. A watch without a working member for
        ``watch_patience`` seconds ends with ``Unavailable``.
        """
        connection = ClusterConnection(endpoints, tls=tls, user=user, password=password, timeout=timeout)
        try:
            await connection.call(STATUS, b"", repeatable=True)
        except BaseException:
            await connection.close()
            raise
        return cls(connection, prefix=prefix, progress_every=progress_every, watch_patience=watch_patience)

    @property
    def current(self) -> None:
        """Unknown: others write too."""
        return

    async def revision(self) -> int:
        answer = await self._range(wire.RangeRequest(key=b"\0", count_only=True))
        revision: int = answer.header.revision
        return revision

    async def get(self, key: str) -> Entry | None:
        answer = await self._range(wire.RangeRequest(key=self._key(key)))
        return self._entry(answer.kvs[0]) if answer.kvs else None

    async def list(self, prefix: str, *, revision: int = 0, limit: int = 0, after: str = "") -> EntryPage:
        end = self._end(prefix)
        entries: list[Entry] = []
        while True:
            want = min(limit - len(entries), _PAGE) if limit else _PAGE
            start = self._start(start_of(prefix, entries[-1].key if entries else after))
            answer = await self._range(
                wire.RangeRequest(key=start, range_end=end, limit=want, revision=revision), revision
            )
            # Every further page shows the revision of the first.
            revision = revision or answer.header.revision
            entries += map(self._entry, answer.kvs)
            if not answer.more or (limit and len(entries) >= limit):
                return EntryPage(entries, revision, answer.count - len(answer.kvs))

    async def create(self, key: str, value: bytes, *, ttl: float = 0, guard: Guard | None = None) -> int:
        return await self._put(key, value, 0, ttl, guard)

    async def update(
        self, key: str, value: bytes, *, revision: int, ttl: float = 0, guard: Guard | None = None
    ) -> int:
        return await self._put(key, value, revision or -1, ttl, guard)

    async def delete(self, key: str, *, revision: int, guard: Guard | None = None) -> int:
        return await self._write(key, transactions.delete(self._key(key)), revision or -1, guard)

    @asynccontextmanager
    async def _watch(self, prefix: str, after: int) -> AsyncIterator[AsyncIterator[Batch]]:
        watch = EtcdWatch(
            self._connection,
            self._start(prefix),
            self._end(prefix),
            after=after,
            base=self._base,
            patience=self._watch_patience,
        )
        self._watches.add(watch)
        try:
            async with watch as batches:
                yield batches
        finally:
            self._watches.discard(watch)

    def watch(self, prefix: str, *, after: int) -> AbstractAsyncContextManager[AsyncIterator[Batch]]:
        return self._watch(prefix, after)

    async def progress(self) -> None:
        self._connection.check_open()
        for watch in self._watches:
            watch.ask_for_mark()

    async def compact(self, revision: int) -> None:
        if revision <= 0:
            return
        try:
            request = wire.CompactionRequest(revision=revision).SerializeToString()
            await self._connection.call(COMPACT, request, repeatable=True)
        except GrpcRefused as refusal:
            if "future revision" in refusal.details:
                raise FutureRevision(revision, await self.revision()) from refusal
            if "has been compacted" not in refusal.details:
                raise _translated(refusal) from refusal

    async def close(self) -> None:
        self._ticker.cancel()
        await asyncio.gather(self._ticker, return_exceptions=True)
        for watch in self._watches:
            watch.fail(Unavailable("the store is closed"))
        await self._connection.close()

    async def _put(self, key: str, value: bytes, revision: int, ttl: float, guard: Guard | None) -> int:
        name = self._key(key)
        if ttl <= 0:
            return await self._write(key, transactions.put(name, value, 0), revision, guard)
        lease = await self._leases.lasting(ttl)
        try:
            return await self._write(key, transactions.put(name, value, lease), revision, guard)
        except LeaseGone:
            # GrpcRefused as a whole, so it can be tried again.
            self._leases.forget(lease)
            lease = await self._leases.lasting(ttl)
            return await self._write(key, transactions.put(name, value, lease), revision, guard)

    async def _write(self, key: str, act: bytes, revision: int, guard: Guard | None) -> int:
        """Act if the key's last revision is ``revision`` (0: it does not exist)."""
        guards = list(guard.every()) if guard is not None else []
        expected = [(self._key(key), revision), *((self._key(each.key), each.revision) for each in guards)]
        request = transactions.conditional(expected, act)
        try:
            answer = await self._connection.call(TXN, request, repeatable=False)
        except GrpcRefused as refusal:
            raise _translated(refusal, key) from refusal
        if answer.succeeded:
            written: int = answer.header.revision
            return written
        there, *others = (found.response_range.kvs for found in answer.responses)
        for each, found in zip(guards, others, strict=True):
            if (found[0].mod_revision if found else 0) != each.revision:
                raise GuardFailed(each)
        raise Conflict(key, self._entry(there[0]) if there else None)

    async def _range(self, request: Any, revision: int = 0) -> Any:
        try:
            return await self._connection.call(RANGE, request.SerializeToString(), repeatable=True)
        except GrpcRefused as refusal:
            if "has been compacted" in refusal.details:
                # etcd does not say what the oldest kept is; it is later than this.
                raise Compacted(revision, revision + 1) from refusal
            if "future revision" in refusal.details:
                raise FutureRevision(revision, await self.revision()) from refusal
            raise _translated(refusal) from refusal

    async def _tick(self, every: float) -> None:
        while True:
            await asyncio.sleep(every)
            with suppress(Unavailable):
                await self.progress()

    def _key(self, key: str) -> bytes:
        return (self._prefix + key).encode()

    def _start(self, key: str) -> bytes:
        """The start of a range; etcd takes no empty key."""
        return self._key(key) or b"\0"

    def _end(self, prefix: str) -> bytes:
        """The end of a range; etcd takes a single zero byte for "to the end"."""
        return end_of(self._prefix + prefix).encode() or b"\0"

    def _entry(self, kv: Any) -> Entry:
        return Entry(kv.key[self._base :].decode(), kv.value, kv.mod_revision, kv.create_revision)


class LeaseGone(StoreError):
    """The lease that a write named has ended."""


def _translated(refusal: GrpcRefused, key: str = "") -> StoreError:
    details = refusal.details
    if "too large" in details or "larger than max" in details:
        return TooLarge(f"{key}: more than etcd takes: {details}")
    if "lease not found" in details:
        return LeaseGone(details)
    if "space exceeded" in details:
        return NoSpace(
            f"etcd is full and accepts no writes until it is compacted, defragmented and disarmed: {details}"
        )
    return StoreError(f"etcd refuses: {details} ({refusal.code})")
