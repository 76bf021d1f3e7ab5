"""Decodes a body (JSON, YAML, Kubernetes' protobuf) to one JSON-shaped object.

The JSON decoder does not report repeated keys; they are searched for only if a cheap count suggests some.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from pilothouse.api.kubernetes import protobuf_bodies
from pilothouse.apiserver.endpoints import yaml_decoding
from pilothouse.apiserver.server.messages import Request
from pilothouse.apiserver.storage.numbers import decimal
from pilothouse.meta import errors
from pilothouse.meta.fields import child, element

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
MAX_DEPTH = 128

_decoder = msgspec.json.Decoder(float_hook=decimal)
_KEY = re.compile(rb'"\s*:')


class Body(msgspec.Struct):
    """A decoded body, and the warnings about repeated keys (the last one wins)."""

    value: Any
    duplicates: list[str] = []
    document: bytes = b""
    """The JSON, where a key was given more than once: it says in which order things come."""


def media_type(headers: Mapping[str, str]) -> str:
    """The body's media type without parameters; JSON if none is given."""
    given = headers.get("Content-Type", JSON)
    return given if given == JSON else given.partition(";")[0].strip().lower() or JSON


def read(request: Request, *, native: bool) -> Body:
    """The object in a request's body. 400 if it can't be decoded, 415 for a type that isn't accepted."""
    media = media_type(request.headers)
    if media == JSON:
        return read_json(request.body)
    if media == YAML:
        return read_yaml(request.body)
    if media == PROTOBUF and native:
        return read_protobuf(request.body)
    raise errors.unsupported_media_type([JSON, YAML, PROTOBUF] if native else [JSON, YAML])


def read_json(data: bytes) -> Body:
    """Decode JSON; 400 says where it breaks."""
    try:
        value = _decoder.decode(data)
    except RecursionError:
        raise _too_deep() from None
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise errors.bad_request(f"the body is not valid JSON: {problem}") from None
    _check_depth(value, data)
    _check_count(value, data)
    repeated = _repeated_keys(data, value)
    return Body(value, repeated, data if repeated else b"")


def field_order(document: bytes) -> dict[str, int]:
    """The position of each field in a JSON document, by path; the last one of a repeated field."""
    order: dict[str, int] = {}
    _number(json.loads(document, object_pairs_hook=_Pairs), "", order)
    return order


def read_yaml(data: bytes) -> Body:
    """Decode YAML; text that begins with a brace is taken for JSON."""
    if data.lstrip()[:1] == b"{":
        return read_json(data)
    try:
        value, duplicates = yaml_decoding.load(data, MAX_DEPTH)
    except ValueError as problem:
        raise errors.bad_request(f"the body is not valid YAML: {problem}") from None
    return Body(value, duplicates)


def read_protobuf(data: bytes) -> Body:
    """Decode the protobuf form of one of Kubernetes' kinds."""
    try:
        return Body(protobuf_bodies.read(data))
    except ValueError as problem:
        raise errors.bad_request(f"the body is not valid protobuf: {problem}") from None


def _check_depth(value: Any, data: bytes) -> None:
    # An ordinary object has fewer brackets than the limit, so the walk is for suspicious ones only.
    if data.count(b"{") + data.count(b"[") <= MAX_DEPTH:
        return
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [inner for outer in level for inner in _children(outer) if isinstance(inner, dict | list)]
        if not level:
            return
    raise _too_deep()


def _check_count(value: Any, data: bytes) -> None:
    # Each value but the first of a list or an object has a comma before it, each list and object a bracket.
    # Most bodies have far fewer than are allowed, commas in texts included; short ones can't have more.
    most = yaml_decoding.MAX_VALUES
    if len(data) < most or data.count(b",") + data.count(b"{") + data.count(b"[") < most:
        return
    count, level = 1, [value]
    while level:
        count += sum(map(len, level))
        if count > most:
            raise errors.bad_request(f"the body holds more than {most} values")
        level = [inner for outer in level for inner in _children(outer) if isinstance(inner, dict | list)]


def _too_deep() -> errors.StatusError:
    return errors.bad_request(f"the body is nested deeper than {MAX_DEPTH} levels")


def _children(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _repeated_keys(data: bytes, value: Any) -> list[str]:
    # A key is a quote and a colon. Decoding drops a repeated one, so then the decoded value shows fewer.
    # Texts that contain such a pair count alike on both sides unless they are escaped in an unusual way.
    encoded = msgspec.json.encode(value)
    if data == encoded or (b"\\u" not in data and len(_KEY.findall(data)) == len(_KEY.findall(encoded))):
        return []
    found: list[str] = []
    _walk(json.loads(data, object_pairs_hook=_Pairs), [], found)
    return [f'duplicate field "{path}"' for path in dict.fromkeys(found)]


class _Pairs(list[tuple[str, Any]]):
    """An object's members as they came, repeats included."""


def _walk(value: Any, way: list[str | int], found: list[str]) -> None:
    # Paths are spelled out for a bounded number of repeats: each can be as long as the body.
    if isinstance(value, _Pairs):
        seen: dict[str, int] = {}
        for name, inner in value:
            way.append(name)
            seen[name] = seen.get(name, 0) + 1
            if seen[name] == 2 and len(found) < yaml_decoding.MOST_REPEATS:
                found.append(_spelled(way)[: yaml_decoding.LONGEST_PATH])
            _walk(inner, way, found)
            way.pop()
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            way.append(index)
            _walk(inner, way, found)
            way.pop()


def _number(value: Any, path: str, order: dict[str, int]) -> None:
    if len(path) > yaml_decoding.LONGEST_PATH:
        return
    if isinstance(value, _Pairs):
        for name, inner in value:
            below = child(path, name)
            order[below] = len(order)
            _number(inner, below, order)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            _number(inner, element(path, index), order)


def _spelled(way: list[str | int]) -> str:
    path = ""
    for step in way:
        path = child(path, step) if isinstance(step, str) else element(path, step)
    return path
