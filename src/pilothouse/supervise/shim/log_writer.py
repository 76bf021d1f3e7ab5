"""Writes a container's output to rotating files, in the format that Kubernetes' tools read.

    2026-11-15T10:00:00.123456789Z stdout F a whole line
    2026-11-15T10:00:00.123456789Z stderr P a part of a line that is too long, or not complete yet

The program must never wait for a disk: its output is queued, and a thread writes the files. A program faster
than the disk is slowed down; but when the disk takes nothing for a second, or is full, output is dropped, and
a line in the log says how much. Lines are never split between files.
"""

from __future__ import annotations

import _thread
import os
import stat
import sys
import time

LONGEST = 16 * 1024
"""A line without end is passed on in parts of about this many bytes."""
QUEUED = 1024 * 1024
RATE = 16 * 1024 * 1024
"""Sustained bytes of records a second: the work is the shim's, which no limit of the container counts."""
BURST = 64 * 1024 * 1024
LEAST_COST = 16 * 1024
"""Bytes that each read counts as at least: reading single bytes costs more than writing them."""
PATIENCE = 1.0
"""Seconds without progress after which the disk counts as stuck."""


class LineSplitter:
    """Splits the bytes of one stream into records. No I/O."""

    def __init__(self, stream: str) -> None:
        self._whole = f" {stream} F ".encode()
        self._part = f" {stream} P ".encode()
        self._rest = b""

    def feed(self, data: bytes, moment: bytes) -> bytes:
        """The records that `data` completes; `moment` is the time as text."""
        prefix = moment + self._whole
        head, newline, tail = data.rpartition(b"\n")
        done = b""
        if newline:
            done = prefix + (self._rest + head).replace(b"\n", b"\n" + prefix) + b"\n"
            self._rest = tail
        else:
            self._rest += data
        if len(self._rest) >= LONGEST:
            done += moment + self._part + self._rest + b"\n"
            self._rest = b""
        return done

    def end(self, moment: bytes) -> bytes:
        """The rest without a newline."""
        rest, self._rest = self._rest, b""
        return moment + self._whole + rest + b"\n" if rest else b""


class Timestamps:
    """The time as text with nine digits; seconds are formatted once."""

    def __init__(self) -> None:
        self._second = -1
        self._text = b""

    def now(self) -> bytes:
        second, rest = divmod(time.time_ns(), 1_000_000_000)
        if second != self._second:
            self._second = second
            self._text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second)).encode()
        return b"%b.%09dZ" % (self._text, rest)


class LogRateLimit:
    """How much output may be read now; it grows with time. No I/O."""

    def __init__(self, now: float) -> None:
        self._left = float(BURST)
        self._then = now

    def is_spent(self, now: float) -> bool:
        self._left = min(BURST, self._left + (now - self._then) * RATE)
        self._then = now
        return self._left <= 0

    def spend(self, records: int) -> None:
        """Count one read, and the bytes of its records."""
        self._left -= max(records, LEAST_COST)


