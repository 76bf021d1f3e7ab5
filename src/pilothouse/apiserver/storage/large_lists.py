"""Lists too large for memory, rendered in pieces while the client reads them.

    ChunkedBody(lambda: joined(head, view.parts, items), size)  # {"kind":"PodList",…,"items":[{…},{…}]}
    ChunkedBody(lambda: laid_out(form, head, members), size)  # the same in YAML, or indented
    ChunkedBody(lambda: gzipped(joined(head, view.parts, items)), size)

They reference items that the cache holds anyway.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator

import msgspec

from pilothouse.apiserver.server import yaml_encoding
from pilothouse.apiserver.server.compression import LEVEL, TURN
from pilothouse.apiserver.server.negotiation import YAML, AnswerForm
from pilothouse.apiserver.storage.items import Buffer, Item

LARGE = 1024 * 1024
"""Bytes of values from which on a list is made in pieces, unless it is kept for others."""
PIECE = 128 * 1024
"""About so many bytes of values become one piece."""
_TAIL = b"]}"
_GZIP = 31

Parts = Callable[[list[Item]], list[Buffer]]


def weight(items: Iterable[Item]) -> int:
    """Bytes of all values."""
    return sum([len(item.value) for item in items])


def joined(head: bytes, parts: Parts, items: list[Item]) -> Iterator[Buffer]:
    """A list in JSON, from its head (up to the bracket) to its end."""
    yield head
    comma = b""
    for batch in batches(items):
        made = parts(batch)
        if len(batch) == 1 and len(batch[0].value) >= PIECE:
            # Its bytes go out as they lie in the cache.
            yield comma
            yield from made
        else:
            yield comma + b"".join(made)
        comma = b","
    yield _TAIL


def laid_out(form: AnswerForm, head: bytes, members: Iterable[bytes]) -> Iterator[bytes]:
    """A list in YAML or indented; ``head`` is JSON up to the bracket before the first member."""
    if form.media == YAML:
        yield yaml_encoding.write(head + _TAIL).removesuffix(b" []\n") + b"\n"
        for member in members:
            yield yaml_encoding.write(b"[%b]" % member)
    elif form.pretty:
        yield msgspec.json.format(head + _TAIL, indent=2).removesuffix(b"]\n}")
        comma = b""
        for member in members:
            # A line's end inside of text is escaped, so these are all between members.
            yield comma + b"\n    " + msgspec.json.format(member, indent=2).replace(b"\n", b"\n    ")
            comma = b","
        yield b"\n  ]\n}\n"
    else:
        yield head
        comma = b""
        for member in members:
            yield comma + member
            comma = b","
        yield _TAIL


def gzipped(pieces: Iterable[Buffer]) -> Iterator[bytes]:
    compressor = zlib.compressobj(LEVEL, zlib.DEFLATED, _GZIP)
    for piece in pieces:
        for at in range(0, len(piece), TURN):
            yield compressor.compress(piece[at : at + TURN])
    yield compressor.flush()


def batches(items: list[Item]) -> Iterator[list[Item]]:
    """The items in order, about a piece at a time; a large one by itself."""
    batch: list[Item] = []
    size = 0
    for item in items:
        more = len(item.value)
        if batch and size + more > PIECE:
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += more
    if batch:
        yield batch
