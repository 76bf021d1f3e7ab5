"""Objects as they come from a server: immutable, kept as bytes, decoded on access.

    pod = Object(Pod, body)                # bytes; or Object.of(tree)
    pod.name, pod.labels.get("app"), pod.spec["nodeName"], pod.at("status", "phase", default="Pending")
    pod.controller                         # the reference to its controlling owner, or None
    pilot = Object(Pilot, body).as_type(v1beta1.Pilot)

Only metadata is decoded at first. A decoded tree takes several times the memory of its text, so a cache's
``Trees`` keeps only the latest ones decoded. Trees are shared and must not be changed: ``thawed`` returns a
copy. Objects are equal if they have the same uid and resourceVersion.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from pilothouse.api.kind_names import KindName, noun_of
from pilothouse.base.rfc3339 import parse_time
from pilothouse.meta.conditions import condition_is, find_condition

Tree = dict[str, Any]
T = TypeVar("T")

_NOTHING: Mapping[str, Any] = {}


class Metadata(msgspec.Struct, frozen=True, rename="camel"):
    """The part of ``metadata`` that is always decoded."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: tuple[dict[str, Any], ...] | None = None
    finalizers: tuple[str, ...] | None = None


class _Envelope(msgspec.Struct):
    metadata: Metadata = Metadata()


class _ManagedFields(msgspec.Struct, rename="camel"):
    manager: str = ""
    time: str = ""
    fields: Tree = msgspec.field(name="fieldsV1", default_factory=dict)


class _ManagedMetadata(msgspec.Struct, rename="camel"):
    managed_fields: list[_ManagedFields] = []


class _ManagedEnvelope(msgspec.Struct):
    metadata: _ManagedMetadata = msgspec.field(default_factory=_ManagedMetadata)


_envelope = msgspec.json.Decoder(_Envelope)
_managed = msgspec.json.Decoder(_ManagedEnvelope)
_decoder = msgspec.json.Decoder(Tree)


class Trees:
    """The decoded objects of a cache, at most so many. They leave out ``metadata.managedFields``, often half
    of an object, which caches don't need."""

    def __init__(self, limit: int = 1000) -> None:
        self._limit = limit
        self._decoded: deque[Object] = deque()

    def took(self, obj: Object) -> None:
        """Records that an object was decoded."""
        self._decoded.append(obj)
        if len(self._decoded) > self._limit:
            self._decoded.popleft().forget_tree()


