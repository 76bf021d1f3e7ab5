"""Reads Kubernetes' protobuf bodies into objects equal to the same body in JSON.

    envelope = unwrap(body)                      # Envelope(api_version="v1", kind="Namespace", raw=b"...")
    decode(envelope.raw, "k8s.io.api.core.v1.Namespace", messages)
    # {"metadata": {"name": "t"}}

A body is ``k8s\\0`` and a message with the kind and the object's own message; a table names fields and their
types. The input is untrusted: the result is an object or a ``ValueError`` with the offset; nesting and
lengths are checked, and unknown fields are skipped. Kubernetes always writes fields that are no pointers, so
a zero is dropped unless the table keeps it. Structs that are inlined in JSON but not on the wire land in the
parent.
"""

from __future__ import annotations

import struct
from base64 import b64encode
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from math import isfinite
from typing import Any, NamedTuple

import msgspec

from pilothouse.base.protobuf_wire import BYTES, FIXED64, MAX_DEPTH, VARINT, read_field, read_varint

MAGIC = b"k8s\x00"

_WIRE_TYPES = {"int32": VARINT, "int64": VARINT, "bool": VARINT, "double": FIXED64}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ABSENT: Any = object()


class Field(NamedTuple):
    """One field of a message."""

    name: str
    type: str
    """A scalar, ``time``, ``microtime``, ``quantity``, ``int-or-string``, ``raw`` (JSON bytes), or empty."""
    message: str = ""
    """The message that the field holds, if its type is empty."""
    repeated: bool = False
    map: bool = False
    """A map from strings to values of this type."""
    keeps_zero: bool = False
    inline: bool = False


class Message(NamedTuple):
    """The fields of a message by number."""

    fields: Mapping[int, Field]
    transparent: bool = False
    """Stands for the first set field, in the given order."""


class Envelope(NamedTuple):
    """The kind that a body names, and the object's own message."""

    api_version: str
    kind: str
    raw: bytes


def unwrap(data: bytes) -> Envelope:
    """Open the envelope of a request body."""
    if not data.startswith(MAGIC):
        raise ValueError("offset 0: not Kubernetes protobuf: the body doesn't begin with k8s and a zero byte")
    wire = _Wire(data, {})
    api_version = kind = ""
    raw = b""
    at, end = len(MAGIC), len(data)
    while at < end:
        number, wire_type, value, start, at = read_field(data, at, end)
        if number in (1, 2, 3, 4) and wire_type != BYTES:
            raise ValueError(f"offset {start}: field {number} of the envelope has wire type {wire_type}")
        if number == 1:
            inner, stop = start, at
            while inner < stop:
                inner_number, inner_type, inner_value, inner_start, inner = read_field(data, inner, stop)
                if inner_number in (1, 2):
                    if inner_type != BYTES:
                        raise ValueError(f"offset {inner_start}: a type's name has wire type {inner_type}")
                    text = wire.text(inner_value, inner_start)
                    api_version, kind = (text, kind) if inner_number == 1 else (api_version, text)
        elif number == 2:
            raw = value
        elif number in (3, 4) and value:
            what = "content encoding" if number == 3 else "content type"
            raise ValueError(f"offset {start}: {what} {wire.text(value, start)!r} is not supported")
    return Envelope(api_version, kind, raw)


def decode(raw: bytes, message: str, messages: Mapping[str, Message]) -> dict[str, Any]:
    """The object that a message's bytes hold."""
    found = _Wire(raw, messages).message(0, len(raw), messages[message], 0)
    if not isinstance(found, dict):
        raise ValueError(f"offset 0: {message} is not an object")
    return found


