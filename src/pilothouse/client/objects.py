"""Objects as they come from a server: immutable, cheap to keep, decoded when looked into.

    pod = await api.get(PODS, "web-0", "default")
    pod.name, pod.labels, pod.owner, pod.spec["nodeName"]
    pilot = (await api.get(PILOTS, "db-0", "default")).as_type(v1beta1.Pilot)

An ``Object`` is made of the bytes that came, of which only the metadata is decoded at first: a cache of ten thousand
objects that nobody looks into stays close to the size of their text. The first look decodes the rest, once. Trees are
shared by everyone who holds the object and must not be changed: ``thawed`` gives a tree of one's own.

Two objects are equal if they are the same version of the same thing (uid and resourceVersion).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from pilothouse.client.resources import Resource

Tree = dict[str, Any]
T = TypeVar("T")
_NOTHING: Mapping[str, Any] = {}


class Owner(msgspec.Struct, frozen=True, rename="camel"):
    """A reference to what an object belongs to."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class Metadata(msgspec.Struct, frozen=True, rename="camel"):
    """The part of ``metadata`` that everyone asks for."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: tuple[Owner, ...] | None = None
    finalizers: tuple[str, ...] | None = None


class _Envelope(msgspec.Struct):
    metadata: Metadata = Metadata()


_envelope = msgspec.json.Decoder(_Envelope)
_tree = msgspec.json.Decoder(Tree)


class Object:
    """One version of an object."""

    __slots__ = ("_body", "_lean", "metadata", "resource")

    resource: Resource
    metadata: Metadata

    def __init__(self, resource: Resource, body: bytes | Tree, *, lean: bool = False) -> None:
        """Of bytes, or of a tree that nobody changes from here on. A lean one forgets ``metadata.managedFields``.

        Raises ``msgspec.DecodeError`` for what is no object.
        """
        self.resource = resource
        self._body = body
        self._lean = lean
        if isinstance(body, bytes):
            self.metadata = _envelope.decode(body).metadata
        else:
            self.metadata = msgspec.convert(body, _Envelope).metadata

    @property
    def tree(self) -> Tree:
        """All of it, to look at and not to change. It has ``apiVersion`` and ``kind``, whatever came."""
        if isinstance(self._body, bytes):
            decoded = _tree.decode(self._body)
            if self._lean:
                decoded.get("metadata", {}).pop("managedFields", None)
            if "kind" not in decoded:
                # The items of a list of Kubernetes' own kinds lack both.
                resource = self.resource
                decoded = {"apiVersion": resource.api_version, "kind": resource.kind, **decoded}
            self._body = decoded
        return self._body

    def thawed(self) -> Tree:
        """A tree of one's own, to change and send back."""
        body = self._body if isinstance(self._body, bytes) else msgspec.json.encode(self._body)
        return Object(self.resource, body, lean=self._lean).tree

    def as_type(self, cls: type[T]) -> T:
        """The object as one of the Structs of ``pilothouse.api``. Raises ``msgspec.ValidationError``."""
        if isinstance(self._body, bytes):
            return _decoder(cls).decode(self._body)
        return msgspec.convert(self._body, cls)

    @property
    def kind(self) -> str:
        return self.resource.kind

    @property
    def api_version(self) -> str:
        return self.resource.api_version

    @property
    def namespace(self) -> str:
        return self.metadata.namespace

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.metadata.namespace, self.metadata.name

    @property
    def uid(self) -> str:
        return self.metadata.uid

    @property
    def resource_version(self) -> str:
        return self.metadata.resource_version

    @property
    def revision(self) -> int:
        """The resourceVersion as the number that it is; 0 if the object never was on a server."""
        return int(self.metadata.resource_version or 0)

    @property
    def generation(self) -> int:
        return self.metadata.generation

    @property
    def labels(self) -> Mapping[str, str]:
        return self.metadata.labels or _NOTHING

    @property
    def annotations(self) -> Mapping[str, str]:
        return self.metadata.annotations or _NOTHING

    @property
    def finalizers(self) -> tuple[str, ...]:
        return self.metadata.finalizers or ()

    @property
    def owners(self) -> tuple[Owner, ...]:
        return self.metadata.owner_references or ()

    @property
    def owner(self) -> Owner | None:
        """The owner that controls the object, if one does."""
        return next((owner for owner in self.owners if owner.controller), None)

    @property
    def creation_timestamp(self) -> str | None:
        return self.metadata.creation_timestamp

    @property
    def deletion_timestamp(self) -> str | None:
        """When it was asked to go, as RFC 3339 text; None if it was not."""
        return self.metadata.deletion_timestamp

    @property
    def spec(self) -> Mapping[str, Any]:
        return self.tree.get("spec") or _NOTHING

    @property
    def status(self) -> Mapping[str, Any]:
        return self.tree.get("status") or _NOTHING

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Object):
            return NotImplemented
        return self.uid == other.uid and self.resource_version == other.resource_version

    def __hash__(self) -> int:
        return hash((self.uid, self.resource_version))

    def __repr__(self) -> str:
        where = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"<{self.kind} {where} @{self.resource_version or '-'}>"


def _decoder(cls: type[T]) -> msgspec.json.Decoder[T]:
    """Making a decoder costs as much as a hundred uses of it."""
    known = _decoders.get(cls)
    if known is None:
        known = _decoders.setdefault(cls, msgspec.json.Decoder(cls))
    return known


_decoders: dict[type[Any], msgspec.json.Decoder[Any]] = {}
