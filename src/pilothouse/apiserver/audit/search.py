"""Searches log files for the newest records that match a query.

    lines = await search(log.files, question)       # the oldest first

Files are read backwards, one block per thread call, until there are enough records or they are too old.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from typing import BinaryIO

from pilothouse.apiserver.audit.query import AuditQuery, stamp_of

BLOCK = 256 * 1024


async def search(files: Callable[[], list[BinaryIO]], question: AuditQuery) -> list[bytes]:
    """The newest lines that match, oldest first."""
    opened = await asyncio.to_thread(files)
    found: list[bytes] = []
    try:
        for file in opened:
            blocks = backwards(file, BLOCK)
            while (lines := await asyncio.to_thread(next, blocks, None)) is not None:
                newest_first, over = await asyncio.to_thread(_look, lines, question)
                found.extend(newest_first)
                if over or len(found) >= question.limit:
                    return found[: question.limit][::-1]
    finally:
        for file in opened:
            file.close()
    return found[::-1]


def _look(lines: list[bytes], question: AuditQuery) -> tuple[list[bytes], bool]:
    """The matching lines, newest first, and whether earlier blocks are too old.

    They are if the block's first and last record are: the clock may have been set back in between.
    """
    found = [line for line in reversed(lines) if question.matches(line)]
    if found or not question.since:
        return found, False
    ends = [stamp_of(line) for line in (lines[0], lines[-1])] if lines else []
    return found, bool(ends) and all("" < stamp < question.since for stamp in ends)


def backwards(file: BinaryIO, size: int) -> Iterator[list[bytes]]:
    """The lines of a file in blocks of about ``size`` bytes, the last block first, in order within each.

    Lines include their newline; an unfinished last line and later appends are not returned.
    """
    end = os.fstat(file.fileno()).st_size
    rest = b""
    first = True
    while end > 0:
        start = max(0, end - size)
        data = os.pread(file.fileno(), end - start, start) + rest
        end = start
        if first:
            data = data[: data.rfind(b"\n") + 1]
            first = not data
        head, newline, tail = data.partition(b"\n")
        if end == 0:
            yield data.splitlines(keepends=True)
            return
        if not newline:
            rest = data
            continue
        rest = head + newline
        yield tail.splitlines(keepends=True)