class Object:
    """One version of an object."""

    __slots__ = ("_raw", "_tree", "_trees", "arrived", "metadata", "noun")

    def __init__(
        self, noun: KindName, body: bytes | Tree, trees: Trees | None = None, *, arrived: float = 0.0
    ) -> None:
        """From bytes, or from a tree that is not changed any more. Raises ``msgspec.DecodeError``."""
        self.noun = noun
        self.arrived = arrived
        """When a cache received this version, by its clock, in seconds since 1970; 0 without a cache."""
        self._trees = trees
        self._raw = body if isinstance(body, bytes) else b""
        self._tree = None if isinstance(body, bytes) else body
        decoded = _envelope.decode(body) if isinstance(body, bytes) else msgspec.convert(body, _Envelope)
        self.metadata = decoded.metadata

    @classmethod
    def of(cls, tree: Tree, *, arrived: float = 0.0) -> Object:
        """From a tree with ``apiVersion`` and ``kind``."""
        return cls(noun_of(tree.get("apiVersion", ""), tree.get("kind", "")), tree, arrived=arrived)

    @property
    def tree(self) -> Tree:
        """The whole object, read-only, with ``apiVersion`` and ``kind`` filled in."""
        if self._tree is None:
            self._tree = self._decoded()
            if self._trees is not None:
                self._trees.took(self)
        return self._tree

    def thawed(self) -> Tree:
        """A copy of the tree, to change and send back."""
        if self._raw:
            return self._decoded()
        return _decoder.decode(msgspec.json.encode(self._tree))

    def as_type(self, cls: type[T]) -> T:
        """The object as a Struct of ``pilothouse.api``. Raises ``msgspec.ValidationError``."""
        if self._raw:
            return msgspec.json.decode(self._raw, type=cls)
        return msgspec.convert(self._tree, cls)

    def forget_tree(self) -> None:
        """Drop the tree until the next access."""
        if self._raw:
            self._tree = None

    def _decoded(self) -> Tree:
        decoded = _decoder.decode(self._raw)
        if self._trees is not None:
            decoded.get("metadata", {}).pop("managedFields", None)
        if decoded.get("kind") != self.kind:
            # Items of lists of native kinds lack both; partial metadata has another kind.
            decoded |= {"apiVersion": self.api_version, "kind": self.kind}
        return decoded

    @property
    def api_version(self) -> str:
        return self.noun.api_version

    @property
    def kind(self) -> str:
        return self.noun.kind

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def namespace(self) -> str:
        """Empty for a cluster-wide object."""
        return self.metadata.namespace

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
        """The resourceVersion as a number; 0 if the object has none."""
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
    def finalizers(self) -> Sequence[str]:
        return self.metadata.finalizers or ()

    @property
    def owners(self) -> Sequence[Mapping[str, Any]]:
        """Its owner references."""
        return self.metadata.owner_references or ()

    @property
    def controller(self) -> Mapping[str, Any] | None:
        """The owner reference with ``controller: true``."""
        return next((owner for owner in self.owners if owner.get("controller")), None)

    @property
    def created(self) -> float:
        """The creation time, in seconds since 1970."""
        text = self.metadata.creation_timestamp
        return parse_time(text) if text else 0.0

    @property
    def deletion_timestamp(self) -> str | None:
        """When its deletion was requested, as RFC 3339 text, or None."""
        return self.metadata.deletion_timestamp

    @property
    def deleting(self) -> bool:
        """True once its deletion was requested."""
        return self.metadata.deletion_timestamp is not None

    @property
    def meta(self) -> Tree:
        """All of its metadata."""
        found: Tree = self.tree["metadata"]
        return found

    @property
    def spec(self) -> Mapping[str, Any]:
        return self.tree.get("spec") or _NOTHING

    @property
    def status(self) -> Mapping[str, Any]:
        return self.tree.get("status") or _NOTHING

    def __getitem__(self, field: str) -> Any:
        return self.tree[field]

    def get(self, field: str, default: Any = None) -> Any:
        """A top-level field of the tree."""
        return self.tree.get(field, default)

    def at(self, *path: str, default: Any = None) -> Any:
        """The value at a path of field names, or the default if it is absent or null."""
        found: Any = self.tree
        for field in path:
            if not isinstance(found, Mapping) or (found := found.get(field)) is None:
                return default
        return found

    def moment(self, *path: str) -> float | None:
        """The RFC 3339 time at a path, in seconds since 1970."""
        text = self.at(*path)
        return parse_time(text) if text else None

    def condition(self, kind: str) -> Mapping[str, Any] | None:
        """The status condition of this type."""
        return find_condition(self.status.get("conditions"), kind)

    def is_true(self, kind: str) -> bool:
        """True if the status condition of this type is True."""
        return condition_is(self.status.get("conditions"), kind)

    def managers(self, *path: str | Mapping[str, str]) -> list[str]:
        """The field managers that own the field at a path, the latest first; decoded at each call.

        A step that is a mapping is the key of a list item: ``{"name": "data"}``."""
        found = _managed.decode(self._raw) if self._raw else msgspec.convert(self._tree, _ManagedEnvelope)
        owners = [each for each in found.metadata.managed_fields if _owns(each.fields, path)]
        return [each.manager for each in sorted(owners, key=lambda each: each.time, reverse=True)]

    def owned_by(self, owner: Object) -> bool:
        """True if this owner, by uid, controls it."""
        reference = self.controller
        return reference is not None and reference.get("uid") == owner.uid

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Object):
            return NotImplemented
        mine, others = self.metadata, other.metadata
        if mine.uid or others.uid:
            return mine.uid == others.uid and mine.resource_version == others.resource_version
        return self.tree == other.tree

    def __hash__(self) -> int:
        return hash((self.metadata.uid, self.metadata.resource_version))

    def __repr__(self) -> str:
        where = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"<{self.kind} {where} @{self.resource_version or '-'}>"


def _owns(fields: Any, path: Sequence[str | Mapping[str, str]]) -> bool:
    """Whether a set of fields, as managed fields have it, contains one."""
    for step in path:
        name = f"f:{step}" if isinstance(step, str) else f"k:{msgspec.json.encode(step).decode()}"
        if not isinstance(fields, Mapping) or (fields := fields.get(name)) is None:
            return False
    return True


def owner_reference(owner: Object, *, controller: bool = True, blocks: bool = True) -> Tree:
    """An owner reference to this object."""
    return {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": controller,
        "blockOwnerDeletion": blocks,
    }
