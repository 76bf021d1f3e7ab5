"""Random objects of a schema, for hypothesis.

    @given(objects(kind.schema))
    def test_...(obj): ...

Objects fit the schema as far as a schema's types, enums, bounds, formats and keyed lists go. Maps and lists may be empty,
which is told apart from absent.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from pilothouse.meta.schema.model import Schema

_WORDS = st.sampled_from(["", "a", "b", "data", "zürich", 'q"uote', "with space", "\u2028"])
_KEYS = st.sampled_from(["a", "b", "data", "x.y", "ü", "a/b"])
_NAMES = st.sampled_from(["a", "b", "c", "data", "masters"])
_TIMES = st.sampled_from(["2024-02-29T12:00:00Z", "1999-12-31T23:59:59.123+01:00"])
_AMOUNTS = st.sampled_from(["10Gi", "500m", 1, "0.5", "1e3"])
_ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | _WORDS,
    lambda child: st.lists(child, max_size=2) | st.dictionaries(_KEYS, child, max_size=2),
    max_leaves=4,
)


def objects(schema: Schema, *, fixed: dict[str, Any] | None = None) -> st.SearchStrategy[dict[str, Any]]:
    """Objects of an object schema; ``fixed`` are strategies or values for properties at the top."""
    given = {
        name: value if isinstance(value, st.SearchStrategy) else st.just(value)
        for name, value in (fixed or {}).items()
    }
    required = {name: _values(child) for name, child in schema.properties.items() if name in schema.required}
    optional = {
        name: _values(child) for name, child in schema.properties.items() if name not in schema.required
    }
    for name in given:
        required.pop(name, None)
        optional.pop(name, None)
    return st.fixed_dictionaries({**required, **given}, optional=optional)


def _values(schema: Schema) -> st.SearchStrategy[Any]:
    if schema.enum:
        return st.sampled_from(schema.enum)
    if schema.int_or_string:
        return _AMOUNTS
    match schema.type:
        case "string":
            return _TIMES if schema.format == "date-time" else _WORDS
        case "boolean":
            return st.booleans()
        case "integer":
            return st.integers(int(schema.minimum or 0), 2**31 - 1)
        case "number":
            return st.floats(0, 1000)
        case "array":
            return _lists(schema)
        case "object":
            return _maps(schema)
    return _ANYTHING


def _maps(schema: Schema) -> st.SearchStrategy[Any]:
    if schema.properties:
        return objects(schema)
    if schema.additional is not None:
        return st.dictionaries(_KEYS, _values(schema.additional), max_size=2)
    return st.dictionaries(_KEYS, _ANYTHING, max_size=2)


def _lists(schema: Schema) -> st.SearchStrategy[Any]:
    items = schema.items or Schema()
    if schema.list_map_keys:
        keys = schema.list_map_keys
        fixed = {key: _NAMES for key in keys if not items.properties[key].enum}
        return st.lists(
            objects(items, fixed=fixed), max_size=3, unique_by=lambda item: tuple(item[key] for key in keys)
        )
    if schema.list_type == "set":
        return st.lists(_values(items), max_size=3, unique=True)
    return st.lists(_values(items), max_size=2)
