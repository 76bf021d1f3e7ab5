"""A watch on an etcd cluster that outlives its connections.

    async with EtcdWatch(connection, b"/pods/", b"/pods0", after=41, ...) as batches:
        async for batch in batches: ...

A task reads the stream into a bounded buffer, so cancelling a read is harmless and a slow reader holds up
etcd.

*No gap, no repeat.* Everything up to ``position`` has been taken. Each stream starts *at* that revision and
drops it again: started one later, etcd would not report a compaction at exactly that revision. Fragments are
joined before the position moves. A watch far behind uses several watchers (``history_replay``).

*Progress.* etcd's periodic progress is in order with events. Requested progress is only since 3.5.8 and
3.4.25; from older or unknown members it is ignored.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable
from typing import Any

from pilothouse.store.etcd import messages as wire
from pilothouse.store.etcd.cluster_connection import WATCH, ClusterConnection
from pilothouse.store.etcd.grpc_status import CallFailed
from pilothouse.store.etcd.history_replay import HistoryReplay
from pilothouse.store.etcd.http2_streams import BidiStream
from pilothouse.store.etcd.member_endpoint import MemberEndpoint
from pilothouse.store.interface import Batch, Change, Compacted, StoreError, Unavailable

_BUFFERED = 4096
_PROGRESS = wire.WatchRequest(progress_request=wire.WatchProgressRequest()).SerializeToString()
_ASKED_FOR = -1
"""The watch id of a requested progress mark."""


class StreamLost(Exception):
    """The stream has ended and another may take its place."""


class EtcdWatch:
    def __init__(
        self, connection: ClusterConnection, key: bytes, end: bytes, *, after: int, base: int, patience: float
    ) -> None:
        self._connection = connection
        self._key = key
        self._end = end
        self._position = after
        self._base = base
        """How many bytes at the start of each key are the store's own prefix."""
        self._patience = patience
        self._batches: deque[Batch] = deque()
        self._held = 0
        self._changed = asyncio.Event()
        self._room = asyncio.Event()
        self._error: Exception | None = None
        self._ended = False
        self._reading: asyncio.Task[None] | None = None
        self._stream: BidiStream | None = None
        self._mark_wanted = False
        self._last_heard = 0.0
        self._relay = HistoryReplay()

    async def __aenter__(self) -> AsyncIterator[Batch]:
        self._connection.check_open()
        self._reading = asyncio.create_task(self._run(), name="etcd-watch")
        self._reading.add_done_callback(self._stopped_reading)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._ended = True
        self._changed.set()
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)

    def __aiter__(self) -> AsyncIterator[Batch]:
        return self

    async def __anext__(self) -> Batch:
        while not self._ended:
            if self._batches:
                batch = self._batches.popleft()
                self._held -= len(batch.changes)
                self._room.set()
                return batch
            if self._error is not None:
                raise self._error
            self._changed.clear()
            await self._changed.wait()
        raise StopAsyncIteration

    def ask_for_mark(self) -> None:
        """Ask for a progress mark; also from the next stream if this one is lost meanwhile."""
        self._mark_wanted = True
        if self._stream is not None:
            self._stream.send(_PROGRESS)

    def fail(self, error: StoreError) -> None:
        """End the watch with ``error``, once what it holds has been handed out."""
        self._error = self._error or error
        self._changed.set()

    def _stopped_reading(self, reading: asyncio.Task[None]) -> None:
        """However reading ended, wake the readers."""
        if not reading.cancelled() and (error := reading.exception()) is not None:
            failure = StoreError(f"the watch broke off: {error!r}")
            failure.__cause__ = error
            self.fail(failure)

    async def _run(self) -> None:
        """Follow one stream after the other until there is a reason to stop."""
        clock = asyncio.get_running_loop().time
        self._last_heard, pause = clock(), 0.0
        while self._error is None:
            endpoint, began = self._connection.endpoint, self._last_heard
            try:
                await self._follow(endpoint)
            except (StreamLost, Unavailable) as loss:
                self._connection.move_on(endpoint)
                if clock() - self._last_heard > self._patience:
                    self.fail(Unavailable(f"the watch has found no etcd for {self._patience:g} s: {loss}"))
                pause = min(max(pause * 2, 0.05), 1.0) if self._last_heard == began else 0.05
                await asyncio.sleep(pause)
            except StoreError as error:
                self.fail(error)

    async def _follow(self, endpoint: MemberEndpoint) -> None:
        """Take over what one stream brings. Ends with ``StreamLost`` or a ``StoreError``."""
        clock = asyncio.get_running_loop().time
        stream: BidiStream | None = None
        self._relay = HistoryReplay()
        try:
            stream = await self._connection.stream(WATCH, endpoint)
            self._create(stream, 0, max(self._position, 1))
            fragments: list[Any] = []
            while True:
                messages = await stream.receive()
                self._last_heard = clock()
                fragments = await self._take(messages, fragments, stream, endpoint)
        except CallFailed as failed:
            await self._connection.renew_if_stale(failed.details)
            raise StreamLost(f"etcd at {endpoint.url}: {failed.details}") from failed
        finally:
            self._stream = None
            if stream is not None:
                stream.cancel()

    async def _take(
        self, messages: list[bytes], fragments: list[Any], stream: BidiStream, endpoint: MemberEndpoint
    ) -> list[Any]:
        """Make one batch of these messages. Returns the events of an incomplete response."""
        changes: list[Change] = []
        mark = 0
        try:
            for message in messages:
                response = wire.WatchResponse.FromString(message)
                if response.canceled:
                    await self._stopped(response)
                elif response.created:
                    self._began(response.watch_id, stream)
                elif response.fragment:
                    fragments.extend(response.events)
                    continue
                elif events := [*fragments, *response.events] if fragments else response.events:
                    fragments = []
                    self._add(changes, self._relay.take(response.watch_id, events))
                elif response.watch_id == self._relay.runner or (
                    response.watch_id == _ASKED_FOR and await self._is_in_order(endpoint)
                ):
                    mark = response.header.revision
                self._run_on(changes, mark, response.header.revision, stream)
        except (StoreError, StreamLost, wire.DecodeError) as problem:
            await self._hand_over(changes, mark)
            if isinstance(problem, wire.DecodeError):
                raise StreamLost(
                    f"etcd at {endpoint.url}: a message that can't be read: {problem}"
                ) from problem
            raise
        await self._hand_over(changes, mark)
        return fragments

    def _create(self, stream: BidiStream, watcher: int, start: int) -> None:
        create = wire.WatchCreateRequest(
            key=self._key,
            range_end=self._end,
            start_revision=start,
            progress_notify=True,
            watch_id=watcher,
            fragment=True,
        )
        stream.send(wire.WatchRequest(create_request=create).SerializeToString())

    def _began(self, watcher: int, stream: BidiStream) -> None:
        """A watcher has started; the first one makes the stream usable."""
        self._relay.began(watcher)
        if self._stream is None:
            self._stream = stream
            if self._mark_wanted:
                self.ask_for_mark()

    async def _stopped(self, response: Any) -> None:
        """A watcher has ended: the current one, with a reason to raise, or another."""
        if self._stream is None or response.watch_id == self._relay.runner:
            await self._explain(response)
        self._relay.drop(response.watch_id)

    def _run_on(self, changes: list[Change], mark: int, current: int, stream: BidiStream) -> None:
        """Let the watcher ahead take over if possible; start more if far behind."""
        while True:
            position = max(self._position, mark, changes[-1].revision if changes else 0)
            events, stopping = self._relay.pass_on(position)
            if not stopping:
                break
            self._add(changes, events)
            for watcher in stopping:
                cancel = wire.WatchCancelRequest(watch_id=watcher)
                stream.send(wire.WatchRequest(cancel_request=cancel).SerializeToString())
        for watcher, start in self._relay.set_out(position, current):
            self._create(stream, watcher, start)

    async def _is_in_order(self, endpoint: MemberEndpoint) -> bool:
        """Whether a mark that was asked for has come in order with events."""
        return marks_come_in_order(await self._connection.version(endpoint))

    def _add(self, changes: list[Change], events: Iterable[Any]) -> None:
        position = max(self._position, changes[-1].revision if changes else 0)
        base = self._base
        for event in events:
            kv = event.kv
            if (revision := kv.mod_revision) > position:
                value = None if event.type == wire.DELETE else kv.value
                changes.append(Change(kv.key[base:].decode(), revision, value))

    async def _hand_over(self, changes: list[Change], mark: int) -> None:
        revision = max(changes[-1].revision if changes else 0, mark)
        if revision <= self._position:
            return
        while self._held >= _BUFFERED:
            self._room.clear()
            await self._room.wait()
        self._position = revision
        if mark:
            self._mark_wanted = False
        if not changes and self._batches and not self._batches[-1].changes:
            self._batches.pop()
        self._batches.append(Batch(tuple(changes), revision))
        self._held += len(changes)
        self._changed.set()

    async def _explain(self, response: Any) -> None:
        """Raise why etcd has cancelled the watch."""
        reason = response.cancel_reason
        if response.compact_revision:
            raise Compacted(self._position, response.compact_revision)
        if "permission denied" in reason:
            raise StoreError(f"etcd does not let this user watch {self._key.decode()!r}: {reason}")
        await self._connection.renew_if_stale(reason)
        raise StreamLost(f"etcd has cancelled the watch: {reason or 'no reason given'}")


_IN_ORDER_SINCE = {(3, 4): 25, (3, 5): 8}
"""The first patch of each release line whose requested marks are in order; later lines all are."""


def marks_come_in_order(version: str) -> bool:
    """Whether a member of this version sends requested progress marks in order with events."""
    try:
        major, minor, patch = (int(part) for part in version.partition("-")[0].split("."))
    except ValueError:
        return False
    first = _IN_ORDER_SINCE.get((major, minor))
    return patch >= first if first is not None else (major, minor) > max(_IN_ORDER_SINCE)
