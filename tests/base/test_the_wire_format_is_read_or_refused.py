"""Protobuf's wire format: what is written is read again, and damaged input is refused with its offset."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.base.protobuf_wire import BYTES, FIXED32, FIXED64, VARINT, delimited, fields, tag, varint

NUMBERS = st.integers(min_value=1, max_value=0x1FFF_FFFF)
INTEGERS = st.integers(min_value=-(1 << 63), max_value=(1 << 64) - 1)


@given(st.lists(st.tuples(NUMBERS, INTEGERS | st.binary(max_size=300)), max_size=5))
def test_fields_come_back(message: list[tuple[int, int | bytes]]) -> None:
    data = b"".join(
        tag(number, VARINT) + varint(value)
        if isinstance(value, int)
        else tag(number, BYTES) + delimited(value)
        for number, value in message
    )

    unsigned = [(number, value % (1 << 64) if isinstance(value, int) else value) for number, value in message]
    assert list(fields(data)) == unsigned


@given(st.binary(max_size=60))
def test_any_bytes_are_fields_or_an_error_with_an_offset(data: bytes) -> None:
    refused = ""
    try:
        list(fields(data))
    except ValueError as error:
        refused = str(error)

    assert not refused or refused.startswith("offset ")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x08", "offset 1: the message ends inside a number"),
        (b"\x80", "offset 0: the message ends inside a number"),
        (b"\x08" + b"\xff" * 11, "offset 1: a number is longer than ten bytes"),
        (b"\x00\x01", "offset 0: 0 is no field number"),
        (b"\x0a\x05ab", "offset 2: 5 bytes are announced, 2 are there"),
        (b"\x0e", "offset 0: wire type 6 is not known"),
        (tag(1, FIXED64) + b"1234567", "offset 1: the message ends inside a number"),
        (tag(1, FIXED32) + b"123", "offset 1: the message ends inside a number"),
        (b"\x0b" * 70, "more than 64 levels of nesting"),
        (b"\x0b\x14", "a group ends that was not begun"),
    ],
)
def test_damage_is_named(data: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        list(fields(data))


def test_a_group_is_skipped() -> None:
    assert list(fields(b"\x0b\x10\x05\x0c" + b"\x10\x07")) == [(1, b""), (2, 7)]
