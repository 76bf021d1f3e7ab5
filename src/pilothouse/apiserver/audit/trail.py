"""Turns requests into audit lines and writes them to a file, without delaying a request.

    trail = AuditTrail(log, recorder, clock)
    async with trail.running():
        trail.record(arrival, request, status, answer)     # from the connection; never waits, never raises
        await trail.flushed(2.0)

Entries are queued and encoded on the event loop, a few at a time after the responses of a turn are sent:
encoding takes microseconds, so a thread would only contend for the interpreter. A thread writes the lines a
few times a second. Queue and lines are bounded in records and bytes; what exceeds them is dropped and
counted. Failed writes are retried. A killed process loses the last fraction of a second.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass

from pilothouse.aio.background_tasks import BackgroundTasks
from pilothouse.apiserver.audit.audit_policy import COMPLETE, PANIC
from pilothouse.apiserver.audit.follower import Follower
from pilothouse.apiserver.audit.log_file import LogFile
from pilothouse.apiserver.audit.query import AuditQuery
from pilothouse.apiserver.audit.records import AuditRecorder
from pilothouse.apiserver.audit.request_stage import Arrival, RequestStage
from pilothouse.apiserver.audit.search import search
from pilothouse.apiserver.server.messages import Request, Response
from pilothouse.base.clock import Clock

INTERVAL = 0.1
"""Seconds that lines gather before they are written."""
RETRY = 1.0
"""Seconds between attempts to write a file that could not be written."""
MOST_RECORDS = 20_000
MOST_BYTES = 64 * 1024 * 1024
FLUSH_SECONDS = 2.0
"""How long a reader waits for what was seen last."""
CLOSING_SECONDS = 5.0
"""How long a stopping server tries to write the rest."""
_TURN_RECORDS = 64
_TURN_BYTES = 256 * 1024
"""So much becomes lines before other work gets its turn."""
_WRITE_RECORDS = 2000
_READING = frozenset({"GET", "HEAD", "OPTIONS"})

log = logging.getLogger(__name__)


@dataclass
class AuditTrailCounts:
    """Numbers of records since the start, by outcome."""

    written: int = 0
    dropped: int = 0
    """Lost because too many waited, or because a record could not be made."""
    failures: int = 0
    """Attempts to write that failed."""


class AuditTrail:
    def __init__(
        self,
        file: LogFile,
        recorder: AuditRecorder,
        clock: Clock,
        *,
        most_records: int = MOST_RECORDS,
        most_bytes: int = MOST_BYTES,
        retry: float = RETRY,
    ) -> None:
        self.file = file
        self.counts = AuditTrailCounts()
        self.now = clock.now
        self._recorder = recorder
        self._most_records = most_records
        self._most_bytes = most_bytes
        self._retry = retry
        self._answers_wanted = recorder.policy.wants_answers
        self._loop = asyncio.get_running_loop()
        self._queue: deque[RequestStage] = deque()
        self._lines: list[bytes] = []
        self._held = 0
        """Bytes that queue and lines keep."""
        self._something = asyncio.Event()
        self._hurry = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._followers: set[Follower] = set()
        self._problem = ""
        self._thread = ThreadPoolExecutor(1, "audit")

    def record(
        self,
        arrival: Arrival,
        request: Request,
        status: int,
        answer: Response | None = None,
        stage: str = COMPLETE,
    ) -> None:
        """Note a stage of a request."""
        queue = self._queue
        if len(queue) + len(self._lines) >= self._most_records:
            self.counts.dropped += 1
            return
        if status < 400 and request.method in _READING and not self._answers_wanted:
            if not queue and not request.body:
                # Its line costs less while the request is in the processor's caches.
                self._keep(self._line(RequestStage(arrival, request, stage, self.now(), status)))
                return
            answer = None
        if request.crashed:
            stage = PANIC
        size = len(request.body) + (0 if answer is None else _size(answer))
        entry = RequestStage(arrival, request, stage, self.now(), status, size, answer)
        held = self._held + size
        if held > self._most_bytes:
            self.counts.dropped += 1
            return
        self._held = held
        if not queue:
            self._idle.clear()
            self._loop.call_soon(self._turn)
        queue.append(entry)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Write while the context is open, and the rest when it closes."""
        try:
            async with BackgroundTasks({"audit trail": self._run}).running():
                try:
                    yield
                finally:
                    await self.flushed(CLOSING_SECONDS)
        finally:
            self._thread.submit(self.file.close)
            self._thread.shutdown(wait=False)

    async def flushed(self, seconds: float) -> None:
        """Wait until all entries are in the file, at most so long."""
        self._hurry.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._idle.wait()

    async def search(self, question: AuditQuery) -> list[bytes]:
        """The lines that match a query, oldest first, the latest request included."""
        await self.flushed(FLUSH_SECONDS)
        return await search(self.file.files, question)

    async def problem(self) -> str:
        """What is wrong with the trail, or empty. (A health check.)"""
        if not self._problem:
            return ""
        waiting = len(self._queue) + len(self._lines)
        return f"{self._problem}; {waiting} records wait, {self.counts.dropped} were dropped since the start"

    @contextlib.contextmanager
    def followed(self, follower: Follower) -> Iterator[None]:
        """While the context is open the follower receives each line, before it is written."""
        self._followers.add(follower)
        try:
            yield
        finally:
            self._followers.discard(follower)

    def _turn(self) -> None:
        """Encode queued entries."""
        queue, size = self._queue, 0
        for _ in range(min(_TURN_RECORDS, len(queue))):
            entry = queue.popleft()
            line = self._line(entry)
            self._held -= entry.size
            if line is not None:
                self._keep(line)
                size += len(line)
                if size > _TURN_BYTES:
                    break
        if queue:
            self._loop.call_soon(self._turn)
        self._something.set()

    def _keep(self, line: bytes | None) -> None:
        if line is None:
            return
        if not self._lines:
            self._idle.clear()
            self._something.set()
        self._lines.append(line)
        self._held += len(line)

    def _line(self, entry: RequestStage) -> bytes | None:
        try:
            line = self._recorder.line(entry)
        except Exception:
            log.exception("no audit record could be made of %s %s", entry.request.method, entry.request.path)
            self.counts.dropped += 1
            return None
        if line is not None:
            for follower in self._followers:
                follower.give(line)
        return line

    async def _run(self) -> None:
        while True:
            await self._something.wait()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(INTERVAL):
                    await self._hurry.wait()
            self._hurry.clear()
            while self._lines or self._queue:
                # Lines that are being written take room until they are in the file.
                lines = self._lines[:_WRITE_RECORDS]
                if not lines:
                    await asyncio.sleep(0)
                    continue
                await self._write(b"".join(lines))
                del self._lines[: len(lines)]
                self._held -= sum(map(len, lines))
                self.counts.written += len(lines)
            self._something.clear()
            self._idle.set()

    async def _write(self, lines: bytes) -> None:
        while True:
            try:
                await self._loop.run_in_executor(self._thread, self.file.write, lines)
            except OSError as problem:
                self.counts.failures += 1
                said = f"the audit log {self.file.path} can't be written: {problem.strerror or problem}"
                if said != self._problem:
                    log.error("%s; trying again every %g s", said, self._retry)
                self._problem = said
                await asyncio.sleep(self._retry)
            else:
                if self._problem:
                    log.warning("the audit log %s is written again", self.file.path)
                self._problem = ""
                return


def _size(answer: Response) -> int:
    return len(answer.body) if isinstance(answer.body, bytes) else answer.body.size