class LogFiles:
    """`path`, and up to `files` - 1 older ones."""

    def __init__(self, path: str, max_bytes: int, files: int) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._files = files
        self._descriptor = -1
        self._size = 0
        self.moved = 0.0
        """When the disk last took something."""

    def open(self) -> None:
        """Raises OSError."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        self._descriptor = os.open(self._path, flags, 0o640)
        found = os.fstat(self._descriptor)
        self._size = found.st_size
        if not stat.S_ISREG(found.st_mode):
            self._max_bytes = sys.maxsize  # A device or pipe: never to be renamed.

    def write(self, records: bytes) -> tuple[bytes, str]:
        """Write whole records; returns those that were not written, and why."""
        try:
            if self._descriptor < 0:
                self.open()
            while records:
                now = self._fitting(records)
                if not now:
                    self._rotate()
                    continue
                taken, why = self._append(now)
                records = records[taken:]
                if why:
                    return records, why
        except OSError as error:
            return records, str(error.strerror)
        return b"", ""

    def _append(self, records: bytes) -> tuple[int, str]:
        """The number of bytes written, and why not all."""
        written, why = 0, ""
        try:
            while written < len(records):
                written += os.write(self._descriptor, records[written:] if written else records)
                self.moved = time.monotonic()
        except OSError as error:
            why = str(error.strerror)
            written = records.rfind(b"\n", 0, written) + 1
            os.ftruncate(self._descriptor, self._size + written)
        self._size += written
        return written, why

    def _fitting(self, records: bytes) -> bytes:
        """The records that fit into this file; an empty one takes at least one."""
        room = self._max_bytes - self._size
        if len(records) <= room:
            return records
        end = records.rfind(b"\n", 0, max(room, 0)) + 1
        if not end and not self._size:
            end = records.index(b"\n") + 1
        return records[:end]

    def _rotate(self) -> None:
        """The new file is opened last: a crash in between leaves every line in some file."""
        oldest = 1
        while oldest < self._files - 1 and os.path.exists(f"{self._path}.{oldest}"):
            oldest += 1
        for age in range(oldest, 1, -1):
            os.replace(f"{self._path}.{age - 1}", f"{self._path}.{age}")
        if self._files > 1:
            os.replace(self._path, f"{self._path}.1")
        else:
            os.unlink(self._path)
        os.close(self._descriptor)
        self._descriptor = -1
        self.open()


class LogWriter:
    """A queue before files, emptied by a thread. `accept` never blocks."""

    def __init__(self, files: LogFiles, moments: Timestamps) -> None:
        self._files = files
        self._moments = moments
        self._mutex = _thread.allocate_lock()
        self._queue: list[bytes] = []
        self._queued = 0
        self._work = _thread.allocate_lock()
        self._work.acquire()
        self._progress = time.monotonic()
        self._dropped = 0

    def begin(self) -> None:
        """Start the thread. No fork may follow."""
        _thread.start_new_thread(self._drain, ())

    @property
    def full(self) -> bool:
        """Whether to leave the output unread for now; not for long if the disk is stuck."""
        return self._queued >= QUEUED and self.stalled < PATIENCE

    @property
    def empty(self) -> bool:
        return not self._queued

    @property
    def stalled(self) -> float:
        """Seconds for which the disk has taken nothing, though something is queued."""
        return time.monotonic() - max(self._progress, self._files.moved) if self._queued else 0.0

    def accept(self, records: bytes) -> None:
        if not records:
            return
        with self._mutex:
            if self._queued >= 2 * QUEUED:
                self._dropped += records.count(b"\n")
                return
            if self._dropped:
                records = self._notice(self._dropped, "the disk took nothing for too long") + records
                self._dropped = 0
            if not self._queued:
                self._progress = time.monotonic()
            self._queued += len(records)
            self._queue.append(records)
        if self._work.locked():
            self._work.release()

    def finish(self) -> None:
        """Report what was dropped at the end, if there is room."""
        if self._dropped:
            notice = self._notice(self._dropped, "the disk took nothing for too long")
            self._dropped = 0
            self.accept(notice)

    def _drain(self) -> None:
        """Runs in the thread. Reports what could not be written before the next records."""
        unwritten, why = 0, ""
        while True:
            self._work.acquire()
            while self._queue:
                with self._mutex:
                    batch, self._queue = self._queue, []
                records = b"".join(batch)
                notice = self._notice(unwritten, why) if unwritten else b""
                left, problem = self._files.write(notice + records)
                if len(left) < len(notice) + len(records):
                    unwritten = 0
                if problem:
                    unwritten += left[-len(records) :].count(b"\n")
                    why = problem
                with self._mutex:
                    self._queued -= len(records)
                self._progress = time.monotonic()

    def _notice(self, lines: int, why: str) -> bytes:
        text = f" stderr F pilothouse: {lines} lines of output were dropped here: {why}\n"
        return self._moments.now() + text.encode()
