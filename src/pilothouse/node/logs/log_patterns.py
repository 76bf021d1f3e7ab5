"""Fixed texts that lines of a log are counted by.

    patterns = parse_patterns('{"oom": "OutOfMemoryError", "slow": "duration: "}')
    counts = count_matches(block, patterns)         # {"oom": 2}: records of a block with the text

There are no regular expressions: the time that a search takes must not depend on what a pod writes. Timestamp
and stream of a record are not searched. A line that the log has in parts is counted by its parts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

MOST: Final = 10
LONGEST: Final = 256
"""Bytes of a text."""
_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?", re.ASCII)
_FIELDS: Final = 3
"""Spaces before the content of a record."""


class PatternsError(ValueError):
    """The patterns can't be used; the message says what is wrong."""


def parse_patterns(text: str) -> dict[str, bytes]:
    """The texts by their names, from a JSON object. Raises PatternsError."""
    try:
        found = msgspec.json.decode(text, type=dict[str, str])
    except msgspec.MsgspecError as problem:
        raise PatternsError(f"it is not a JSON object of names and texts: {problem}") from None
    if len(found) > MOST:
        raise PatternsError(f"it has {len(found)} patterns; there may be {MOST}")
    patterns = {}
    for name, value in found.items():
        if not _NAME.fullmatch(name):
            valid = "letters, digits, dashes, underscores and dots, 63 at most"
            raise PatternsError(f"the name {name[:80]!r} is invalid: it may have {valid}")
        try:
            patterns[name] = value.encode()
        except UnicodeEncodeError:
            raise PatternsError(f"the text of {name} is not valid Unicode") from None
        if not 0 < len(patterns[name]) <= LONGEST:
            size = len(patterns[name])
            raise PatternsError(f"the text of {name} has {size} bytes; it must have from 1 to {LONGEST}")
        if b"\n" in patterns[name]:
            raise PatternsError(f"the text of {name} has a line break, and can be in no line")
    return patterns


def count_matches(block: bytes, patterns: Mapping[str, bytes]) -> dict[str, int]:
    """How many records of a block of whole ones have each text; names without any are left out."""
    return {name: found for name, text in patterns.items() if (found := _count(block, text))}


def _count(block: bytes, text: bytes) -> int:
    count, at = 0, block.find(text)
    while at >= 0:
        begin = block.rfind(b"\n", 0, at) + 1
        content = _content(block, begin)
        if at < content:
            at = block.find(text, content)
            continue
        count += 1
        end = block.find(b"\n", at)
        at = block.find(text, end + 1) if end >= 0 else -1
    return count


def _content(block: bytes, begin: int) -> int:
    """Where the content of the record begins that begins here."""
    at = begin
    for _ in range(_FIELDS):
        at = block.find(b" ", at) + 1
        if not at:
            return len(block)
    return at
