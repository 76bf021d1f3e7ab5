"""Bodies in audit records: JSON on one line, or nothing if a body is unreadable or confidential."""

from __future__ import annotations

import zlib
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from pilothouse.apiserver.audit import confidential
from pilothouse.apiserver.audit.request_stage import RequestStage
from pilothouse.apiserver.endpoints import decoding
from pilothouse.apiserver.server.messages import JSON, Request, Response
from pilothouse.meta.errors import StatusError

_GZIP = 16 + zlib.MAX_WBITS


class ObjectIdentity(msgspec.Struct, frozen=True, rename="camel"):
    """The part of an object's metadata that identifies it."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


UNKNOWN = ObjectIdentity()


class _Identified(msgspec.Struct):
    metadata: ObjectIdentity = UNKNOWN


class StatusSummary(msgspec.Struct):
    """The reason and message of a failure."""

    reason: str = ""
    message: str = ""
    details: Raw | UnsetType = UNSET


_identified = msgspec.json.Decoder(_Identified)
_refusal = msgspec.json.Decoder(StatusSummary)


def identity(entry: RequestStage) -> ObjectIdentity:
    """The object of a write: of a create, as created; else as sent."""
    answer = entry.answer
    if answer is not None and entry.status == 201 and answer.content_type == JSON:
        made = _identity(plain(answer))
        return ObjectIdentity(made.name, made.namespace, made.uid)
    sent = entry.request
    return _identity(sent.body) if decoding.media_type(sent.headers) == JSON else UNKNOWN


def _identity(body: bytes) -> ObjectIdentity:
    try:
        return _identified.decode(body).metadata
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return UNKNOWN


def refusal(answer: Response) -> StatusSummary:
    """The Status of an error response; empty if it is none."""
    if answer.content_type != JSON:
        return StatusSummary()
    try:
        return _refusal.decode(plain(answer))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return StatusSummary()


def sent(request: Request, *, managed_fields: bool) -> Raw | UnsetType:
    if not request.body:
        return UNSET
    media = decoding.media_type(request.headers)
    try:
        if media == decoding.PROTOBUF:
            value = decoding.read_protobuf(request.body).value
        elif media.endswith("yaml"):
            value = decoding.read_yaml(request.body).value
        else:
            value = msgspec.json.decode(request.body)
    except (StatusError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return UNSET
    return _recorded(value, managed_fields)


def answered(answer: Response, *, managed_fields: bool) -> Raw | UnsetType:
    try:
        body = plain(answer)
        if answer.content_type.partition(";")[0] == JSON:
            if managed_fields and b"\n" not in body and body[:1] == b"{" and not confidential.mentions(body):
                return Raw(body)
            return _recorded(msgspec.json.decode(body), managed_fields)
        if answer.content_type.partition(";")[0] == decoding.YAML:
            return _recorded(decoding.read_yaml(body).value, managed_fields)
    except (StatusError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    return UNSET


def plain(answer: Response) -> bytes:
    """A response body, decompressed."""
    if ("Content-Encoding", "gzip") in answer.headers:
        return zlib.decompress(bytes(answer.body), _GZIP)
    return bytes(answer.body)


def _recorded(value: Any, managed_fields: bool) -> Raw | UnsetType:
    if confidential.is_object(value):
        return UNSET
    if not managed_fields:
        _forget_managers(value)
    return Raw(msgspec.json.encode(value))


def _forget_managers(value: Any) -> None:
    """In place: the value was decoded for the record only."""
    if not isinstance(value, dict):
        return
    metadata = value.get("metadata")
    if isinstance(metadata, dict):
        metadata.pop("managedFields", None)
    items = value.get("items")
    for item in items if isinstance(items, list) else ():
        _forget_managers(item)
