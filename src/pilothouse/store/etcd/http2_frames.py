"""HTTP/2 frames (RFC 9113). No I/O, no streams.

    reader = FrameReader()
    for kind, flags, stream, payload in reader.feed(data): ...
    if reader.fault: ...

    frame(PING, ACK, 0, payload)

After an invalid frame reading stops and ``fault`` says why. A header block in pieces becomes one HEADERS
frame, without padding. DATA keeps its padding, which counts in windows, until ``unpadded``.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from struct import error as struct_error

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = (
    range(10)
)

END_STREAM = ACK = 0x1
END_HEADERS = 0x4
PADDED = 0x8
PRIORITISED = 0x20

HEADER_TABLE_SIZE, ENABLE_PUSH, MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE = range(1, 6)

NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR, FLOW_CONTROL_ERROR = range(4)
FRAME_SIZE_ERROR, REFUSED_STREAM, CANCEL, COMPRESSION_ERROR = range(6, 10)
ERRORS = (
    *(
        "NO_ERROR",
        "PROTOCOL_ERROR",
        "INTERNAL_ERROR",
        "FLOW_CONTROL_ERROR",
        "SETTINGS_TIMEOUT",
        "STREAM_CLOSED",
    ),
    *(
        "FRAME_SIZE_ERROR",
        "REFUSED_STREAM",
        "CANCEL",
        "COMPRESSION_ERROR",
        "CONNECT_ERROR",
        "ENHANCE_YOUR_CALM",
    ),
    *("INADEQUATE_SECURITY", "HTTP_1_1_REQUIRED"),
)

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
FRAME_LIMIT = 1 << 14
"""The longest payload that either side sends unless the other has allowed more. We never do."""
WINDOW = 65_535
"""Bytes of DATA that a side may send before the other has said anything about it."""
LARGEST_WINDOW = LARGEST_STREAM = (1 << 31) - 1

_PLAIN_HEADERS = END_HEADERS | END_STREAM
_BLOCK_LIMIT = 1 << 20
"""Headers of more bytes than this are no headers."""
_HEAD = Struct(">HBBBI")
_SETTING = Struct(">HI")
_NUMBER = Struct(">I")

Frame = tuple[int, int, int, bytes]
"""Kind, flags, stream, payload."""

_LENGTHS = {RST_STREAM: 4, PING: 8, WINDOW_UPDATE: 4, PRIORITY: 5}


class ProtocolError(Exception):
    """The other side violates HTTP/2. The connection must end."""

    def __init__(self, message: str, code: int = PROTOCOL_ERROR) -> None:
        super().__init__(message)
        self.code = code


class FrameReader:
    def __init__(self) -> None:
        self.fault: ProtocolError | None = None
        self._rest = b""
        self._block: tuple[int, int, bytearray] | None = None
        """The stream, flags and bytes of a header block of which more is to come."""

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that these bytes complete; none once there is a fault."""
        frames: list[Frame] = []
        if self.fault is not None:
            return frames
        if self._rest:
            data = self._rest + data
        at, size = 0, len(data)
        try:
            while size - at >= 9:
                high, low, kind, flags, stream = _HEAD.unpack_from(data, at)
                length = high << 8 | low
                if length > FRAME_LIMIT:
                    raise ProtocolError(
                        f"a frame of {length} bytes; the longest is {FRAME_LIMIT}", FRAME_SIZE_ERROR
                    )
                end = at + 9 + length
                if end > size:
                    break
                payload = data[at + 9 : end]
                at = end
                stream &= LARGEST_STREAM
                plain = kind == DATA or (kind == HEADERS and flags | END_STREAM == _PLAIN_HEADERS)
                if plain and stream and self._block is None:
                    frames.append((kind, flags, stream, payload))
                else:
                    self._other(kind, flags, stream, payload, frames)
        except ProtocolError as fault:
            self.fault = fault
        self._rest = data[at:]
        return frames

    def _other(self, kind: int, flags: int, stream: int, payload: bytes, frames: list[Frame]) -> None:
        if (kind == CONTINUATION) is (self._block is None):
            raise ProtocolError("a header block that is interrupted, or goes on where none has begun")
        if kind == CONTINUATION:
            self._go_on(flags, stream, payload, frames)
            return
        if (kind in (DATA, HEADERS, PRIORITY, RST_STREAM) and not stream) or (
            kind in (SETTINGS, PING, GOAWAY) and stream
        ):
            raise ProtocolError(f"a frame of type {kind} does not belong on stream {stream}")
        if len(payload) != _LENGTHS.get(kind, len(payload)):
            raise ProtocolError(f"a frame of type {kind} with {len(payload)} bytes", FRAME_SIZE_ERROR)
        if kind == HEADERS:
            if flags & PADDED:
                payload = unpadded(payload)
            if flags & PRIORITISED:
                if len(payload) < 5:
                    raise ProtocolError("headers too short for their priority", FRAME_SIZE_ERROR)
                payload = payload[5:]
            if not flags & END_HEADERS:
                self._block = stream, flags, bytearray(payload)
                return
        elif kind == PUSH_PROMISE:
            raise ProtocolError("a push, which was not allowed")
        frames.append((kind, flags, stream, payload))

    def _go_on(self, flags: int, stream: int, payload: bytes, frames: list[Frame]) -> None:
        assert self._block is not None
        begun, first_flags, block = self._block
        if stream != begun:
            raise ProtocolError(f"the headers of stream {begun} go on on stream {stream}")
        block += payload
        if len(block) > _BLOCK_LIMIT:
            raise ProtocolError(f"a header block of more than {_BLOCK_LIMIT} bytes")
        if flags & END_HEADERS:
            self._block = None
            frames.append((HEADERS, first_flags | END_HEADERS, stream, bytes(block)))


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return head(kind, flags, stream, len(payload)) + payload


