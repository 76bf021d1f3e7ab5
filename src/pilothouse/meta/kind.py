"""A kind: what server, command line and documentation know about one version of a resource.

    DATABASE = Kind(group="nav.example.io", version="v1", name="Database", plural="databases", schema=schema)
    DATABASES = Resource(kinds=(DATABASE, old_version), storage="v1")

A ``Kind`` is a version; a ``Resource`` joins the versions that share one storage. Both are immutable.
Kubernetes' kinds, ours and users' CRDs are all made of these two classes.
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
    """Group, version and kind of request and response."""
    verbs: tuple[str, ...]


def _unprotected(obj: Object) -> str:
    return ""


@dataclass(frozen=True, kw_only=True, eq=False)
class Kind:
    """One version of a resource."""

    group: str
    version: str
    name: str
    plural: str
    schema: Schema
    singular: str = ""
    list_kind: str = ""
    """The kind of a list; by default the kind's name and ``List``."""
    served: bool = True
    """False for a version that is only stored or only convertible."""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    namespaced: bool = True
    verbs: tuple[str, ...] = VERBS

    native: bool = False
    """A Kubernetes built-in: takes strategic merge and protobuf; a wrong type is a 400, not a 422."""
    confidential: bool = False
    """Secret contents: errors name its fields and never quote their values."""
    unattended: str = ""
    """For a kind without a controller: why nothing happens, for a condition and a warning on create."""
    message: str = ""
    """The protobuf message of a native kind (``k8s.io.api.core.v1.Pod``)."""
    status: bool = False
    """Has a ``/status`` subresource, so that the main endpoint ignores ``status``."""
    status_metadata: tuple[str, ...] = ()
    """Parts of ``metadata`` that a write of ``/status`` sets too."""
    born_with_status: bool = False
    """Accepts ``status`` on create, despite ``/status`` (a Node registers with its status)."""
    scale: ScalePaths | None = None
    subresources: tuple[Subresource, ...] = ()
    virtual: bool = False
    """Answered, never stored (TokenReview and the access reviews)."""
    generation: bool = True
    """Counts ``metadata.generation``; several native kinds do not."""
    columns: tuple[Column, ...] = ()
    selectable: Mapping[str, str] = field(default_factory=dict)
    """Field selectors beyond ``metadata.name`` and ``metadata.namespace``: label to JSONPath
    (``.spec.engine``), or to several separated by ``|``, of which the first non-empty counts."""
    deprecation: str = ""
    """The warning on each request to this version."""

    default: Callable[[Object], None] = lambda obj: None
    """Fills in, in place, what depends on other fields, after the schema's defaults."""
    prepare_create: Callable[[Object], None] = lambda obj: None
    """What the server sets on create (a Namespace's phase, a Secret's ``stringData``)."""
    prepare_update: Callable[[Object, Object], None] = lambda new, old: None
    """What the server sets or keeps on update, given the new and the stored object."""
    prepare_delete: Callable[[Object], None] = lambda obj: None
    """What the server sets when an object starts terminating (a Namespace's phase)."""
    protected: Callable[[Object], str] = _unprotected
    """Why an object may not be deleted, and what to do first; empty if it may."""
    held: Callable[[Object], bool] = lambda obj: False
    """True if something besides ``metadata.finalizers`` keeps a terminating object (Namespaces)."""
    grace: Callable[[Object, int | None], int] = lambda obj, asked: 0
    """Grace period in seconds of a delete, given the number asked for (Pods)."""
    validate: Callable[[Object, Object | None], Iterable[FieldError]] = lambda new, old: ()
    """Problems that a schema can't express; the second argument is the stored object on update, else None."""
    warnings: Callable[[Object, Object | None], Iterable[str]] = lambda new, old: ()
    """Warnings for an accepted write, such as a deprecated field; the arguments are those of ``validate``."""
    hints: Mapping[str, str] = field(default_factory=dict)
    """What an error about a value of a wrong type adds: the right form, by path (``list[].a``, ``map.*``)."""
    validate_name: Callable[[str], str] | None = None
    """What is wrong with a name, or empty; None means an RFC 1123 subdomain."""
    unconditional_update: bool = False
    """PUT without a resourceVersion overwrites (most native kinds allow it)."""
    create_on_update: bool = False
    """PUT to a missing object creates it (a few native kinds, such as Lease)."""
    time_to_live: Callable[[Object], float] | None = None
    """Seconds until the store drops the object (Events); 0 for never."""

    @cached_property
    def protectable(self) -> bool:
        """Whether any of its objects may be protected against deletion."""
        return self.protected is not _unprotected

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def list_name(self) -> str:
        return self.list_kind or f"{self.name}List"

    @cached_property
    def shape(self) -> CompiledSchema:
        schema = without_unique_keys(self.schema) if self.native else self.schema
        return CompiledSchema(schema, self.hints)

    @cached_property
    def prefix(self) -> bytes:
        """How each encoded object of this kind begins; what follows is inside ``metadata``."""
        return f'{{"apiVersion":"{self.api_version}","kind":"{self.name}","metadata":{{'.encode()


Converter = Callable[[Object, str, str], Object]
"""``convert(object, from_version, to_version)`` returns a new object."""


def relabel(group: str) -> Converter:
    """Conversion ``None``: only ``apiVersion`` changes."""

    def convert(obj: Object, source: str, target: str) -> Object:
        return {**obj, "apiVersion": f"{group}/{target}" if group else target}

    return convert


@dataclass(frozen=True, kw_only=True, eq=False)
class Resource:
    """The versions of a kind that share one storage. The first one is preferred."""

    kinds: tuple[Kind, ...]
    storage: str
    """The stored version."""
    convert: Converter | None = None
    """None if versions differ in ``apiVersion`` only."""
    refresh: Callable[[Object], None] | None = None
    """Updates a stored object to today's schema, in place; None if there is nothing to update."""
    key: str = ""
    """The store's prefix below the root, if not ``<group>/<plural>`` (two groups share Events)."""
    stored_as: Kind | None = None
    """The stored kind, if it is another group's (Events). ``storage`` then is a name that no version has."""

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
        """The schema of each served version, by ``apiVersion``."""
        return {kind.api_version: kind.schema for kind in self.kinds if kind.served}

    @cached_property
    def stored(self) -> Kind:
        return self.stored_as or self.by_version[self.storage]

    @cached_property
    def path(self) -> str:
        """The store's prefix below the root, without slashes around it."""
        return self.key or (f"{self.group}/{self.plural}" if self.group else self.plural)


def single(kind: Kind) -> Resource:
    """The resource of a kind that has one version."""
    return Resource(kinds=(kind,), storage=kind.version)
