"""Cells of ``kubectl get`` for Kubernetes' own kinds, as functions of the object and the time.

Their columns include ``NAME`` and ``AGE``, since not every kind begins with its name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from pilothouse.base.duration import human_age
from pilothouse.base.rfc3339 import TimeError, parse_time
from pilothouse.meta.kind import Column, Object

Cell = Callable[[Object, float], Any]

UNKNOWN: Final = "<unknown>"
NONE: Final = "<none>"
UNSET: Final = "<unset>"


def since(text: str | None, now: float) -> str:
    """The age of a time, as kubectl prints it."""
    if not text:
        return UNKNOWN
    try:
        return human_age(now - parse_time(text))
    except TimeError:
        return UNKNOWN


def column(
    name: str, description: str, cell: Cell, *, type: str = "string", wide: bool = False, format: str = ""
) -> Column:
    """A column; a wide one is shown with ``-o wide``."""
    return Column(
        name=name, type=type, cell=cell, description=description, priority=1 if wide else 0, format=format
    )


def at(*way: str, missing: Any = "") -> Cell:
    """The value at a path of keys."""

    def cell(obj: Object, now: float) -> Any:
        value: Any = obj
        for key in way:
            if not isinstance(value, Mapping) or key not in value:
                return missing
            value = value[key]
        return missing if value is None else value

    return cell


def count(field: str) -> Cell:
    """How many elements a list or map has."""
    return lambda obj, now: len(obj.get(field) or ())


def labels_text(labels: Mapping[str, str] | None) -> str:
    """A set of labels on one line."""
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or NONE


def selector_text(selector: Mapping[str, Any] | None) -> str:
    """A label selector on one line."""
    if selector is None:
        return NONE
    parts = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for requirement in selector.get("matchExpressions") or ():
        key, operator = requirement.get("key", ""), requirement.get("operator", "")
        values = ",".join(requirement.get("values") or ())
        match operator:
            case "In":
                parts.append(f"{key} in ({values})")
            case "NotIn":
                parts.append(f"{key} notin ({values})")
            case "Exists":
                parts.append(key)
            case _:
                parts.append(f"!{key}")
    return ",".join(parts) or NONE


_MODES: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def access_modes(modes: Iterable[str] | None) -> str:
    """Access modes, abbreviated."""
    found = set(modes or ())
    return ",".join(short for mode, short in _MODES.items() if mode in found)


def container_columns(
    spec_of: Callable[[Object], Mapping[str, Any]], *, wide: bool = False
) -> tuple[Column, Column]:
    """The names and the images of the containers in a pod spec."""

    def listed(field: str) -> Cell:
        return lambda obj, now: ",".join(each.get(field, "") for each in spec_of(obj).get("containers") or ())

    return (
        column("Containers", "Names of the containers.", listed("name"), wide=wide),
        column("Images", "Images of the containers.", listed("image"), wide=wide),
    )


NAME: Final = column("Name", "The object's name.", at("metadata", "name"), format="name")
AGE: Final = column(
    "Age",
    "How long ago the object was created.",
    lambda obj, now: since(obj["metadata"].get("creationTimestamp"), now),
)
CREATED_AT: Final = column(
    "Created At", "When the object was created.", at("metadata", "creationTimestamp"), type="date"
)
