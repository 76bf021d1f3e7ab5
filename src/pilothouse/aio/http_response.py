"""Reads HTTP/1 responses of untrusted peers from a connection.

    response = await read_response(reader, max_head=16 * 1024)
    response.status, response.header("Location")
    while piece := await response.read_piece():
        ...

Work is bounded whatever the peer sends: the heads of a response and of at most ``MAX_INTERIM`` interim (1xx)
ones before it have ``max_head`` bytes together, and a body comes in pieces of one read each. Time limits are
the caller's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

MAX_INTERIM: Final = 5
"""The limit of Go's client, with which kubelets probe."""
_PIECE: Final = 64 * 1024
_HEAD_PIECE: Final = 4096
_MAX_CHUNK_LINE: Final = 1024
_MAX_TRAILER: Final = 16 * 1024
_SWITCHING: Final = 101
_BODILESS: Final = frozenset({_SWITCHING, 204, 304})
_END_OF_HEAD: Final = re.compile(rb"\n\r?\n")
_STATUS: Final = re.compile(rb"HTTP/1\.[0-9] +([1-9][0-9]{2})(?: .*)?")
_FIELD: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+)[ \t]*:[ \t]*(.*)")
_LENGTH: Final = re.compile(r"[0-9]{1,18}")
_CHUNK: Final = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;.*)?")


class HTTPResponseError(Exception):
    """There is no complete response; the message says why."""


class MalformedResponse(HTTPResponseError):
    """The data is not HTTP, or exceeds a limit."""


class TruncatedResponse(HTTPResponseError):
    """The connection ended before the response did."""


class Source(Protocol):
    """The source of a response, such as an ``asyncio.StreamReader``."""

    async def read(self, n: int, /) -> bytes:
        """Up to ``n`` bytes, as soon as there are any; empty at the end."""


class HTTPResponse:
    """The head of a response, and its body as a stream."""

    def __init__(self, status: int, fields: Mapping[str, Sequence[str]], source: Source, rest: bytes) -> None:
        """``fields`` have lower-case names. Raises ``MalformedResponse``."""
        self.status = status
        self.rest = rest
        """Bytes read after the head; after a 101, bytes of the other protocol."""
        self._fields = fields
        self._source = source
        self._body = _framing(status, fields)

    def header(self, name: str, default: str = "") -> str:
        return self._fields.get(name.lower(), (default,))[0]

    async def read_piece(self) -> bytes:
        """The next piece of the body; empty at its end. Raises ``HTTPResponseError``."""
        data, self.rest = self.rest, b""
        while True:
            if piece := self._body.feed(data):
                return piece
            if self._body.complete:
                return b""
            data = await self._source.read(_PIECE)
            if not data:
                if self._body.ends_with_connection:
                    return b""
                raise TruncatedResponse("the connection was closed within the response's body")

    async def read(self, limit: int) -> bytes:
        """The first ``limit`` bytes of the body. Raises ``HTTPResponseError``."""
        found = bytearray()
        while len(found) < limit and (piece := await self.read_piece()):
            found += piece
        return bytes(found[:limit])


async def read_response(source: Source, *, max_head: int) -> HTTPResponse:
    """The next response that is no interim one. Raises ``HTTPResponseError``."""
    data = bytearray()
    interim = spent = 0
    while True:
        searched = 0
        while (end := _END_OF_HEAD.search(data, searched)) is None:
            if spent + len(data) >= max_head:
                raise MalformedResponse(f"the response's head has more than {max_head} bytes")
            searched = max(0, len(data) - 2)
            piece = await source.read(_HEAD_PIECE)
            if not piece:
                said = "within the response's head" if data else "before any response"
                raise TruncatedResponse(f"the connection was closed {said}")
            data += piece
        spent += end.end()
        if spent > max_head:
            raise MalformedResponse(f"the response's head has more than {max_head} bytes")
        status, fields = _head(bytes(data[: end.start()]))
        del data[: end.end()]
        if status >= 200 or status == _SWITCHING:
            return HTTPResponse(status, fields, source, bytes(data))
        interim += 1
        if interim > MAX_INTERIM:
            raise MalformedResponse(f"there are more than {MAX_INTERIM} interim (1xx) responses")


