"""Encodes conditional writes by hand, four times as fast as with protobuf's objects.

    conditional([(b"/a", 17)], put(b"/a", b"value", lease=0))

A TxnRequest (see ``messages``) that compares the last revision of each key (0: absent), acts if all match,
and otherwise reads those keys.
"""

from __future__ import annotations

from collections.abc import Sequence

from pilothouse.base.protobuf_wire import varint


def put(key: bytes, value: bytes, lease: int) -> bytes:
    """An act: a RequestOp that puts a value."""
    request = _field(b"\x0a", key) + _field(b"\x12", value)
    if lease:
        request += b"\x18" + varint(lease)
    return _field(b"\x12", request)


def delete(key: bytes) -> bytes:
    """An act: a RequestOp that removes a key."""
    return _field(b"\x1a", _field(b"\x0a", key))


def conditional(expected: Sequence[tuple[bytes, int]], act: bytes) -> bytes:
    """A TxnRequest: do ``act`` if each key stands at its revision, else read them all."""
    compare = look = b""
    for key, revision in expected:
        # Target 2 is the key's last revision; the result that is left out asks for equality.
        compare += _field(b"\x0a", b"\x10\x02" + _field(b"\x1a", key) + b"\x30" + varint(revision))
        look += _field(b"\x1a", _field(b"\x0a", _field(b"\x0a", key)))
    return b"".join((compare, _field(b"\x12", act), look))


def _field(tag: bytes, value: bytes) -> bytes:
    return tag + varint(len(value)) + value
