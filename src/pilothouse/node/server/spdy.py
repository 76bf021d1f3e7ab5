"""SPDY/3.1, as far as kube-apiserver uses it with kubelets: frames in, frames out. No sockets.

    frames = SpdyFrames()
    for frame in frames.feed(data): ...             # StreamOpened, StreamData, Ping, StreamReset
    frames.accept(1), frames.data(3, b"hello"), frames.data(3, b"", last=True)

kube-apiserver turns the WebSocket of kubectl into SPDY before it calls a node; our own API server does not,
so this is only for nodes in a real Kubernetes. Flow control is not used. Headers are compressed as one stream
per connection, with the protocol's dictionary, so each block must be decompressed.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Final

import msgspec

LONGEST_FRAME: Final = 1024 * 1024
MOST_HEADERS: Final = 64 * 1024
_VERSION: Final = 0x8003
_FIN: Final = 1
_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _PING, _GOAWAY, _HEADERS = 1, 2, 3, 6, 7, 8
_HEAD: Final = struct.Struct(">HHI")
_WORDS: Final = (
    "options|head|post|put|delete|trace|accept|accept-charset|accept-encoding|accept-language|accept-ranges|"
    "age|allow|authorization|cache-control|connection|content-base|content-encoding|content-language|"
    "content-length|content-location|content-md5|content-range|content-type|date|etag|expect|expires|from|"
    "host|if-match|if-modified-since|if-none-match|if-range|if-unmodified-since|last-modified|location|"
    "max-forwards|pragma|proxy-authenticate|proxy-authorization|range|referer|retry-after|server|te|trailer|"
    "transfer-encoding|upgrade|user-agent|vary|via|warning|www-authenticate|method|get|status|200 OK|version|"
    "HTTP/1.1|url|public|set-cookie|keep-alive|origin"
)
_REST: Final = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized"
    "403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,"
    "text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
DICTIONARY: Final = (
    b"".join(struct.pack(">I", len(word)) + word.encode() for word in _WORDS.split("|")) + _REST.encode()
)


class SpdyError(Exception):
    """Invalid SPDY, or more than the limits."""


class StreamOpened(msgspec.Struct, frozen=True):
    stream: int
    headers: dict[str, str]


class StreamData(msgspec.Struct, frozen=True):
    """Bytes of a stream; ``last`` if no more will come."""

    stream: int
    data: bytes
    last: bool


class Ping(msgspec.Struct, frozen=True):
    """To be sent back unchanged."""

    frame: bytes


class StreamReset(msgspec.Struct, frozen=True):
    """The client resets a stream; stream 0: closes the connection."""

    stream: int


Frame = StreamOpened | StreamData | Ping | StreamReset


class SpdyFrames:
    def __init__(self) -> None:
        self._received = b""
        self._inflating = zlib.decompressobj(zdict=DICTIONARY)
        self._deflating = zlib.compressobj(zdict=DICTIONARY)

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that these bytes complete. Raises ``SpdyError``."""
        self._received += data
        while len(self._received) >= _HEAD.size:
            first, kind, rest = _HEAD.unpack_from(self._received)
            flags, length = rest >> 24, rest & 0xFFFFFF
            if length > LONGEST_FRAME:
                raise SpdyError(f"a frame of {length} bytes")
            whole = _HEAD.size + length
            if len(self._received) < whole:
                return
            frame, self._received = self._received[:whole], self._received[whole:]
            if (parsed := self._parse(first, kind, flags, frame)) is not None:
                yield parsed

    def accept(self, stream: int) -> bytes:
        """The reply to an opened stream."""
        headers = self._deflating.compress(struct.pack(">I", 0)) + self._deflating.flush(zlib.Z_SYNC_FLUSH)
        return _control(_SYN_REPLY, struct.pack(">I", stream) + headers)

    def data(self, stream: int, data: bytes, *, last: bool = False) -> bytes:
        return struct.pack(">II", stream, (_FIN if last else 0) << 24 | len(data)) + data

    def goodbye(self, last: int) -> bytes:
        """GOAWAY; ``last`` is the last stream that was accepted."""
        return _control(_GOAWAY, struct.pack(">II", last, 0))

    def _parse(self, first: int, kind: int, flags: int, frame: bytes) -> Frame | None:
        payload = frame[_HEAD.size :]
        if not first & 0x8000:
            return StreamData((first << 16 | kind) & 0x7FFFFFFF, payload, bool(flags & _FIN))
        if first != _VERSION:
            raise SpdyError(f"version {first & 0x7FFF} of the protocol instead of 3")
        try:
            match kind:
                case 1:
                    (stream,) = struct.unpack_from(">I", payload)
                    return StreamOpened(stream & 0x7FFFFFFF, self._headers(payload[10:]))
                case 3:
                    return StreamReset(struct.unpack_from(">I", payload)[0] & 0x7FFFFFFF)
                case 6:
                    return Ping(frame)
                case 7:
                    return StreamReset(0)
                case 8:
                    self._headers(payload[4:])
        except (struct.error, zlib.error, UnicodeDecodeError) as problem:
            raise SpdyError(f"a frame of kind {kind} that can't be read: {problem}") from None
        return None

    def _headers(self, block: bytes) -> dict[str, str]:
        text = self._inflating.decompress(block, MOST_HEADERS)
        if self._inflating.unconsumed_tail:
            raise SpdyError(f"more than {MOST_HEADERS} bytes of headers")
        words: list[str] = []
        (count,) = struct.unpack_from(">I", text)
        place = 4
        for _ in range(2 * min(count, MOST_HEADERS)):
            (length,) = struct.unpack_from(">I", text, place)
            if place + 4 + length > len(text):
                raise SpdyError("a header that is cut off")
            words.append(text[place + 4 : place + 4 + length].decode())
            place += 4 + length
        return {name.lower(): value for name, value in zip(words[::2], words[1::2], strict=True)}


def _control(kind: int, payload: bytes) -> bytes:
    return _HEAD.pack(_VERSION, kind, len(payload)) + payload
