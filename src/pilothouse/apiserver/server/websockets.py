"""Streams over a WebSocket, as kube-apiserver has them: watches, one event a frame, and logs.

    upgrade = upgrade_of(request)                      # None for a request that asks for no WebSocket
    return over_websocket(streaming, upgrade, EventFrames())

A browser can't send an ``Authorization`` header, so a base64url token may be among the subprotocols;
``take_token`` removes it, so that it is neither echoed nor passed on to a node. Data frames from clients are
dropped.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec
from multidict import CIMultiDict

from pilothouse.apiserver.server.messages import (
    Request,
    StreamChunk,
    StreamingResponse,
    StreamSink,
    UpgradedResponse,
    UpgradedStream,
)
from pilothouse.meta import errors

TOKEN_PREFIX: Final = "base64url.bearer.authorization.k8s.io."
PROTOCOLS: Final = "Sec-WebSocket-Protocol"
LOG_PROTOCOLS: Final = ("", "binary.k8s.io", "base64.binary.k8s.io")
"""Subprotocols of logs; the empty name is for a client that requests none."""

_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_CONNECTION: Final = re.compile(r"(?:^|.*,)\s*upgrade\s*(?:$|,)", re.IGNORECASE)
_CONTINUED, _TEXT, _BINARY, _CLOSE, _PING, _PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
_NORMAL: Final = (1000).to_bytes(2)
_LONGEST_CONTROL: Final = 125

Frames = Callable[[bytes], Iterable[bytes]]
"""Makes frames of what a stream writes."""


class Upgrade(msgspec.Struct, frozen=True):
    accept: str
    """What proves to the client that it was understood."""
    protocols: tuple[str, ...]
    """The subprotocols that the client offers."""


def is_upgrade(method: str, headers: Mapping[str, str]) -> bool:
    return (
        method == "GET"
        and headers.get("Upgrade", "").lower() == "websocket"
        and _CONNECTION.match(headers.get("Connection", "")) is not None
    )


def upgrade_of(request: Request) -> Upgrade | None:
    """The requested WebSocket; None if there is none. Raises 400 or 403 for an unsupported one."""
    headers = request.headers
    if not is_upgrade(request.method, headers):
        return None
    refuse_other_sites(headers)
    key = headers.get("Sec-WebSocket-Key", "")
    try:
        good = len(base64.b64decode(key, validate=True)) == 16
    except binascii.Error:
        good = False
    if not good or headers.get("Sec-WebSocket-Version", "") != "13":
        raise errors.bad_request(
            "a WebSocket is asked for with Sec-WebSocket-Version: 13 and a key of 16 bytes"
        )
    accept = base64.b64encode(hashlib.sha1(key.encode() + _GUID, usedforsecurity=False).digest()).decode()
    return Upgrade(accept, _offered(headers))


def refuse_other_sites(headers: Mapping[str, str]) -> None:
    """Raise a 403 for requests by a page of another site, for which a browser uses its user's certificate."""
    if is_of_other_site(headers):
        origin, host = headers["Origin"], headers.get("Host", "")
        raise errors.forbidden("", "", "", f"a page of {origin} may not open a WebSocket at {host}")


def is_of_other_site(headers: Mapping[str, str]) -> bool:
    """Whether a page of another site may have sent it. Pages can't send a token header with a WebSocket."""
    origin, host = headers.get("Origin", ""), headers.get("Host", "")
    if headers.get("Authorization", "").lower().startswith("bearer "):
        return False
    return bool(origin) and origin.partition("://")[2].removesuffix("/") != host


def take_token(headers: Mapping[str, str]) -> tuple[str, Mapping[str, str]]:
    """The token among the subprotocols, or empty, and the headers without it. Raises 401."""
    offered = _offered(headers)
    tokens = [each.removeprefix(TOKEN_PREFIX) for each in offered if each.startswith(TOKEN_PREFIX)]
    if not tokens:
        return "", headers
    others = [each for each in offered if not each.startswith(TOKEN_PREFIX)]
    if len(tokens) > 1 or not others:
        # Without another subprotocol there would be none to answer with, and browsers want one.
        raise errors.unauthorized()
    try:
        # The decoder itself skips characters outside of its alphabet.
        if not re.fullmatch(r"[A-Za-z0-9_-]*", tokens[0]):
            raise errors.unauthorized()
        token = base64.urlsafe_b64decode(tokens[0] + "=" * (-len(tokens[0]) % 4)).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise errors.unauthorized() from None
    kept: CIMultiDict[str] = CIMultiDict(headers)
    kept[PROTOCOLS] = ", ".join(others)
    return token, kept


def over_websocket(
    streaming: StreamingResponse, upgrade: Upgrade, frames: Frames, protocol: str | None = None
) -> UpgradedResponse:
    """A stream as frames. ``protocol`` is the response's, by default the first offered."""
    chosen = protocol if protocol is not None else next(iter(upgrade.protocols), "")
    headers = [("Sec-WebSocket-Accept", upgrade.accept)]
    if chosen:
        headers.append((PROTOCOLS, chosen))

    async def run(line: UpgradedStream) -> None:
        reading = asyncio.ensure_future(_read_until_closed(line))
        writing = asyncio.ensure_future(streaming.run(_FrameSink(line, frames)))
        try:
            await asyncio.wait((reading, writing), return_when=asyncio.FIRST_COMPLETED)
            if writing.done():
                await writing
            line.write(_frame(_CLOSE, _NORMAL))
        finally:
            for each in (reading, writing):
                each.cancel()
            await asyncio.gather(reading, writing, return_exceptions=True)

    return UpgradedResponse(
        run, tuple(headers), begun=streaming.begun, patient=streaming.patient, close=streaming.close
    )


