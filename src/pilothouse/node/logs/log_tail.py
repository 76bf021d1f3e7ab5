"""Finds where the last lines of a log begin.

    file = last_lines(path, 20)          # an open file, at the first of them; None if there is no log yet

Blocks are read backwards from the end.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from pilothouse.node.files.directory_handles import open_regular
from pilothouse.node.logs.log_records import ends_line
from pilothouse.node.logs.log_rotation import numbered, oldest

_BLOCK: Final = 64 * 1024


def last_lines(path: Path, count: int) -> BinaryIO | None:
    """The file, at the first of the lines. A rotation meanwhile may cost some lines."""
    wanted = count
    for each in reversed(numbered(path)):
        try:
            file = open_regular(each)
        except FileNotFoundError:
            continue
        start, found = _start(file, wanted)
        if found >= wanted:
            file.seek(start)
            return file
        wanted -= found
        file.close()
    return oldest(path)


def _start(file: BinaryIO, wanted: int) -> tuple[int, int]:
    """Where the last lines of a file begin, and how many of them there are, up to ``wanted``."""
    size = os.fstat(file.fileno()).st_size
    start, found = size, 0
    for offset, record in _backwards(file, size):
        if offset == size:
            continue  # Nothing: the file ends with a whole record.
        if ends_line(record):
            if found == wanted:
                break
            found += 1
        start = offset
    return start, found


def _backwards(file: BinaryIO, size: int) -> Iterator[tuple[int, bytes]]:
    """The offset and content of each record, the last first."""
    place, rest = size, b""
    while place > 0:
        length = min(_BLOCK, place)
        place -= length
        file.seek(place)
        # What precedes the first newline may have begun in an earlier block.
        rest, *records = (file.read(length) + rest).split(b"\n")
        offset = place + len(rest) + sum(len(each) + 1 for each in records)
        for record in reversed(records):
            offset -= len(record)
            yield offset, record
            offset -= 1
    yield 0, rest
