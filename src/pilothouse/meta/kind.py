"""A kind: everything the server, the command line and the documentation know about one version of one noun.

    DATABASE = Kind(group="nav.example.io", version="v1", name="Database", plural="databases", schema=schema)
    DATABASES = Resource(kinds=(DATABASE, old_version), storage="v1")

A ``Kind`` is a version; a ``Resource`` joins the versions that share one storage. Both are immutable. Kubernetes' own
kinds, ours and a user's CRDs are all made of the same two classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pilothouse.meta.fields import FieldError
from pilothouse.meta.schema.compiled_schema import CompiledSchema
from pilothouse.meta.schema.model import Schema
from pilothouse.meta.schema.native_schemas import without_unique_keys

Object = dict[str, Any]
VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of ``kubectl get``: a JSONPath into the object, or a function of the object and the time."""

    name: str
    type: str = "string"
    path: str = ""
    cell: Callable[[Object, float], Any] | None = None
    format: str = ""
    description: str = ""
    priority: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalePaths:
    """Where ``/scale`` finds its numbers; dotted paths such as ``.spec.replicas``."""

    spec: str = ".spec.replicas"
    status: str = ".status.replicas"
    selector: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subresource:
    """A further path below an object (``pods/eviction``). ``status`` and ``scale`` need not be listed."""

    name: str
    group: str
    version: str
    kind: str
    """Group, version and kind of what is sent and answered there."""
    verbs: tuple[str, ...]


def _no_problems(new: Object, old: Object | None) -> Iterable[FieldError]:
    return ()


def _no_warnings(new: Object, old: Object | None) -> Iterable[str]:
    return ()


def _unchanged(obj: Object) -> None:
    return None


def _unprotected(obj: Object) -> str:
    return ""


def _never(obj: Object) -> bool:
    return False


def _at_once(obj: Object, asked: int | None) -> int:
    return 0


def _unchanged_update(new: Object, old: Object) -> None:
    return None