def log_over_websocket(streaming: StreamingResponse, upgrade: Upgrade) -> UpgradedResponse:
    """A log as frames. Raises 400 for unsupported subprotocols."""
    offered = upgrade.protocols or ("",)
    protocol = next((each for each in offered if each in LOG_PROTOCOLS), None)
    if protocol is None:
        raise errors.bad_request(
            f"none of the subprotocols {list(offered)} is spoken here; there is "
            f"{' and '.join(LOG_PROTOCOLS[1:])}"
        )
    frames = _encoded_frames if protocol.startswith("base64.") else _binary_frames

    async def run(sink: StreamSink) -> None:
        # An empty frame says that all is connected, also where nothing has been printed yet.
        sink.write(StreamChunk.of(b""))
        await streaming.run(sink)

    return over_websocket(msgspec.structs.replace(streaming, run=run), upgrade, frames, protocol)


class EventFrames:
    """Each line of a watch as one message; a line that is written in pieces becomes fragments."""

    __slots__ = ("_within",)

    def __init__(self) -> None:
        self._within = False
        """A message has been begun."""

    def __call__(self, data: bytes) -> Iterable[bytes]:
        for piece in _lines(data):
            last = piece.endswith(b"\n")
            yield _frame(_CONTINUED if self._within else _TEXT, piece, last=last)
            self._within = not last


def _lines(data: bytes) -> Iterable[bytes]:
    """Split after line feeds alone."""
    *lines, rest = data.split(b"\n")
    yield from (line + b"\n" for line in lines)
    if rest:
        yield rest


def _binary_frames(data: bytes) -> Iterable[bytes]:
    return (_frame(_BINARY, data),)


def _encoded_frames(data: bytes) -> Iterable[bytes]:
    return (_frame(_TEXT, base64.b64encode(data)),)


class _FrameSink:
    """A sink whose chunks go out as frames."""

    __slots__ = ("_frames", "_line")

    def __init__(self, line: UpgradedStream, frames: Frames) -> None:
        self._line = line
        self._frames = frames

    def write(self, chunk: StreamChunk) -> None:
        self._line.write(b"".join(self._frames(chunk.data)))

    def buffered(self) -> int:
        return self._line.buffered()

    @property
    def closed(self) -> bool:
        return self._line.closed


def _frame(kind: int, data: bytes, *, last: bool = True) -> bytes:
    """A message, or a fragment of one; servers do not mask."""
    first, size = (0x80 if last else 0) | kind, len(data)
    if size < 126:
        return bytes((first, size)) + data
    if size < 0x10000:
        return bytes((first, 126)) + size.to_bytes(2) + data
    return bytes((first, 127)) + size.to_bytes(8) + data


def _offered(headers: Mapping[str, str]) -> tuple[str, ...]:
    given = headers.getall(PROTOCOLS, []) if hasattr(headers, "getall") else [headers.get(PROTOCOLS, "")]
    return tuple(each.strip() for value in given for each in value.split(",") if each.strip())


async def _read_until_closed(line: UpgradedStream) -> None:
    """Answer pings, and return once the client has closed the WebSocket or disconnected."""
    reader = _FrameReader(line)
    while (control := await reader.next_control()) is not None:
        kind, data = control
        if kind == _CLOSE:
            return
        if kind == _PING:
            await line.send(_frame(_PONG, data))


class _FrameReader:
    """Reads control frames of a client and skips all others."""

    def __init__(self, line: UpgradedStream) -> None:
        self._line = line
        self._held = b""

    async def next_control(self) -> tuple[int, bytes] | None:
        """The next control frame; None at the end, and for an invalid one."""
        while True:
            head = await self._take(2)
            if head is None:
                return None
            kind, masked, size = head[0] & 0x0F, head[1] & 0x80, head[1] & 0x7F
            control = kind >= _CLOSE
            if not masked or (control and size > _LONGEST_CONTROL):
                return None
            if size >= 126:
                extended = await self._take(2 if size == 126 else 8)
                if extended is None:
                    return None
                size = int.from_bytes(extended)
            mask = await self._take(4)
            if mask is None:
                return None
            if control:
                data = await self._take(size)
                if data is None:
                    return None
                return kind, bytes(each ^ mask[index % 4] for index, each in enumerate(data))
            if not await self._skip(size):
                return None

    async def _take(self, count: int) -> bytes | None:
        while len(self._held) < count:
            more = await self._line.receive()
            if not more:
                return None
            self._held += more
        taken, self._held = self._held[:count], self._held[count:]
        return taken

    async def _skip(self, count: int) -> bool:
        while count > len(self._held):
            count -= len(self._held)
            self._held = await self._line.receive()
            if not self._held:
                return False
        self._held = self._held[count:]
        return True