def _head(data: bytes) -> tuple[int, dict[str, list[str]]]:
    first, *lines = data.split(b"\n")
    match = _STATUS.fullmatch(first.rstrip(b"\r"))
    if match is None:
        raise MalformedResponse(f"malformed HTTP response {first[:40].decode('latin-1')!r}")
    fields: dict[str, list[str]] = {}
    values: list[str] = []
    for line in lines:
        line = line.rstrip(b"\r \t")
        if line[:1] in (b" ", b"\t") and values:
            # A value that goes on, as very old servers write it.
            values[-1] = f"{values[-1]} {line.strip().decode('latin-1')}"
            continue
        field = _FIELD.fullmatch(line)
        if field is None:
            raise MalformedResponse(f"malformed header line {line[:40].decode('latin-1')!r}")
        values = fields.setdefault(field[1].decode("ascii").lower(), [])
        values.append(field[2].decode("latin-1"))
    return int(match[1]), fields


class _Framing(Protocol):
    """Finds the end of a body."""

    @property
    def complete(self) -> bool: ...

    @property
    def ends_with_connection(self) -> bool: ...

    def feed(self, data: bytes) -> bytes:
        """The part of the data that belongs to the body."""


def _framing(status: int, fields: Mapping[str, Sequence[str]]) -> _Framing:
    if status in _BODILESS:
        return _Counted(0)
    coding = ",".join(fields.get("transfer-encoding", ())).strip().lower()
    if coding:
        if coding != "chunked":
            raise MalformedResponse(f"unsupported transfer encoding {coding[:40]!r}")
        return _Chunked()
    lengths = {each.strip() for each in ",".join(fields.get("content-length", ())).split(",")} - {""}
    if not lengths:
        return _UntilClosed()
    length = lengths.pop()
    if lengths or not _LENGTH.fullmatch(length):
        raise MalformedResponse(f"bad Content-Length {length[:40]!r}")
    return _Counted(int(length))


class _Counted:
    ends_with_connection = False

    def __init__(self, length: int) -> None:
        self._left = length

    @property
    def complete(self) -> bool:
        return self._left == 0

    def feed(self, data: bytes) -> bytes:
        found = data[: self._left]
        self._left -= len(found)
        return found


class _UntilClosed:
    ends_with_connection = True
    complete = False

    def feed(self, data: bytes) -> bytes:
        return data


class _Chunked:
    ends_with_connection = False

    def __init__(self) -> None:
        self.complete = False
        self._kept = b""
        """The beginning of a line."""
        self._left = 0
        """Remaining bytes of the chunk."""
        self._within = False
        """In a chunk, or at its line end."""
        self._trailer = -1
        """Bytes of the trailer; -1 before it."""

    def feed(self, data: bytes) -> bytes:
        data, at = self._kept + data, 0
        found: list[bytes] = []
        while not self.complete:
            if self._left:
                piece = data[at : at + self._left]
                found.append(piece)
                self._left -= len(piece)
                at += len(piece)
                if self._left:
                    break
            end = data.find(b"\n", at)
            if end < 0:
                if len(data) - at > _MAX_CHUNK_LINE:
                    raise MalformedResponse(f"a line between chunks has more than {_MAX_CHUNK_LINE} bytes")
                break
            self._line(data[at:end].rstrip(b"\r \t"))
            at = end + 1
        self._kept = data[at:]
        return b"".join(found)

    def _line(self, line: bytes) -> None:
        if self._trailer >= 0:
            self._trailer += len(line)
            if self._trailer > _MAX_TRAILER:
                raise MalformedResponse(f"the trailer has more than {_MAX_TRAILER} bytes")
            self.complete = not line
        elif self._within:
            if line:
                raise MalformedResponse("a chunk is longer than its line says")
            self._within = False
        else:
            match = _CHUNK.fullmatch(line)
            if match is None or len(line) > _MAX_CHUNK_LINE:
                raise MalformedResponse(f"malformed chunk size {line[:20].decode('latin-1')!r}")
            self._left = int(match[1], 16)
            self._within = self._left > 0
            if not self._left:
                self._trailer = 0
