"""Normal forms of quantities and times: Kubernetes stores ``cpu: 0.5`` as ``500m``, ``+02:00`` as ``Z``.

A normaliser visits only the parts of a kind that can hold such values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from pilothouse.api.kubernetes.table import MICRO_TIME, QUANTITY, TIME
from pilothouse.base.quantity import QuantityError, canonical_quantity
from pilothouse.base.rfc3339 import TimeError, format_micro_time, format_time, parse_time
from pilothouse.meta.fields import FieldError, child, element, entry
from pilothouse.meta.schema.model import Schema
from pilothouse.meta.schema.schema_plan import SchemaPlan, make_plan

_BAD_QUANTITY: Final = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)


def _quantity(value: Any) -> Any:
    return (
        canonical_quantity(value)
        if isinstance(value, str | int | float) and not isinstance(value, bool)
        else value
    )


def _time(value: Any) -> Any:
    return format_time(parse_time(value)) if isinstance(value, str) else value


def _micro_time(value: Any) -> Any:
    return format_micro_time(parse_time(value)) if isinstance(value, str) else value


_FORMS: Final[dict[str, Callable[[Any], Any]]] = {
    QUANTITY.ref: _quantity,
    TIME.ref: _time,
    MICRO_TIME.ref: _micro_time,
}


class Normaliser:
    """The normaliser of one kind."""

    def __init__(self, schema: Schema) -> None:
        self._plan = make_plan(schema, lambda node: node.ref in _FORMS)

    def apply(self, obj: dict[str, Any]) -> None:
        """Normalise every valid value; ``problems`` reports the others."""
        if self._plan is not None:
            _visit(self._plan, obj)

    def problems(self, obj: dict[str, Any]) -> Iterable[FieldError]:
        """Invalid quantities. (The schema's format covers times.)"""
        return _faults(self._plan, obj, "") if self._plan is not None else ()


def _form(plan: SchemaPlan, value: Any) -> Any:
    try:
        return _FORMS[plan.schema.ref](value)
    except (QuantityError, TimeError):
        return value


def _visit(plan: SchemaPlan, value: Any) -> None:
    if isinstance(value, dict):
        for name, inner in plan.properties:
            if name in value:
                if inner.wanted:
                    value[name] = _form(inner, value[name])
                else:
                    _visit(inner, value[name])
        inner_values = plan.additional
        if inner_values is not None:
            for name, item in value.items():
                if inner_values.wanted:
                    value[name] = _form(inner_values, item)
                else:
                    _visit(inner_values, item)
    elif isinstance(value, list) and plan.items is not None:
        for item in value:
            _visit(plan.items, item)


def _faults(plan: SchemaPlan, value: Any, path: str) -> Iterator[FieldError]:
    if plan.wanted:
        if plan.schema.ref == QUANTITY.ref:
            try:
                _quantity(value)
            except QuantityError:
                yield FieldError.invalid(path, value, _BAD_QUANTITY)
    elif isinstance(value, dict):
        for name, inner in plan.properties:
            if name in value:
                yield from _faults(inner, value[name], child(path, name))
        if plan.additional is not None:
            for name, item in value.items():
                yield from _faults(plan.additional, item, entry(path, name))
    elif isinstance(value, list) and plan.items is not None:
        for index, item in enumerate(value):
            yield from _faults(plan.items, item, element(path, index))