class _Wire:
    """One body being read. Offsets in errors count from the start of the data."""

    def __init__(self, data: bytes, messages: Mapping[str, Message]) -> None:
        self.data = data
        self.messages = messages

    def message(self, at: int, end: int, message: Message, depth: int) -> Any:
        """The value of a message between two offsets."""
        if depth > MAX_DEPTH:
            raise ValueError(f"offset {at}: more than {MAX_DEPTH} levels of nesting")
        obj: dict[Any, Any] = {}
        fields = message.fields
        while at < end:
            number, wire_type, value, start, at = read_field(self.data, at, end)
            field = fields.get(number)
            if field is None:
                continue
            name = number if message.transparent else field.name
            if field.map:
                key, item = self.entry(start, at, field, depth)
                obj.setdefault(name, {})[key] = item
            elif field.repeated:
                self.append(obj.setdefault(name, []), field, wire_type, value, start, at, depth)
            else:
                item = self.value(field, wire_type, value, start, at, depth)
                if field.inline:
                    obj.update(item)
                elif item is _ABSENT or not (field.keeps_zero or item or isinstance(item, dict)):
                    obj.pop(name, None)
                else:
                    obj[name] = item
        if not message.transparent:
            return obj
        for number, field in fields.items():
            if number in obj:
                return obj[number]
            if field.repeated and len(fields) == 1:
                return []
        return _ABSENT

    def append(
        self, items: list[Any], field: Field, wire_type: int, value: Any, start: int, end: int, depth: int
    ) -> None:
        scalar = _WIRE_TYPES.get(field.type)
        if scalar is not None and wire_type == BYTES:
            # A packed list: proto2 writers don't make them unless asked, readers must take them.
            while start < end:
                if scalar == VARINT:
                    packed, after = read_varint(self.data, start, end)
                    items.append(self.value(field, scalar, packed, start, after, depth))
                else:
                    after = start + 8
                    items.append(
                        self.value(field, scalar, self.data[start : min(after, end)], start, after, depth)
                    )
                start = after
            return
        item = self.value(field, wire_type, value, start, end, depth)
        items.append(None if item is _ABSENT else item)

    def entry(self, at: int, end: int, field: Field, depth: int) -> tuple[str, Any]:
        """One entry of a map: a message with the key in field 1 and the value in field 2."""
        if depth > MAX_DEPTH:
            raise ValueError(f"offset {at}: more than {MAX_DEPTH} levels of nesting")
        key = ""
        item: Any = _ABSENT
        began = at
        while at < end:
            number, wire_type, value, start, at = read_field(self.data, at, end)
            if number == 1:
                if wire_type != BYTES:
                    raise ValueError(f"offset {start}: a map's key has wire type {wire_type}")
                key = self.text(value, start)
            elif number == 2:
                item = self.value(field, wire_type, value, start, at, depth)
        if item is _ABSENT:
            item = self.value(field, _WIRE_TYPES.get(field.type, BYTES), _zero(field), began, began, depth)
        return key, None if item is _ABSENT else item

    def value(self, field: Field, wire_type: int, value: Any, start: int, end: int, depth: int) -> Any:
        """The JSON form of one value of a field's type."""
        if wire_type != _WIRE_TYPES.get(field.type, BYTES):
            raise ValueError(f"offset {start}: {field.name} has wire type {wire_type}")
        match field.type:
            case "":
                return self.message(start, end, self.messages[field.message], depth + 1)
            case "string":
                return self.text(value, start)
            case "bytes":
                return b64encode(value).decode()
            case "int64":
                return _signed(value, 64)
            case "int32":
                return _signed(value & 0xFFFF_FFFF, 32)
            case "bool":
                return value != 0
            case "double":
                return self.double(value, start)
            case "time" | "microtime":
                return self.time(start, end, micro=field.type == "microtime")
            case "quantity":
                return self.simple(start, end, {1: "string"}).get(1) or "0"
            case "int-or-string":
                return self.int_or_string(start, end)
            case "raw":
                return self.json(self.simple(start, end, {1: "bytes"}).get(1, b""), start)
        raise ValueError(f"offset {start}: {field.name} has the unknown type {field.type!r}")

    def simple(self, at: int, end: int, types: Mapping[int, str]) -> dict[int, Any]:
        """The scalar fields of a small message."""
        found: dict[int, Any] = {}
        while at < end:
            number, wire_type, value, start, at = read_field(self.data, at, end)
            if number not in types:
                continue
            wanted = types[number]
            if wire_type != _WIRE_TYPES.get(wanted, BYTES):
                raise ValueError(f"offset {start}: field {number} has wire type {wire_type}")
            if wanted == "string":
                value = self.text(value, start)
            elif wanted != "bytes":
                value = _signed(value, 64) if wanted == "int64" else _signed(value & 0xFFFF_FFFF, 32)
            found[number] = value
        return found

    def text(self, value: bytes, start: int) -> str:
        try:
            return value.decode()
        except UnicodeDecodeError as error:
            raise ValueError(f"offset {start + error.start}: a text is not UTF-8") from None

    def double(self, value: bytes, start: int) -> float | int:
        if len(value) != 8:
            raise ValueError(f"offset {start}: the message ends inside a number")
        number: float = struct.unpack("<d", value)[0]
        if not isfinite(number):
            raise ValueError(f"offset {start}: {number} can't be written in JSON")
        return int(number) if number.is_integer() and abs(number) < 2**53 else number

    def time(self, start: int, end: int, *, micro: bool) -> Any:
        parts = self.simple(start, end, {1: "int64", 2: "int32"})
        seconds, nanos = parts.get(1, 0), parts.get(2, 0)
        if not seconds and not nanos:
            return _ABSENT
        try:
            moment = _EPOCH + timedelta(seconds=seconds)
        except OverflowError:
            raise ValueError(
                f"offset {start}: {seconds} seconds are outside of the years 1 to 9999"
            ) from None
        if not 0 <= nanos < 1_000_000_000:
            raise ValueError(f"offset {start}: {nanos} nanoseconds are not within a second")
        whole = moment.replace(tzinfo=None).isoformat(timespec="seconds")
        return f"{whole}.{nanos // 1000:06d}Z" if micro else f"{whole}Z"

    def int_or_string(self, start: int, end: int) -> int | str:
        parts = self.simple(start, end, {1: "int64", 2: "int32", 3: "string"})
        match parts.get(1, 0):
            case 0:
                return int(parts.get(2, 0))
            case 1:
                return str(parts.get(3, ""))
            case other:
                raise ValueError(f"offset {start}: {other} is neither number nor string")

    def json(self, value: bytes, start: int) -> Any:
        if not value:
            return _ABSENT
        try:
            return msgspec.json.decode(value)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ValueError(f"offset {start}: embedded JSON: {error}") from None


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


def _zero(field: Field) -> Any:
    if field.type == "double":
        return bytes(8)
    return 0 if field.type in _WIRE_TYPES else b""
