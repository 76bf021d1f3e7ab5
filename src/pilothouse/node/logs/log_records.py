"""Formats the records of a log file as the log options ask.

    2026-11-15T10:00:00.123456789Z stdout F listening on port 5432
    2026-11-15T10:00:01.000000000Z stderr P the first part of a line that is too lo

``F`` is a line, or the last part of one; ``P`` a part to which more follows on the same stream.

    formatter = LogFormatter(LogOptions(timestamps=True))
    formatter.format(block)       # the text of the records in a block of whole ones
    formatter.done                # the limit is reached
"""

from __future__ import annotations

import time
from typing import Final

from pilothouse.api.kubernetes.pods.log_options import LogOptions

_FIELDS: Final = 3
"""Spaces before the content."""


def format_timestamp(moment: float) -> bytes:
    """A time as in records, whose order as bytes is that of time."""
    seconds, micros = divmod(round(moment * 1_000_000), 1_000_000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{micros:06d}000Z".encode()


def ends_line(record: bytes) -> bool:
    """Whether a record ends a line of output."""
    fields = record.split(b" ", _FIELDS)
    return len(fields) <= _FIELDS or fields[2] != b"P"


class LogFormatter:
    def __init__(self, options: LogOptions) -> None:
        self._timestamps = options.timestamps
        self._since = format_timestamp(options.since) if options.since is not None else b""
        self._stream = b"" if options.stream == "All" else options.stream.lower().encode()
        self._left = options.limit
        self._within: set[bytes] = set()
        """Streams in the middle of a line."""

    @property
    def done(self) -> bool:
        return self._left is not None and self._left <= 0

    def format(self, block: bytes) -> bytes:
        """The text of a block of whole records."""
        *whole, unfinished = block.split(b"\n")
        text = b"".join([self._text(record + b"\n") for record in whole])
        if unfinished:
            text += self._text(unfinished)
        if self._left is not None:
            text = text[: self._left]
            self._left -= len(text)
        return text

    def _text(self, record: bytes) -> bytes:
        fields = record.split(b" ", _FIELDS)
        if len(fields) <= _FIELDS:
            # Not a record of ours; show it as it is.
            return record
        moment, stream, tag, content = fields
        if moment < self._since or (self._stream and stream != self._stream):
            return b""
        begins = stream not in self._within
        if tag == b"P":
            self._within.add(stream)
            content = content.removesuffix(b"\n")
        else:
            self._within.discard(stream)
        return moment + b" " + content if self._timestamps and begins else content
