"""Ways to break an object, for hypothesis.

    @given(st.data())
    def test_...(data): broken = data.draw(broken_objects(good, schema))

A good object is taken and a few places in it are changed: a value of another type, none, far too much, text that looks
like something else; a field that the schema has but the object hasn't; a field that nobody knows. Few changes at a time,
so that a good part of what comes out is still accepted and the rest gets past the first check.
"""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import strategies as st

from pilothouse.meta.schema.model import Schema

Path = tuple[str | int, ...]

WORDS = st.sampled_from(
    [
        "",
        "a",
        "A b",
        "-",
        ".",
        "..",
        "../../etc/passwd",
        "a/b",
        "a/b/c",
        "%2e%2e",
        "true",
        "null",
        "None",
        "1",
        "-1",
        "1e9",
        "10Gi",
        "1e999",
        "99999999999999999999Ei",
        "50%",
        "101%",
        "2024-01-01T00:00:00Z",
        "9999-99-99T99:99:99Z",
        "0001-01-01T00:00:00+23:59",
        "127.0.0.1",
        "999.1.1.1",
        "::1",
        "http://[::1",
        "x" * 64,
        "x" * 254,
        "x" * 5000,
        "é",
        "\u0000",
        "\u2028",
        "\U0001f6a2",
        "a\nb",
        '"',
        "\\",
        "{{ .x }}",
        "$(A)",
        "(((((",
        "[z-a]",
        "kubernetes.io/x",
        "metadata.name",
    ]
)
NUMBERS = st.sampled_from(
    [
        0,
        1,
        -1,
        7,
        65535,
        65536,
        2**31 - 1,
        2**31,
        -(2**31) - 1,
        2**53 + 1,
        2**63 - 1,
        2**63,
        2**64,
        10**40,
        0.0,
        -0.0,
        0.1,
        1.5,
        1e308,
        5e-324,
        3.0,
    ]
)
SCALARS = st.none() | st.booleans() | NUMBERS | WORDS
ODD = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=5,
)
_TIMES = st.sampled_from(["2024-01-01T00:00:00Z", "2024-02-30T00:00:00Z", "0000-00-00T00:00:00Z", ""])
METADATA: dict[str, st.SearchStrategy[Any]] = {
    "name": WORDS,
    "generateName": WORDS,
    "namespace": WORDS | st.just("kube-system"),
    "labels": st.dictionaries(WORDS, SCALARS, max_size=3) | st.lists(WORDS, max_size=2),
    "annotations": st.dictionaries(WORDS, SCALARS, max_size=3) | st.just({"a": "x" * 300_000}),
    "finalizers": st.lists(SCALARS | st.sampled_from(["orphan", "foregroundDeletion", "x.io/y"]), max_size=3),
    "ownerReferences": st.lists(
        st.fixed_dictionaries(
            {},
            optional={
                "apiVersion": WORDS,
                "kind": WORDS,
                "name": WORDS,
                "uid": WORDS,
                "controller": st.booleans(),
                "blockOwnerDeletion": SCALARS,
            },
        )
        | SCALARS,
        max_size=3,
    ),
    "managedFields": st.lists(
        st.fixed_dictionaries(
            {},
            optional={
                "manager": WORDS,
                "operation": st.sampled_from(["Apply", "Update", "Other"]) | SCALARS,
                "apiVersion": st.sampled_from(["v1", "apps/v1", "fuzz.example.io/v1"]) | WORDS,
                "time": _TIMES,
                "fieldsType": st.sampled_from(["FieldsV1", "FieldsV2"]) | SCALARS,
                "fieldsV1": st.dictionaries(
                    st.sampled_from(
                        ["f:spec", "f:metadata", "k:{}", "k:{", "v:1", "v:", "i:x", ".", "", "q"]
                    ),
                    ODD,
                    max_size=3,
                )
                | ODD,
                "subresource": WORDS,
            },
        )
        | SCALARS,
        max_size=3,
    ),
    "resourceVersion": WORDS | SCALARS | st.sampled_from(["1", "0", "999999999"]),
    "uid": WORDS,
    "generation": SCALARS,
    "creationTimestamp": _TIMES | SCALARS,
    "deletionTimestamp": _TIMES | SCALARS,
    "deletionGracePeriodSeconds": SCALARS,
    "selfLink": SCALARS,
    "unheard": ODD,
}


