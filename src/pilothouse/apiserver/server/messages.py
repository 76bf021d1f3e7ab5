"""A request and its answer, without sockets or an HTTP library; ``connection`` converts from and to the
wire."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import lru_cache
from typing import Final, Protocol
from urllib.parse import parse_qsl

import msgspec

JSON = "application/json"
TEXT = "text/plain; charset=utf-8"
_SHORT: Final = 200
"""Queries of which the same come again and again, from each writer its own, are no longer than this."""


class User(msgspec.Struct, frozen=True):
    """The user who makes a request."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = {}


ANONYMOUS = User("system:anonymous", groups=("system:unauthenticated",))


class RecordedDecision(Protocol):
    """The decision about a request, for its audit record."""

    @property
    def allowed(self) -> bool: ...

    @property
    def reason(self) -> str: ...


class Request(msgspec.Struct):
    """A request. ``path`` is decoded, ``query`` is raw, header names are case-insensitive."""

    method: str
    path: str
    query: str = ""
    headers: Mapping[str, str] = {}
    body: bytes = b""
    user: User = ANONYMOUS
    peer: str = ""
    warnings: list[str] = []
    """Texts for ``Warning`` headers; handlers add to it."""
    impersonator: User | None = None
    """The authenticated user, if ``user`` is impersonated."""
    verdict: RecordedDecision | None = None
    """Set by the authorizer."""
    annotations: dict[str, str] = {}
    """What admission has to say in the audit record."""
    late_warnings: Callable[[], Awaitable[list[str]]] | None = None
    """Looks for further warnings once a write has been decided, where that may take some time."""
    claims_alone: bool = False
    """No other node's claims change while this one is judged: see ``restriction.node_claims``."""
    crashed: bool = False
    """The answer is that of a handler that broke."""

    def params(self) -> dict[str, str]:
        """The query's parameters; of one that is repeated, the first."""
        if not self.query:
            return {}
        return dict(_remembered(self.query)) if len(self.query) <= _SHORT else _parsed(self.query)


def _parsed(query: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        found.setdefault(name, value)
    return found


_remembered = lru_cache(maxsize=1024)(_parsed)


class ChunkedBody(msgspec.Struct, frozen=True):
    """A large body, generated while it is sent, one piece in memory at a time. ``bytes(body)`` is all of
    it."""

    read: Callable[[], Iterator[bytes | memoryview]]
    """Makes it, from the beginning each time. A piece may be empty: others get their turn after each."""
    size: int
    """About how many bytes it is made from."""
    own: int = 0
    """Bytes that are in memory for this body alone, until all of it has been sent."""

    def __bytes__(self) -> bytes:
        return b"".join(self.read())


class Response(msgspec.Struct):
    """A whole answer."""

    status: int
    body: bytes | ChunkedBody
    content_type: str = JSON
    headers: tuple[tuple[str, str], ...] = ()


class StreamChunk(msgspec.Struct, frozen=True, gc=False):
    """Bytes for many streams, with HTTP's chunk framing added once."""

    data: bytes
    framed: bytes

    @classmethod
    def of(cls, data: bytes) -> StreamChunk:
        return cls(data, b"%x\r\n%b\r\n" % (len(data), data))


class StreamSink(Protocol):
    """The open end of a stream. Nothing waits: a writer checks ``buffered`` and holds back."""

    def write(self, chunk: StreamChunk) -> None:
        """Hand over bytes; they may be buffered."""

    def buffered(self) -> int:
        """Bytes that the peer has not read yet."""

    @property
    def closed(self) -> bool:
        """True once the peer is gone; writes are then dropped."""


class UpgradedStream(Protocol):
    """An upgraded connection: bytes both ways."""

    async def receive(self) -> bytes:
        """What the peer sent; empty once it has ended."""

    async def send(self, data: bytes) -> None:
        """Send bytes, and wait while the peer reads none."""

    def write(self, data: bytes) -> None:
        """Send bytes without waiting, as to a sink."""

    def buffered(self) -> int: ...

    @property
    def closed(self) -> bool: ...


async def _nothing_to_close() -> None:
    return None


class StreamingResponse(msgspec.Struct):
    """A response without a known end: ``run`` writes until it returns, and is cancelled if the client
    disconnects."""

    run: Callable[[StreamSink], Awaitable[None]]
    content_type: str = JSON
    headers: tuple[tuple[str, str], ...] = ()
    status: int = 200
    ends: bool = False
    """It has an end of its own, which a server that is to stop waits for."""
    begun: asyncio.Future[None] | None = None
    """Done when the stream's initial part is written; until then its request keeps its seats."""
    patient: bool = False
    """Its client may read as slowly as it likes: ``run`` waits for it, so nothing is buffered."""
    close: Callable[[], Awaitable[None]] = _nothing_to_close
    """Called once at the end, also where ``run`` never was."""


class UpgradedResponse(msgspec.Struct):
    """The connection itself, for another protocol, until ``run`` returns.

    ``run`` is cancelled when the client disconnects or the server stops.
    """

    run: Callable[[UpgradedStream], Awaitable[None]]
    headers: tuple[tuple[str, str], ...] = ()
    status: int = 101
    content_type: str = ""
    begun: asyncio.Future[None] | None = None
    """As of a ``StreamingResponse``."""
    patient: bool = True
    """As of a ``StreamingResponse``."""
    close: Callable[[], Awaitable[None]] = _nothing_to_close
    """Called once at the end, also where ``run`` never was."""


Answer = Response | StreamingResponse | UpgradedResponse


def is_true(value: str | None) -> bool:
    """A boolean query parameter: given, and anything but ``false`` or ``0``."""
    return value is not None and value.lower() not in ("false", "0")
