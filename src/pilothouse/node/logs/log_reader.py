"""Reads a container's log across rotations, and follows it.

    async for text in read_log(folder / "log", LogOptions(follow=True, tail=10), ended=container.exited):
        ...

Following ends when the container has ended and all its output is read. The file is polled.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from pilothouse.api.kubernetes.pods.log_options import LogOptions
from pilothouse.node.logs.log_records import LogFormatter
from pilothouse.node.logs.log_rotation import following, newest, numbered, oldest
from pilothouse.node.logs.log_tail import last_lines

BLOCK: Final = 128 * 1024
LOOK_SECONDS: Final = 0.1

Ended = Callable[[], Awaitable[object]]
"""Returns when the container has ended and its last output is in the file."""


async def read_log(path: Path, options: LogOptions, ended: Ended) -> AsyncGenerator[bytes, None]:
    formatter = LogFormatter(options)
    with _watching(ended) as over, closing(LogCursor(path)) as cursor:
        await asyncio.to_thread(cursor.begin, options.tail)
        while True:
            # Checked first, so that what is written before the container ends is read afterwards.
            last = not options.follow or over.done()
            for block in cursor.blocks():
                if text := formatter.format(block):
                    yield text
                if formatter.done:
                    return
                await asyncio.sleep(0)
            if last:
                if text := formatter.format(cursor.unfinished()):
                    yield text
                return
            await asyncio.wait((over,), timeout=LOOK_SECONDS)


@contextmanager
def _watching(ended: Ended) -> Iterator[asyncio.Future[object]]:
    over = asyncio.ensure_future(ended())
    try:
        yield over
    finally:
        over.cancel()


class LogCursor:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._rest = b""

    def begin(self, tail: int | None) -> None:
        """Go to the last ``tail`` lines; None for the beginning."""
        self._file = oldest(self._path) if tail is None else last_lines(self._path, tail)

    def blocks(self) -> Iterator[bytes]:
        """Blocks of whole records, up to the current end."""
        if self._file is None:
            self._file = oldest(self._path)
        while self._file is not None:
            yield from self._rest_of_file(self._file)
            after = following(self._path, self._file)
            if after is None:
                return
            # Records may have been added between the last read and the rotation.
            yield from self._rest_of_file(self._file)
            self._file.close()
            self._file = after

    def unread(self) -> int:
        """Bytes up to the current end."""
        files = numbered(self._path)
        sizes = [(found.st_ino, found.st_size) for each in files if (found := _found(each)) is not None]
        if self._file is None:
            return sum(size for _, size in sizes)
        mine = os.fstat(self._file.fileno())
        rest = max(0, mine.st_size - self._file.tell())
        inodes = [inode for inode, _ in sizes]
        newer = sizes[inodes.index(mine.st_ino) + 1 :] if mine.st_ino in inodes else sizes
        return rest + sum(size for _, size in newer)

    def skip(self) -> None:
        """Go to the current end, without looking at records."""
        self.close()
        self._rest = b""
        self._file = newest(self._path)
        if self._file is not None:
            self._file.seek(0, os.SEEK_END)

    def unfinished(self) -> bytes:
        """The beginning of a record whose end is not written yet."""
        rest, self._rest = self._rest, b""
        return rest

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _rest_of_file(self, file: BinaryIO) -> Iterator[bytes]:
        while data := file.read(BLOCK):
            whole, newline, self._rest = (self._rest + data).rpartition(b"\n")
            if newline:
                yield whole + newline


def _found(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except FileNotFoundError:
        return None
