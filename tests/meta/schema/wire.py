"""Protobuf read without a schema, for tests: fields by number, and the caller says what they hold.

read(data).one(8).named(2)["/api/v1"]    # the message in field 8; the entry of a map in its field 2
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Wire:
    """A message's fields as they came."""

    fields: tuple[tuple[int, int | bytes], ...]

    def has(self, number: int) -> bool:
        return any(found == number for found, _ in self.fields)

    def raw(self, number: int) -> list[bytes]:
        return [value for found, value in self.fields if found == number and isinstance(value, bytes)]

    def all(self, number: int) -> list[Wire]:
        return [read(value) for value in self.raw(number)]

    def one(self, number: int) -> Wire:
        (found,) = self.all(number)
        return found

    def texts(self, number: int) -> list[str]:
        return [value.decode() for value in self.raw(number)]

    def text(self, number: int) -> str:
        (found,) = self.texts(number)
        return found

    def number(self, number: int) -> int:
        (found,) = [value for key, value in self.fields if key == number]
        assert isinstance(found, int)
        return found

    def double(self, number: int) -> float:
        (found,) = self.raw(number)
        value: float = struct.unpack("<d", found)[0]
        return value

    def named(self, number: int) -> dict[str, Wire]:
        """The entries of a map; the value is empty where it was left out."""
        return {entry.text(1): entry.one(2) if entry.has(2) else Wire(()) for entry in self.all(number)}


def read(data: bytes) -> Wire:
    """The fields of a message; fails on anything that is not one."""
    return Wire(tuple(_fields(data)))


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == 0:
            value, at = _varint(data, at)
            yield number, value
            continue
        assert wire_type in (1, 2), f"wire type {wire_type} at {at}"
        size, at = (8, at) if wire_type == 1 else _varint(data, at)
        assert at + size <= len(data), f"a field ends after its message, at {at}"
        yield number, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at
