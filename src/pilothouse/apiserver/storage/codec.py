"""Encoding of objects.

The stored form is canonical JSON without ``resourceVersion``: ``apiVersion``, ``kind``, ``metadata`` first,
other keys sorted. Equal objects are equal bytes, and the served form is the stored one with the revision
spliced in, without parsing:

    {"apiVersion":"v1","kind":"ConfigMap","metadata":{"resourceVersion":"42","name":"a",...
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import msgspec

from pilothouse.meta import errors
from pilothouse.meta.kind import Kind, Object, Resource
from pilothouse.store.interface import why_unreadable

_encoder = msgspec.json.Encoder(order="deterministic")
_decoder = msgspec.json.Decoder()
_HEAD = b'"metadata":{'


def encode(obj: Object) -> bytes:
    """The canonical bytes of an object, without its ``resourceVersion``. The object is not changed."""
    metadata = obj["metadata"]
    if "resourceVersion" in metadata:
        metadata = dict(metadata)
        del metadata["resourceVersion"]
    rest = dict(obj)
    head = _head(rest.pop("apiVersion"), rest.pop("kind"))
    del rest["metadata"]
    if not rest:
        return b"%b%b}" % (head, _encoder.encode(metadata))
    return b"%b%b,%b" % (head, _encoder.encode(metadata), _encoder.encode(rest)[1:])


@lru_cache(maxsize=1024)
def _head(api_version: str, kind: str) -> bytes:
    """How objects of one kind begin."""
    return b'{"apiVersion":%b,"kind":%b,"metadata":' % (_encoder.encode(api_version), _encoder.encode(kind))


def with_revision(value: bytes, revision: int) -> bytes:
    at = value.index(_HEAD) + len(_HEAD)
    return b'%b"resourceVersion":"%d",%b' % (value[:at], revision, value[at:])


def decode(value: bytes, revision: int = 0) -> Object:
    """A stored value as a new object, with its ``resourceVersion`` if a revision is given.

    500 if it is encrypted with a key that is not here.
    """
    try:
        obj: Object = _decoder.decode(value)
    except msgspec.DecodeError as problem:
        raise errors.internal(why_unreadable(value) or f"a stored value is not JSON: {problem}") from None
    if revision:
        obj["metadata"]["resourceVersion"] = str(revision)
    return obj


def copy(obj: Object) -> Object:
    """A copy of an object; far cheaper than ``copy.deepcopy``."""
    duplicate: Object = _decoder.decode(_encoder.encode(obj))
    return duplicate


def dump(anything: Any) -> bytes:
    """Plain JSON of anything that is not a stored object."""
    return _encoder.encode(anything)


def convert(resource: Resource, obj: Object, target: str) -> Object:
    """The object in another version of its resource; the same object if it already has that version.

    Full versions are compared: a stored Event may be of another group whose version has the same name.
    """
    kind = resource.stored if target == resource.storage else resource.by_version[target]
    given = str(obj["apiVersion"])
    if given == kind.api_version:
        return obj
    if resource.convert is None:
        return {**obj, "apiVersion": kind.api_version}
    return resource.convert(obj, given.rpartition("/")[2], target)


def versions_of(resource: Resource) -> Callable[[Object, str], Object] | None:
    """Conversion by ``apiVersion``, for managed fields; None where only the name differs."""
    if resource.convert is None:
        return None
    return lambda obj, api_version: convert(resource, obj, api_version.rpartition("/")[2])


def serve(resource: Resource, kind: Kind, value: bytes, revision: int) -> bytes:
    if value.startswith(kind.prefix):
        return with_revision(value, revision)
    return with_revision(encode(convert(resource, decode(value), kind.version)), revision)
