"""Decodes the lines of a watch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from pilothouse.api.kind_names import KindName
from pilothouse.api.objects import Object, Trees
from pilothouse.client.status_errors import error_of
from pilothouse.meta.errors import StatusError

_END = "k8s.io/initial-events-end"


class BadLine(ValueError):
    """A line that is no event; the message quotes it."""


class WatchEvent(msgspec.Struct, frozen=True):
    """An object in this version; or, if ``gone``, its removal at this revision."""

    object: Object
    gone: bool = False


class Bookmark(msgspec.Struct, frozen=True):
    """Everything up to this revision was sent. ``complete`` ends the initial objects."""

    revision: int
    complete: bool = False


Line = WatchEvent | Bookmark | StatusError
"""A ``StatusError`` is the watch's end: it can't go on."""


class _Line(msgspec.Struct):
    type: str
    object: msgspec.Raw


_line = msgspec.json.Decoder(_Line)


def decode(lines: Iterable[bytes], noun: KindName, trees: Trees) -> Iterator[Line]:
    """Raises ``BadLine``."""
    for line in lines:
        if not line:
            continue
        try:
            decoded = _line.decode(line)
            body = bytes(decoded.object)
            match decoded.type:
                case "ADDED" | "MODIFIED":
                    yield WatchEvent(Object(noun, body, trees))
                case "DELETED":
                    yield WatchEvent(Object(noun, body, trees), gone=True)
                case "BOOKMARK":
                    mark = Object(noun, body)
                    yield Bookmark(mark.revision, mark.annotations.get(_END) == "true")
                case "ERROR":
                    yield error_of(500, body)
                case other:
                    raise BadLine(f"a watch of {noun.resource} sent an event of the type {other!r}")
        except (msgspec.DecodeError, ValueError) as problem:
            if isinstance(problem, BadLine):
                raise
            raise BadLine(
                f"a watch of {noun.resource} sent what is no event ({problem}): {line[:200]!r}"
            ) from None
