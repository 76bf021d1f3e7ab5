"""Reads metrics pages in Prometheus' text format, of which only some lines are wanted.

    content = read_page(page, names.__contains__, most=1000)
    content.samples                 # {b'used_bytes{pod="a"}': 5.0}

Names are compared before a line is parsed, and the labels of a series are parsed once: a page of 80,000 lines
takes a fraction of a second. Times on a page are not used: a sample is of the time at which it was scraped.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

_SERIES: Final = re.compile(
    rb"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[^\"}]|\"(?:[^\"\\]|\\.)*\")*)\})?", re.DOTALL
)
_LABEL: Final = re.compile(rb'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(?:,|$)', re.DOTALL)
_ESCAPES: Final = {b"\\\\": b"\\", b'\\"': b'"', b"\\n": b"\n"}
_ESCAPE: Final = re.compile(rb"\\[\\\"n]")
LONGEST_LINE: Final = 16 * 1024
LONGEST_NAME: Final = 512
MOST_NAMES: Final = 20_000
MOST_LABELS: Final = 64
MOST_LINES: Final = 1_000_000


class PageContent(msgspec.Struct):
    """The wanted lines of a page."""

    samples: dict[bytes, float]
    """By the text of a series: name and labels as they stand on the page."""
    malformed: int = 0
    """Wanted lines that could not be read."""
    too_many: int = 0
    """Wanted lines beyond the limit."""


def read_page(page: bytes, wanted: Callable[[bytes], bool], most: int) -> PageContent:
    """The lines whose metric's name is wanted, at most so many."""
    decided: dict[bytes, bool] = {}
    content = PageContent({})
    samples = content.samples
    for number, line in enumerate(io.BytesIO(page)):
        if number >= MOST_LINES:
            content.too_many += 1
            break
        brace = line.find(b"{")
        name = line[:brace] if brace >= 0 else line.partition(b" ")[0]
        known = decided.get(name)
        if known is None:
            name = name.strip()
            if len(name) > LONGEST_NAME or name[:1] == b"#" or len(decided) >= MOST_NAMES:
                continue
            known = decided[name] = wanted(name)
        if not known:
            continue
        if len(samples) >= most:
            content.too_many += 1
            continue
        end = line.rfind(b"}") + 1 if brace >= 0 else line.find(name) + len(name)
        rest = line[end:].split()
        try:
            if not 1 <= len(rest) <= 2 or len(line) > LONGEST_LINE:
                raise ValueError
            samples[line[:end].strip()] = float(rest[0])
        except ValueError:
            content.malformed += 1
    return content


def parse_series(text: bytes) -> Mapping[str, str] | None:
    """The labels of a series as it stands on a page, with ``__name__``; None if it is malformed."""
    plain = _parse_plain(text)
    if plain is not None:
        return plain
    found = _SERIES.fullmatch(text.strip())
    if found is None:
        return None
    labels: dict[str, str] = {}
    try:
        rest = found[2] or b""
        position = 0
        while position < len(rest):
            label = _LABEL.match(rest, position)
            if label is None or len(labels) >= MOST_LABELS:
                return None
            value = label[2]
            if b"\\" in value:
                value = _ESCAPE.sub(lambda escape: _ESCAPES[escape[0]], value)
            name = label[1].decode()
            if name in labels or name == "__name__":
                return None
            labels[name] = value.decode()
            position = label.end()
        return {"__name__": found[1].decode(), **labels}
    except UnicodeDecodeError:
        return None


def _parse_plain(text: bytes) -> dict[str, str] | None:
    """The same in a third of the time, for series without escapes or needless spaces; None for others."""
    name, _, rest = text.partition(b"{")
    if rest[-2:] != b'"}' or b"\\" in rest:
        return None
    try:
        pairs = [pair.split('="') for pair in rest[:-2].decode().split('",')]
        labels = {"__name__": name.decode()}
        for label, value in pairs:
            labels[label] = value
    except ValueError:
        # One that is not UTF-8, or no pair.
        return None
    if len(labels) != len(pairs) + 1 or len(pairs) > MOST_LABELS or '"' in "".join(labels.values()):
        return None
    names = "".join(labels)
    is_name = labels["__name__"].replace(":", "_")
    if not (names.isascii() and is_name.isascii()):
        return None
    return labels if all(map(str.isidentifier, (is_name, *labels))) else None
