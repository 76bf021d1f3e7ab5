"""gRPC message framing: one byte, a length, the message.

    envelopes = MessageReader()
    envelopes.feed(data)        # the messages that these bytes complete

The byte is 0: we accept no compression.
"""

from __future__ import annotations

from struct import Struct

from pilothouse.store.etcd.http2_frames import ProtocolError

_HEAD = Struct(">BI")
LARGEST = (1 << 31) - 1
"""Protobuf itself takes no longer message."""


def enveloped(message: bytes) -> bytes:
    return _HEAD.pack(0, len(message)) + message


def opened(parts: list[bytes]) -> bytes:
    """The one message of a whole answer. Raises ``ProtocolError`` if there is none, or more."""
    whole = parts[0] if len(parts) == 1 else b"".join(parts)
    if len(whole) < 5 or length_at(whole, 0) != len(whole) - 5:
        raise ProtocolError(f"an answer of {len(whole)} bytes that is not one message")
    return whole[5:]


def length_at(data: bytes, at: int) -> int:
    """The length of the message whose envelope begins there."""
    compressed, length = _HEAD.unpack_from(data, at)
    if compressed:
        raise ProtocolError("a compressed message, which was not asked for")
    if length > LARGEST:
        raise ProtocolError(f"a message of {length} bytes")
    found: int = length
    return found


class MessageReader:
    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._held = 0
        self._wanted = 5
        """So many bytes are needed before anything can be said."""

    def feed(self, data: bytes) -> list[bytes]:
        """Raises ``ProtocolError`` for an envelope that can't be opened."""
        messages: list[bytes] = []
        if self._held:
            self._parts.append(data)
            self._held += len(data)
            if self._held < self._wanted:
                return messages
            data = b"".join(self._parts)
        at, size = 0, len(data)
        self._wanted = 5
        while size - at >= 5:
            end = at + 5 + length_at(data, at)
            if end > size:
                self._wanted = end - at
                break
            messages.append(data[at + 5 : end])
            at = end
        self._held = size - at
        self._parts = [data[at:]] if self._held else []
        return messages
