"""Kinds written as Structs, and their schemas.

    class User(Fields):
        '''A login of the database.'''

        name: Annotated[str, doc("Its name.", min_length=1, max_length=63)]
        role: Annotated[Literal["ro", "rw"], doc("What it may do.")] = "ro"

    class DatabaseSpec(Fields):
        '''What the database should be like.'''

        engine: Annotated[Literal["pg", "mysql"], doc("The engine; it can't be changed.")]
        replicas: Annotated[Int32, doc("How many instances run.", ge=0, le=100)] = 1
        users: Annotated[tuple[User, ...], doc("Who may log in.", map_keys=("name",))] = ()
        memory: Annotated[Quantity | None, doc("Upper limit of memory.")] = None

        __rules__ = (ValidationRule(rule="self.replicas <= 9", message="at most nine"),)

    class Database(ApiObject):  # from pilothouse.meta.object_meta: apiVersion, kind and metadata
        '''A database.'''

        spec: Annotated[DatabaseSpec, doc("The desired state.")]
        status: Annotated[dict[str, Any] | None, doc("The state seen.")] = None

    SCHEMA = schema_of(Database, package="io.example.nav.v1")

* A class docstring is its component's description. The component's name is the package and the class name, or
  ``__component__``. ``__rules__`` are CEL rules over the whole Struct.
* Fields are renamed to camelCase, or by ``field(name="clusterIP")``.
* A field without a default is required. A zero default (None, False, 0, empty) only makes it optional. **Any
  other default is filled in on write.** To fill in a zero, or ``{}`` for the defaults below it: ``doc(...,
  default={})``.
* ``T | None`` is an optional ``T``; null is kept only with ``doc(..., nullable=True)``.
* ``Literal`` and ``StrEnum`` are enums; ``tuple``/``list`` are lists, atomic unless ``map_keys`` or
  ``list_type`` is given; ``frozenset``/``set`` are set lists; ``dict[str, T]`` is a map, ``dict[str, Any]``
  an object that keeps unknown fields; ``Any`` is any value; ``datetime`` a date-time; ``bytes`` base64.
* Limits have msgspec's names; ``min_length`` and ``max_length`` also count elements. In ``doc`` they apply to
  the schema, not the decoder, so that objects stored before a limit can be read. Limits on elements are
  written on the element: ``tuple[Annotated[str, doc(max_length=9)], ...]``.
"""

from __future__ import annotations

import enum
import inspect
import types
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    NamedTuple,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec
from msgspec import field as field

from pilothouse.meta.schema.model import ANY, UNSET, Schema, ValidationRule


class _Keywords(msgspec.StructMeta):
    """Hands ``kw_only`` down, which msgspec, unlike the other settings of a Struct, does not."""

    def __new__(
        mcls: type[_Keywords], name: str, bases: tuple[type, ...], namespace: dict[str, Any], **config: Any
    ) -> _Keywords:
        return super().__new__(mcls, name, bases, namespace, **{"kw_only": True, **config})


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
class Fields(msgspec.Struct, metaclass=_Keywords, frozen=True, omit_defaults=True, rename="camel"):
    """The base of every Struct of the API: immutable, keyword-only, in camelCase on the wire."""

    __component__: ClassVar[str]
    """The component's full name, if not the package and the class name."""
    __rules__: ClassVar[tuple[ValidationRule, ...]]
    """CEL rules over the whole Struct."""


def doc(
    text: str = "",
    *,
    default: Any = UNSET,
    nullable: bool = False,
    format: str = "",
    list_type: str = "",
    map_keys: tuple[str, ...] = (),
    map_type: str = "",
    int_or_string: bool = False,
    preserve_unknown: bool = False,
    embedded_resource: bool = False,
    rules: Iterable[ValidationRule] = (),
    merge_key: str = "",
    merge_strategy: str = "",
    ge: float | None = None,
    gt: float | None = None,
    le: float | None = None,
    lt: float | None = None,
    multiple_of: float | None = None,
    pattern: str = "",
    min_length: int | None = None,
    max_length: int | None = None,
) -> msgspec.Meta:
    """Description and limits of a field."""
    said: dict[str, Any] = {
        "default": default,
        "nullable": nullable,
        "format": format,
        "list_type": list_type or ("map" if map_keys else ""),
        "list_map_keys": map_keys,
        "map_type": map_type,
        "int_or_string": int_or_string,
        "preserve_unknown": preserve_unknown,
        "embedded_resource": embedded_resource,
        "rules": tuple(rules),
        "merge_key": merge_key,
        "merge_strategy": merge_strategy,
    }
    marks = {name: value for name, value in said.items() if value}
    if default is not UNSET:
        marks["default"] = default
    limits = _Limits(ge, gt, le, lt, multiple_of, pattern or None, min_length, max_length)
    return msgspec.Meta(description=text or None, extra={_MARKS: marks, _LIMITS: limits})


_MARKS = "marks"
_LIMITS = "limits"


class _Limits(NamedTuple):
    """Limits of a value, under ``msgspec.Meta``'s names."""

    ge: float | None
    gt: float | None
    le: float | None
    lt: float | None
    multiple_of: float | None
    pattern: str | None
    min_length: int | None
    max_length: int | None


_DECIMAL = r"(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"

Int32 = Annotated[int, doc(format="int32")]
Int64 = Annotated[int, doc(format="int64")]
IntOrString = Annotated[int | str, doc(int_or_string=True)]
Quantity = Annotated[
    int | float | str,
    doc(
        int_or_string=True,
        pattern=rf"^(\+|-)?{_DECIMAL}(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?{_DECIMAL}))?$",
    ),
]
"""An amount such as ``1.5Gi``, or a number."""
Time = Annotated[str, doc(format="date-time")]
"""RFC 3339, kept as text."""
Duration = Annotated[str, doc(format="duration")]
"""A Go duration such as ``1h30m``."""