@dataclass(frozen=True, kw_only=True, eq=False)
class Kind:
    """One version of a noun."""

    group: str
    version: str
    name: str
    plural: str
    schema: Schema
    singular: str = ""
    list_kind: str = ""
    """The kind of a list; empty means the kind's name and ``List``."""
    served: bool = True
    """False for a version that is only stored or only convertible."""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    namespaced: bool = True
    verbs: tuple[str, ...] = VERBS

    native: bool = False
    """A Kubernetes built-in: strategic merge and protobuf bodies are taken, a wrong type is a 400, not a 422."""
    confidential: bool = False
    """What it holds is secret: errors name its fields and never quote their values."""
    unattended: str = ""
    """Why nothing comes of its objects, for a kind that no controller acts on: each says so, in a condition and when it is
    created."""
    message: str = ""
    """The protobuf message of a native kind (``k8s.io.api.core.v1.Pod``)."""
    status: bool = False
    """Has a ``/status`` subresource, so that the main endpoint leaves ``status`` alone."""
    status_metadata: tuple[str, ...] = ()
    """What of ``metadata`` a write of ``/status`` sets too: labels and annotations, of most of Kubernetes' kinds."""
    born_with_status: bool = False
    """Takes ``status`` when it is created, though it has ``/status`` (a Node registers with its status)."""
    scale: ScalePaths | None = None
    subresources: tuple[Subresource, ...] = ()
    virtual: bool = False
    """Answered, never stored (TokenReview and the access reviews)."""
    generation: bool = True
    """Counts ``metadata.generation``; several of Kubernetes' kinds do not."""
    columns: tuple[Column, ...] = ()
    selectable: Mapping[str, str] = field(default_factory=dict)
    """Field selectors beyond ``metadata.name`` and ``metadata.namespace``: label to JSONPath (``.spec.engine``), or to
    several with ``|`` between them, of which the first that is not empty counts."""
    deprecation: str = ""
    """The warning that each request to this version gets."""

    default: Callable[[Object], None] = _unchanged
    """Fills in, in place, what depends on other fields; schema defaults are filled in before."""
    prepare_create: Callable[[Object], None] = _unchanged
    """What the server itself sets on a new object (a Namespace's phase, a Secret's ``stringData`` folded in)."""
    prepare_update: Callable[[Object, Object], None] = _unchanged_update
    """What the server itself sets or keeps on update, given the new and the stored object."""
    prepare_delete: Callable[[Object], None] = _unchanged
    """What the server itself sets when an object begins to go (a Namespace's phase)."""
    protected: Callable[[Object], str] = _unprotected
    """Why an object may not be deleted as it is, and what would have to be done first; empty if it may."""
    held: Callable[[Object], bool] = _never
    """Something besides ``metadata.finalizers`` keeps a terminating object (a Namespace's ``spec.finalizers``)."""
    grace: Callable[[Object, int | None], int] = _at_once
    """Seconds that an object lives on after a delete, given how many were asked for (a Pod's grace period)."""
    validate: Callable[[Object, Object | None], Iterable[FieldError]] = _no_problems
    """Problems that a schema can't express; the second argument is the stored object on update, else None."""
    warnings: Callable[[Object, Object | None], Iterable[str]] = _no_warnings
    """What a client is warned of when it writes an object that is taken, such as a deprecated field; the second argument is
    the stored object on update, else None."""
    validate_name: Callable[[str], str] | None = None
    """What is wrong with a name, or the empty string; None means an RFC 1123 subdomain."""
    unconditional_update: bool = False
    """PUT without a resourceVersion is taken as "whatever is there" (most of Kubernetes' kinds allow it)."""
    create_on_update: bool = False
    """PUT to a missing object creates it (Kubernetes allows it for a few kinds, such as Lease)."""
    time_to_live: Callable[[Object], float] | None = None
    """Seconds after which the store forgets the object (Events), 0 for never."""

    @cached_property
    def protectable(self) -> bool:
        """Whether some of its objects may be protected against deletion."""
        return self.protected is not _unprotected

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def list_name(self) -> str:
        return self.list_kind or f"{self.name}List"

    @cached_property
    def shape(self) -> CompiledSchema:
        return CompiledSchema(without_unique_keys(self.schema) if self.native else self.schema)

    @cached_property
    def prefix(self) -> bytes:
        """How each object of this kind begins when encoded; what follows is inside ``metadata``."""
        return f'{{"apiVersion":"{self.api_version}","kind":"{self.name}","metadata":{{'.encode()


Converter = Callable[[Object, str, str], Object]
"""``convert(object, from_version, to_version)``: a new object, the old one left alone."""


def relabel(group: str) -> Converter:
    """Conversion ``None``: only ``apiVersion`` changes."""

    def convert(obj: Object, source: str, target: str) -> Object:
        return {**obj, "apiVersion": f"{group}/{target}" if group else target}

    return convert


@dataclass(frozen=True, kw_only=True, eq=False)
class Resource:
    """The versions of a noun that share one storage. The first kind is the preferred version."""

    kinds: tuple[Kind, ...]
    storage: str
    """The version that is written to the store."""
    convert: Converter | None = None
    """None where only ``apiVersion`` differs between versions."""
    refresh: Callable[[Object], None] | None = None
    """Brings a stored object up to its schema of today, in place; None where what is stored is up to it."""
    key: str = ""
    """The store's prefix below the root, where it is not ``<group>/<plural>`` (two groups that share Events)."""
    stored_as: Kind | None = None
    """The kind that is written to the store where it is not one of ``kinds`` but another group's (Events again).
    ``storage`` is then a name that none of ``kinds`` has."""

    @property
    def group(self) -> str:
        return self.kinds[0].group

    @property
    def plural(self) -> str:
        return self.kinds[0].plural

    @cached_property
    def by_version(self) -> Mapping[str, Kind]:
        return {kind.version: kind for kind in self.kinds}

    @cached_property
    def schemas(self) -> Mapping[str, Schema]:
        """The schema of each version that is served, by ``apiVersion``."""
        return {kind.api_version: kind.schema for kind in self.kinds if kind.served}

    @cached_property
    def stored(self) -> Kind:
        return self.stored_as or self.by_version[self.storage]

    @cached_property
    def path(self) -> str:
        """The store's prefix below the root, without slashes around it."""
        return self.key or (f"{self.group}/{self.plural}" if self.group else self.plural)
