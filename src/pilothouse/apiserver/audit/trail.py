"""From requests to lines in a file, without holding up a request.

    trail = Trail(log, recorder, clock)
    async with trail.running():
        trail.saw(arrival, request, answer, COMPLETE)     # from the connection; never waits, never raises
        await trail.flushed(2.0)

What is seen goes onto a queue. A few times a second the queue becomes lines: on the event loop, a little at a time, since
turning a request into a line takes microseconds and a thread would fight for the interpreter instead. Only writing, which
a disk can make slow, is done in a thread. The queue has bounds, in records and in bytes; what comes when it is full is
counted and gone. A file that can't be written is tried again and again, while the queue fills.

A process that is killed loses what it had not written: the last fraction of a second.
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

from pilothouse.apiserver.audit.follower import Follower
from pilothouse.apiserver.audit.log_file import LogFile
from pilothouse.apiserver.audit.policy import COMPLETE, PANIC
from pilothouse.apiserver.audit.question import Question
from pilothouse.apiserver.audit.records import Recorder
from pilothouse.apiserver.audit.searching import search
from pilothouse.apiserver.audit.sight import Arrival, Sight
from pilothouse.apiserver.exchange import Request, Response
from pilothouse.base.clock import Clock

INTERVAL = 0.1
"""Seconds that records gather before they are written."""
RETRY = 1.0
"""Seconds between attempts to write a file that could not be written."""
MOST_RECORDS = 10_000
MOST_BYTES = 64 * 1024 * 1024
FLUSH_SECONDS = 2.0
"""How long a reader waits for what was seen last."""
CLOSING_SECONDS = 5.0
"""How long a server that stops tries to write what is left."""
_SLICE = 64
"""Records that become lines before other work gets its turn."""
_WRITE_BYTES = 1024 * 1024
_READING = frozenset({"GET", "HEAD", "OPTIONS"})

log = logging.getLogger(__name__)


@dataclass
class Counts:
    """What became of the records, since the start."""

    written: int = 0
    dropped: int = 0
    """Lost because the queue was full or a record could not be made."""
    failures: int = 0
    """Attempts to write that failed."""


class Trail:
    """The queue, and what empties it."""

    def __init__(
        self,
        file: LogFile,
        recorder: Recorder,
        clock: Clock,
        *,
        most_records: int = MOST_RECORDS,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self.file = file
        self.counts = Counts()
        self._recorder = recorder
        self._clock = clock
        self._limits = (most_records, most_bytes)
        self._bodies_wanted = recorder.policy.wants_answers
        self._queue: deque[Sight] = deque()
        self._held = 0
        self._something = asyncio.Event()
        self._hurry = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._followers: set[Follower] = set()
        self._problem = ""
        self._thread = ThreadPoolExecutor(1, "audit")

    def now(self) -> float:
        """When a request arrives."""
        return self._clock.now()

    def saw(
        self,
        arrival: Arrival,
        request: Request,
        status: int,
        answer: Response | None = None,
        stage: str = COMPLETE,
    ) -> None:
        """Note a stage of a request."""
        if answer is not None and not (
            self._bodies_wanted or status >= 400 or request.method not in _READING
        ):
            answer = None
        if request.crashed:
            stage = PANIC
        sight = Sight(arrival, request, stage, self._clock.now(), status, answer)
        queue = self._queue
        held = self._held + sight.size
        if len(queue) >= self._limits[0] or held > self._limits[1]:
            self.counts.dropped += 1
            return
        self._held = held
        if not queue:
            self._something.set()
            self._idle.clear()
        queue.append(sight)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Empty the queue while the context is open, and once more when it closes."""
        writer = asyncio.create_task(self._run())
        try:
            yield
        finally:
            await self.flushed(CLOSING_SECONDS)
            writer.cancel()
            await asyncio.gather(writer, return_exceptions=True)
            self._thread.submit(self.file.close)
            self._thread.shutdown(wait=False)

    async def flushed(self, seconds: float) -> None:
        """Wait until all that was seen is in the file, or so long."""
        self._hurry.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._idle.wait()

    async def told(self, question: Question) -> list[bytes]:
        """The lines that a question asks for, the oldest first, up to what was seen last."""
        await self.flushed(FLUSH_SECONDS)
        return await search(self.file.files, question)

    async def problem(self) -> str:
        """What is wrong with the trail; empty if nothing is. (A health check.)"""
        if not self._problem:
            return ""
        return f"{self._problem}; {len(self._queue)} records wait, {self.counts.dropped} were dropped since the start"

    @contextlib.contextmanager
    def followed(self, follower: Follower) -> Iterator[None]:
        """While the context is open the follower is given each line, before it is written."""
        self._followers.add(follower)
        try:
            yield
        finally:
            self._followers.discard(follower)

    async def _run(self) -> None:
        while True:
            await self._something.wait()
            await self._gather()
            while self._queue:
                await self._empty()
            self._something.clear()
            self._idle.set()

    async def _gather(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(INTERVAL):
                await self._hurry.wait()
        self._hurry.clear()

    async def _empty(self) -> None:
        """Write what is in the queue, up to a fair amount."""
        lines: list[bytes] = []
        size = count = 0
        while self._queue and size < _WRITE_BYTES:
            for _ in range(min(_SLICE, len(self._queue))):
                line = self._line(self._queue.popleft())
                if line is not None:
                    lines.append(line)
                    size += len(line)
                    count += 1
            await asyncio.sleep(0)
        if lines:
            await self._write(b"".join(lines))
            self.counts.written += count

    def _line(self, sight: Sight) -> bytes | None:
        self._held -= sight.size
        try:
            line = self._recorder.line(sight)
        except Exception:
            log.exception("no audit record could be made of %s %s", sight.request.method, sight.request.path)
            self.counts.dropped += 1
            return None
        if line is not None:
            for follower in self._followers:
                follower.give(line)
        return line

    async def _write(self, lines: bytes) -> None:
        """Write, as often as it takes."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                await loop.run_in_executor(self._thread, self.file.write, lines)
            except OSError as problem:
                self.counts.failures += 1
                said = f"the audit log {self.file.path} can't be written: {problem.strerror or problem}"
                if said != self._problem:
                    log.error("%s; trying again every %g s", said, RETRY)
                self._problem = said
                await asyncio.sleep(RETRY)
            else:
                if self._problem:
                    log.warning("the audit log %s is written again", self.file.path)
                self._problem = ""
                return
