"""Tables, as ``kubectl get`` prints them: objects as rows of cells.

    table_of_object(kind, obj, include=METADATA, now=clock.now())
    # {"kind":"Table",...,"columnDefinitions":[{"name":"Name",...},...],"rows":[{"cells":["a","6s"],...

A column is a JSONPath or a function of the object. Ages are computed here, as the client's clock may be
wrong. A row includes the object, or its PartialObjectMetadata, as requested.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from pilothouse.apiserver.storage import codec
from pilothouse.base.duration import human_age
from pilothouse.base.rfc3339 import TimeError, parse_time
from pilothouse.meta import errors
from pilothouse.meta.json_path import compile_first
from pilothouse.meta.kind import Column, Kind, Object

NONE, METADATA, OBJECT = "None", "Metadata", "Object"
UNKNOWN_AGE = "<unknown>"

Cell = Callable[[Object, float], Any]
NAME = Column(
    name="Name", format="name", path=".metadata.name", description="The object's name in its namespace."
)
AGE = Column(
    name="Age", type="date", path=".metadata.creationTimestamp", description="Time since it was created."
)
SCALE_COLUMNS = (
    NAME,
    Column(name="Desired", type="integer", path=".spec.replicas", description="How many there should be."),
    Column(name="Available", type="integer", path=".status.replicas", description="How many there are."),
    AGE,
)


def included(params: Mapping[str, str]) -> str:
    """How much of each object goes beside its row; 400 for an unknown value."""
    include = params.get("includeObject", "") or METADATA
    if include not in (NONE, METADATA, OBJECT):
        raise errors.bad_request(f'unrecognized includeObject value: "{include}"')
    return include


@lru_cache(maxsize=1024)
def columns_of(kind: Kind) -> tuple[Column, ...]:
    """A kind's columns. Kubernetes' own kinds place the name column themselves; elsewhere it is first."""
    declared = kind.columns or (AGE,)
    return declared if kind.native and kind.columns else (NAME, *declared)


class TableLayout:
    __slots__ = ("_cells", "definitions")

    def __init__(self, columns: Iterable[Column]) -> None:
        columns = tuple(columns)
        self._cells = tuple(_cell(column) for column in columns)
        self.definitions = codec.dump([_definition(column) for column in columns])
        """The columns as JSON."""

    def row(self, obj: Object, include: str, now: float) -> dict[str, Any]:
        cells = [cell(obj, now) for cell in self._cells]
        if include == NONE:
            return {"cells": cells, "object": None}
        return {"cells": cells, "object": obj if include == OBJECT else _metadata_of(obj)}

    def table(self, rows: Iterable[Any], metadata: Mapping[str, Any], *, columns: bool = True) -> bytes:
        """A table; the events of a watch after the first have no columns."""
        return b"%b%b}" % (self.head(metadata, columns=columns)[:-1], codec.dump(list(rows)))

    def head(self, metadata: Mapping[str, Any], *, columns: bool = True) -> bytes:
        """Everything before the first row."""
        return (
            b'{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":%b,"columnDefinitions":%b,"rows":['
            % (codec.dump(metadata), self.definitions if columns else b"null")
        )


@lru_cache(maxsize=1024)
def layout_of(kind: Kind) -> TableLayout:
    return TableLayout(columns_of(kind))


def table_of_object(kind: Kind, obj: Object, include: str, now: float) -> bytes:
    return _table_of_one(layout_of(kind), obj, include, now)


def table_of_scale(scale: Object, include: str, now: float) -> bytes:
    """A table of one Scale, the same whatever is scaled."""
    return _table_of_one(TableLayout(SCALE_COLUMNS), scale, include, now)


def _table_of_one(layout: TableLayout, obj: Object, include: str, now: float) -> bytes:
    revision = obj["metadata"].get("resourceVersion")
    return layout.table([layout.row(obj, include, now)], {"resourceVersion": revision} if revision else {})


class _WithMetadata(msgspec.Struct):
    metadata: msgspec.Raw


_metadata = msgspec.json.Decoder(_WithMetadata)


def partial(body: bytes) -> bytes:
    """A served object cut down to its metadata. The metadata's own bytes are kept as they are."""
    metadata: bytes = _metadata.decode(body).metadata
    return b"".join(
        (b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":', metadata, b"}")
    )


def _metadata_of(obj: Object) -> Object:
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}


def _definition(column: Column) -> dict[str, Any]:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description,
        "priority": column.priority,
    }


def _cell(column: Column) -> Cell:
    if column.cell is not None:
        return column.cell
    find = compile_first(column.path)
    fit: Callable[[Any, float], Any] = _FITS.get(column.type, _text)

    def cell(obj: Object, now: float) -> Any:
        found = find(obj)
        if found is None:
            return UNKNOWN_AGE if column is AGE else None
        return fit(found, now)

    return cell


def _age(value: Any, now: float) -> str:
    try:
        return human_age(now - parse_time(value))
    except TimeError:
        return "<invalid>"


def _integer(value: Any, now: float) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value)


def _number(value: Any, now: float) -> float | None:
    return None if isinstance(value, bool) or not isinstance(value, int | float) else value


def _boolean(value: Any, now: float) -> bool | None:
    return value if isinstance(value, bool) else None


def _text(value: Any, now: float) -> str:
    return value if isinstance(value, str) else codec.dump(value).decode()


_FITS: Mapping[str, Callable[[Any, float], Any]] = {
    "date": _age,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
}