_SCALARS: Mapping[Any, Schema] = {
    str: Schema(type="string"),
    bool: Schema(type="boolean"),
    int: Schema(type="integer", format="int64"),
    float: Schema(type="number", format="double"),
    bytes: Schema(type="string", format="byte"),
    datetime: Schema(type="string", format="date-time"),
    timedelta: Schema(type="string", format="duration"),
    Any: ANY,
    msgspec.Raw: ANY,
}


@cache
def schema_of(struct: type[msgspec.Struct], package: str = "") -> Schema:
    """The schema of a Struct; each Struct below it becomes a component ``package.Class``."""
    return _Reader(package).struct(struct)


class _Reader:
    """One walk over the types below a Struct, which refuses recursion."""

    def __init__(self, package: str) -> None:
        self.package = package
        self.way: list[type] = []

    def struct(self, struct: type[msgspec.Struct]) -> Schema:
        if struct in self.way:
            raise TypeError(
                f"{struct.__name__} contains itself; a schema is a finite tree, so cut it with Any"
            )
        self.way.append(struct)
        hints = get_type_hints(struct, include_extras=True)
        properties: dict[str, Schema] = {}
        required: list[str] = []
        for info in msgspec.structs.fields(struct):
            where = f"{struct.__name__}.{info.name}"
            node = self.node(hints[info.name], where)
            if info.required:
                if _optional(hints[info.name]):
                    raise TypeError(f"{where} is optional by its type, so it needs a default: `= None`")
                required.append(info.encode_name)
            elif node.default is UNSET:
                node = _with_default(node, info)
            properties[info.encode_name] = node
        self.way.pop()
        name = struct.__dict__.get("__component__", "")
        if not name and self.package:
            name = f"{self.package}.{struct.__name__}"
        return Schema(
            type="object",
            ref=name,
            description=inspect.cleandoc(struct.__dict__.get("__doc__") or ""),
            properties=properties,
            required=tuple(required),
            rules=struct.__dict__.get("__rules__", ()),
        )

    def node(self, hint: Any, where: str) -> Schema:
        if get_origin(hint) is Annotated:
            inner, *metas = get_args(hint)
            node = self.node(inner, where)
            for meta in metas:
                if isinstance(meta, msgspec.Meta):
                    node = _limited(node, meta)
            return node
        if hint in _SCALARS:
            return _SCALARS[hint]
        if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
            return self.struct(hint)
        if isinstance(hint, type) and issubclass(hint, enum.StrEnum):
            return Schema(type="string", enum=tuple(str(member) for member in hint))
        return self.compound(hint, where)

    def compound(self, hint: Any, where: str) -> Schema:
        origin, args = get_origin(hint), get_args(hint)
        if origin is Literal:
            kinds = {type(value) for value in args}
            if kinds <= {str}:
                return Schema(type="string", enum=args)
            if kinds <= {int}:
                return Schema(type="integer", enum=args)
        if origin in (Union, types.UnionType):
            rest = [arg for arg in args if arg is not type(None)]
            if len(rest) == 1:
                return self.node(rest[0], where)
            if str in rest and set(rest) <= {int, float, str}:
                return Schema(int_or_string=True)
        if origin in (list, tuple) and (len(args) == 1 or args[1:] == (...,)):
            return Schema(type="array", items=self.node(args[0], where))
        if origin in (set, frozenset):
            return Schema(type="array", items=self.node(args[0], where), list_type="set")
        if origin in (dict, Mapping) and args[0] is str:
            if args[1] is Any:
                return Schema(type="object", preserve_unknown=True)
            return Schema(type="object", additional=self.node(args[1], where))
        raise TypeError(f"{where}: no schema for {hint!r}")


def _optional(hint: Any) -> bool:
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    return get_origin(hint) in (Union, types.UnionType) and type(None) in get_args(hint)


def _with_default(node: Schema, info: msgspec.structs.FieldInfo) -> Schema:
    value = info.default if info.default is not msgspec.NODEFAULT else info.default_factory()
    plain = msgspec.to_builtins(value)
    if not plain:
        return node
    return replace(node, default=plain, component=(node.component or node) if node.ref else None)


def _limited(node: Schema, meta: msgspec.Meta) -> Schema:
    """The node with one ``Meta`` applied."""
    extra = meta.extra or {}
    changes: dict[str, Any] = dict(extra.get(_MARKS, {}))
    if meta.description:
        changes["description"] = meta.description
    if meta.title:
        changes["title"] = meta.title
    limits = extra.get(_LIMITS, meta)
    if limits.pattern is not None:
        changes["pattern"] = limits.pattern
    if limits.multiple_of is not None:
        changes["multiple_of"] = limits.multiple_of
    for limit, exclusive, side in (
        (limits.ge, False, "minimum"),
        (limits.gt, True, "minimum"),
        (limits.le, False, "maximum"),
        (limits.lt, True, "maximum"),
    ):
        if limit is not None:
            changes[side] = limit
            changes[f"exclusive_{side}"] = exclusive
    counted = {"array": "items", "object": "properties"}.get(node.type, "length")
    if limits.min_length is not None:
        changes[f"min_{counted}"] = limits.min_length
    if limits.max_length is not None:
        changes[f"max_{counted}"] = limits.max_length
    if changes and node.ref:
        changes["component"] = node.component or node
    return replace(node, **changes) if changes else node