def fitting(schema: Schema, depth: int = 3) -> st.SearchStrategy[Any]:
    """Values whose type fits a schema, odd in every other way."""
    if schema.enum:
        return st.sampled_from(list(schema.enum)) | WORDS
    if schema.int_or_string or schema.any_of:
        return WORDS | NUMBERS
    if schema.type == "string":
        return WORDS
    if schema.type == "boolean":
        return st.booleans()
    if schema.type in ("integer", "number"):
        return NUMBERS
    if schema.type == "array":
        inner = fitting(schema.items, depth - 1) if schema.items and depth else st.nothing()
        return st.lists(inner, max_size=3) if depth else st.just([])
    if schema.type == "object" and not depth:
        return st.just({})
    if schema.additional is not None:
        return st.dictionaries(WORDS, fitting(schema.additional, depth - 1), max_size=3)
    if schema.properties:
        return _some_of(schema, depth)
    return ODD


@st.composite
def _some_of(draw: st.DrawFn, schema: Schema, depth: int) -> dict[str, Any]:
    names = draw(st.lists(st.sampled_from(sorted(schema.properties)), max_size=4, unique=True))
    return {name: draw(fitting(schema.properties[name], depth - 1)) for name in names}


@st.composite
def broken_objects(draw: st.DrawFn, good: dict[str, Any], schema: Schema) -> dict[str, Any]:
    """The object with up to four places changed."""

    def fresh(strategy: st.SearchStrategy[Any]) -> Any:
        # What hypothesis gives may be the very object that it gives again later.
        return copy.deepcopy(draw(strategy))

    obj = copy.deepcopy(good)
    for _ in range(draw(st.integers(0, 4))):
        path = draw(st.sampled_from(places(obj)))
        node = schema_at(schema, path)
        if path == ("metadata",):
            obj.setdefault("metadata", {})
            name = draw(st.sampled_from(sorted(METADATA)))
            obj["metadata"][name] = fresh(METADATA[name])
            continue
        here = get(obj, path)
        how = draw(st.sampled_from(["odd", "fit", "known", "unknown", "drop", "twice"]))
        if how == "fit" and node is not None:
            put(obj, path, fresh(fitting(node)))
        elif how == "known" and node is not None and isinstance(here, dict) and node.properties:
            name = draw(st.sampled_from(sorted(node.properties)))
            here[name] = fresh(fitting(node.properties[name]) | ODD)
        elif how == "unknown" and isinstance(here, dict):
            here[draw(WORDS)] = fresh(ODD)
        elif how == "twice" and isinstance(here, list) and here:
            here.append(copy.deepcopy(here[0]))
        elif how == "drop":
            drop(obj, path)
        elif path not in (("apiVersion",), ("kind",)) or draw(st.integers(0, 9)) == 0:
            put(obj, path, fresh(ODD))
        if not isinstance(obj.get("metadata"), dict):
            break
    return obj


def places(value: Any, path: Path = ()) -> list[Path]:
    """The path of every value inside; objects have metadata even when they say none."""
    found: list[Path] = [("metadata",)] if not path else []
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, each in inner:
        found.append((*path, step))
        found += places(each, (*path, step))
    return found


def schema_at(schema: Schema, path: Path) -> Schema | None:
    node: Schema | None = schema
    for step in path:
        if node is None:
            return None
        node = node.items if isinstance(step, int) else node.properties.get(step) or node.additional
    return node


def get(obj: Any, path: Path) -> Any:
    for step in path:
        obj = obj[step]
    return obj


def put(obj: Any, path: Path, value: Any) -> None:
    get(obj, path[:-1])[path[-1]] = value


def drop(obj: Any, path: Path) -> None:
    del get(obj, path[:-1])[path[-1]]
