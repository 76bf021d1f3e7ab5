"""The trail as it grows: past records, then each new one, of all instances.

The response is JSON lines: records, a ``Status`` ``Success`` once all past records are sent, and ``Failure``
for an unreachable peer or a follower that was too slow. Instances follow each other the same way, so they
know when a peer's past is complete and merge by time. With peers each record is held back briefly, as an
earlier one may still arrive.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
from collections.abc import Iterable, Mapping
from contextlib import ExitStack

import msgspec

from pilothouse.apiserver.audit.follower import Follower
from pilothouse.apiserver.audit.peers import PeerError, PeerTrails
from pilothouse.apiserver.audit.query import MOST, AuditQuery, stamp_of
from pilothouse.apiserver.audit.trail import AuditTrail
from pilothouse.apiserver.server.messages import StreamChunk, StreamSink
from pilothouse.apiserver.server_instances import ServerInstance
from pilothouse.base.clock import Clock
from pilothouse.base.rfc3339 import format_micro_time

HOLD = 1.0
"""Seconds that a record waits for earlier ones of other instances."""
LOOK = 0.25
PEERS_INTERVAL = 5.0
"""Seconds between searches for other instances, and between attempts to reach them."""
PAST_SECONDS = 20.0
"""How long the past of a peer is waited for."""
MOST_WAITING = 20_000
MOST_BUFFERED = 4 * 1024 * 1024
STATUS = b'{"kind":"Status"'
PAST_TOLD = msgspec.json.encode(
    {"kind": "Status", "apiVersion": "v1", "status": "Success", "message": "end of the past records"}
)


class AuditFollow:
    def __init__(
        self,
        trail: AuditTrail | None,
        peers: PeerTrails,
        question: AuditQuery,
        params: Mapping[str, str],
        clock: Clock,
        *,
        most_waiting: int = MOST_WAITING,
    ) -> None:
        """At most ``most_waiting`` records are buffered for a slow client."""
        self._trail = trail
        self._peers = peers
        self._question = question
        self._params = params
        self._clock = clock
        self._inbox = Follower(most_waiting)
        self._most_waiting = most_waiting
        self._streams: dict[str, _PeerStream] = {}
        """Of every peer there has been."""
        self._tasks: dict[str, asyncio.Task[None]] = {}
        """Of those that are there."""
        self._since = format_micro_time(clock.now())
        self._past_sent = False

    async def run(self, sink: StreamSink) -> None:
        with ExitStack() as stack:
            if self._trail is not None:
                # Before the past is read: records made meanwhile are in one of the two, or in both.
                stack.enter_context(self._trail.followed(self._inbox))
            try:
                await self._send_past(sink)
                await self._send_new(sink)
            finally:
                for task in self._tasks.values():
                    task.cancel()
                await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _send_past(self, sink: StreamSink) -> None:
        await self._join(sink)
        own = [] if self._trail is None else await self._trail.search(self._question)
        overlap = set(own)
        inbox = [line for line in self._inbox.drain() if line not in overlap]
        waiting = [stream.caught_up.wait() for stream in self._streams.values()]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PAST_SECONDS):
                await asyncio.gather(*waiting)
        for stream in self._streams.values():
            if not stream.caught_up.is_set():
                late = f"{stream.peer.id} has not reported all of its past within {PAST_SECONDS:g} seconds"
                _write(sink, [failure(late)])
                stream.caught_up.set()
        parts = [own, *(stream.past for stream in self._streams.values())]
        _write(sink, [*in_order(parts, self._question.limit), PAST_TOLD + b"\n"])
        self._past_sent = True
        for line in inbox:
            self._inbox.give(line)

    async def _send_new(self, sink: StreamSink) -> None:
        held: list[tuple[str, bytes]] = []
        looked = self._clock.monotonic()
        while not (sink.closed or self._inbox.behind or len(held) > self._most_waiting):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK):
                    await self._inbox.wait()
            for line in self._inbox.drain():
                if line.startswith(STATUS):
                    _write(sink, [line])
                elif self._question.matches(line):
                    heapq.heappush(held, (stamp_of(line), line))
            if sink.buffered() < MOST_BUFFERED:
                _write(sink, self._due(held))
            if self._clock.monotonic() - looked >= PEERS_INTERVAL:
                looked = self._clock.monotonic()
                await self._join(sink)
        if not sink.closed:
            _write(
                sink,
                [
                    failure(
                        "the client read too slowly, and records were dropped; query again for what is "
                        "missing"
                    )
                ],
            )

    def _due(self, held: list[tuple[str, bytes]]) -> list[bytes]:
        hold = HOLD if self._tasks else 0.0
        until = format_micro_time(self._clock.now() - hold)
        due: list[bytes] = []
        while held and (not hold or held[0][0] <= until):
            due.append(heapq.heappop(held)[1])
        return due

    async def _join(self, sink: StreamSink) -> None:
        """Follow exactly the running peers. One that comes back is resumed."""
        if self._question.local:
            return
        try:
            peers = {peer.id: peer for peer in await self._peers.others()}
        except PeerError as problem:
            _write(sink, [failure(str(problem))])
            return
        for name in self._tasks.keys() - peers.keys():
            self._tasks.pop(name).cancel()
        for name in peers.keys() - self._tasks.keys():
            stream = self._streams.get(name)
            if stream is None:
                stream = _PeerStream(self._peers, peers[name], self._params, self._since, self._inbox)
                self._streams[name] = stream
                if self._past_sent:
                    stream.caught_up.set()
            self._tasks[name] = asyncio.create_task(stream.run())


class _PeerStream:
    """One peer's records: its past, then the inbox. The request is repeated when its response ends."""

    def __init__(
        self, peers: PeerTrails, peer: ServerInstance, params: Mapping[str, str], since: str, inbox: Follower
    ) -> None:
        self.peer = peer
        self.past: list[bytes] = []
        self.caught_up = asyncio.Event()
        """Its past is complete, or unavailable; later records are new."""
        self._peers = peers
        self._params = params
        self._inbox = inbox
        self._last = since
        self._at_last: set[bytes] = set()

    async def run(self) -> None:
        reported = ""
        while True:
            try:
                await self._listen()
                why = "its answer ended"
            except PeerError as problem:
                why = str(problem)
            if why != reported:
                missing = f"the records of {self.peer.id} at {self.peer.url} may be missing: {why}"
                self._inbox.give(failure(missing))
            reported = why
            self.caught_up.set()
            await asyncio.sleep(PEERS_INTERVAL)

    async def _listen(self) -> None:
        params = dict(self._params)
        if self.caught_up.is_set():
            params |= {"since": self._last, "limit": str(MOST)}
        async with self._peers.lines(self.peer, params) as lines:
            async for line in lines:
                if line.startswith(PAST_TOLD):
                    self.caught_up.set()
                elif line.startswith(STATUS):
                    self._inbox.give(line)
                elif line not in self._at_last:
                    self._note(line)
                    if self.caught_up.is_set():
                        self._inbox.give(line)
                    else:
                        self.past.append(line)

    def _note(self, line: bytes) -> None:
        """Note where to resume: the last time stamp, and the records that have it."""
        stamp = stamp_of(line)
        if stamp > self._last:
            self._last = stamp
            self._at_last.clear()
        if stamp == self._last:
            self._at_last.add(line)


def in_order(parts: Iterable[list[bytes]], limit: int) -> list[bytes]:
    """The newest lines of several instances, in order of time."""
    return sorted((line for part in parts for line in part), key=stamp_of)[-limit:]


def failure(message: str) -> bytes:
    """A line that reports what is missing."""
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message}
    return msgspec.json.encode(status) + b"\n"


def _write(sink: StreamSink, lines: list[bytes]) -> None:
    if lines:
        sink.write(StreamChunk.of(b"".join(lines)))