def head(kind: int, flags: int, stream: int, length: int) -> bytes:
    """The nine bytes before a payload."""
    return _HEAD.pack(length >> 8, length & 0xFF, kind, flags, stream)


def unpadded(payload: bytes) -> bytes:
    """What a padded payload holds."""
    if not payload or payload[0] >= len(payload):
        raise ProtocolError("padding that is longer than its frame")
    return payload[1 : len(payload) - payload[0]]


def settings(values: Mapping[int, int]) -> bytes:
    return b"".join(_SETTING.pack(key, value) for key, value in values.items())


def read_settings(payload: bytes) -> dict[int, int]:
    """What a SETTINGS frame says, each value checked for its range."""
    try:
        values = dict(_SETTING.iter_unpack(payload))
    except struct_error:
        raise ProtocolError(f"settings of {len(payload)} bytes", FRAME_SIZE_ERROR) from None
    if values.get(INITIAL_WINDOW_SIZE, 0) > LARGEST_WINDOW:
        raise ProtocolError("a window of more than 2 GiB", FLOW_CONTROL_ERROR)
    if not FRAME_LIMIT <= values.get(MAX_FRAME_SIZE, FRAME_LIMIT) < 1 << 24:
        raise ProtocolError(f"a largest frame of {values[MAX_FRAME_SIZE]} bytes")
    return values


def number(value: int) -> bytes:
    """Four bytes: the payload of WINDOW_UPDATE and RST_STREAM."""
    return _NUMBER.pack(value)


def read_number(payload: bytes, at: int = 0) -> int:
    """Four bytes of a payload."""
    if len(payload) < at + 4:
        raise ProtocolError(f"a payload of {len(payload)} bytes is too short", FRAME_SIZE_ERROR)
    value: int = _NUMBER.unpack_from(payload, at)[0]
    return value


def error_name(code: int) -> str:
    return ERRORS[code] if code < len(ERRORS) else f"error {code}"
