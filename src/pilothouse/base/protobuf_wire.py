"""The protobuf wire format: varints, tags and fields, without any message's names.

    data = tag(1, BYTES) + delimited(b"web-0") + tag(2, VARINT) + varint(7)
    list(fields(data))     # [(1, b"web-0"), (2, 7)]

The input is not trusted: reading it returns a field or raises a ``ValueError`` that names the offset.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

VARINT, FIXED64, BYTES, GROUP, END_GROUP, FIXED32 = range(6)
"""Wire types."""
MAX_DEPTH: Final = 64

WireField = tuple[int, int, Any, int, int]
"""A field's number, wire type, value, and the value's start and end in the data.
The value is an int for ``VARINT`` and bytes for the others; a group is skipped and has none."""

_MASK: Final = 0xFFFF_FFFF_FFFF_FFFF
_SHORT: Final = tuple(bytes((value,)) for value in range(0x80))


def varint(value: int) -> bytes:
    """An integer of up to 64 bits; a negative one takes ten bytes."""
    if 0 <= value < 0x80:
        return _SHORT[value]
    value &= _MASK
    if value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def tag(number: int, wire_type: int) -> bytes:
    """What precedes the value of a field."""
    return varint(number << 3 | wire_type)


def delimited(value: bytes) -> bytes:
    """Bytes with their length in front: a string, or a message inside another."""
    return varint(len(value)) + value


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The numbers and values of a message's fields, in the order of the bytes."""
    at, end = 0, len(data)
    while at < end:
        number, _, value, _, at = read_field(data, at, end)
        yield number, value


def read_varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """The integer that begins at an offset, and the offset after it."""
    value = shift = 0
    start = at
    while at < end:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _MASK, at
        shift += 7
        if shift > 63:
            raise ValueError(f"offset {start}: a number is longer than ten bytes")
    raise ValueError(f"offset {start}: the message ends inside a number")


def read_field(data: bytes, at: int, end: int) -> WireField:
    """The field that begins at an offset."""
    begun = at
    # Most tags and lengths take one byte: a call for each would be half of the time.
    if at < end and (key := data[at]) < 0x80:
        at += 1
    else:
        key, at = read_varint(data, at, end)
    number, wire_type = key >> 3, key & 7
    if number == 0 or number > 0x1FFF_FFFF:
        raise ValueError(f"offset {begun}: {number} is no field number")
    if wire_type == BYTES:
        if at < end and (length := data[at]) < 0x80:
            at += 1
        else:
            length, at = read_varint(data, at, end)
        if length > end - at:
            raise ValueError(f"offset {at}: {length} bytes are announced, {end - at} are there")
        return number, wire_type, data[at : at + length], at, at + length
    if wire_type == VARINT:
        value, stop = read_varint(data, at, end)
        return number, wire_type, value, at, stop
    if wire_type in (FIXED64, FIXED32):
        width = 8 if wire_type == FIXED64 else 4
        if width > end - at:
            raise ValueError(f"offset {at}: the message ends inside a number")
        return number, wire_type, data[at : at + width], at, at + width
    if wire_type == GROUP:
        return number, wire_type, b"", at, _after_group(data, number, at, end)
    raise ValueError(f"offset {begun}: wire type {wire_type} is not known")


def _after_group(data: bytes, number: int, at: int, end: int) -> int:
    """The offset after a group. Kubernetes has none; one inside an unknown field is skipped with it."""
    open_groups = [number]
    while open_groups:
        begun = at
        key, after = read_varint(data, at, end)
        if key & 7 == GROUP:
            open_groups.append(key >> 3)
            if len(open_groups) > MAX_DEPTH:
                raise ValueError(f"offset {begun}: more than {MAX_DEPTH} levels of nesting")
            at = after
        elif key & 7 == END_GROUP:
            if open_groups.pop() != key >> 3:
                raise ValueError(f"offset {begun}: a group ends that was not begun")
            at = after
        else:
            at = read_field(data, at, end)[4]
    return at
