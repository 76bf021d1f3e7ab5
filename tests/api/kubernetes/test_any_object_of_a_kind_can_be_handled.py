"""Whatever fits a kind's schema is defaulted, judged and shown without a stumble."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pilothouse.api import kubernetes
from pilothouse.meta.kind import Kind
from pilothouse.meta.schema.model import Schema

KINDS = [kind for resource in kubernetes.resources() for kind in resource.kinds] + list(
    kubernetes.bodies().values()
)
WORDS = st.sampled_from(
    ["", "a", "A b", "1", "-x-", "None", "Always", "10Gi", "x" * 70, "é", "../a", "50%", "a.b/c"]
)
NUMBERS = st.sampled_from([0, 1, -1, 80, 65536, 2**31 - 1])


def values(node: Schema, depth: int) -> st.SearchStrategy[Any]:
    """Values that fit a node by type, mostly small."""
    if node.int_or_string:
        return st.one_of(WORDS, NUMBERS)
    if node.any_of:
        return st.one_of(WORDS, NUMBERS, st.just(0.5))
    if node.type == "array" and node.items is not None:
        return st.lists(values(node.items, depth - 1), max_size=2)
    if node.type == "object" and node.additional is not None:
        return st.dictionaries(WORDS, values(node.additional, depth - 1), max_size=2)
    if node.type == "object":
        chosen = dict(node.properties) if depth > 0 else {}
        return objects(chosen, depth)
    if node.type == "string":
        return st.one_of(WORDS, st.sampled_from(list(node.enum))) if node.enum else WORDS
    if node.type == "boolean":
        return st.booleans()
    if node.type in ("integer", "number"):
        return NUMBERS
    return st.sampled_from([None, {}, [], "x", 1])


@st.composite
def objects(draw: Any, properties: dict[str, Schema], depth: int) -> dict[str, Any]:
    if not properties:
        return {}
    names = draw(st.lists(st.sampled_from(sorted(properties)), max_size=20, unique=True))
    return {name: draw(values(properties[name], depth - 1)) for name in names}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.api_version}-{kind.name}")
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_defaulting_judging_and_showing_never_stumble(kind: Kind, data: st.DataObject) -> None:
    properties = {name: node for name, node in kind.schema.properties.items() if name != "metadata"}
    stored = [
        {
            **data.draw(objects(properties, 12)),
            "apiVersion": kind.api_version,
            "kind": kind.name,
            "metadata": {"name": "x", "namespace": "t"},
        }
        for _ in range(2)
    ]
    for obj in stored:
        kind.shape.default(obj)
        kind.default(obj)
        kind.prepare_create(obj)
        again = copy.deepcopy(obj)
        kind.default(again)
        assert again == obj, "defaulting twice changes nothing"
        assert all(str(problem) for problem in kind.validate(obj, None))
        for column in kind.columns:
            assert column.cell is not None
            column.cell(obj, 0.0)
    new, old = stored
    kind.prepare_update(new, old)
    assert all(str(problem) for problem in kind.validate(new, old))
    assert list(kind.validate(copy.deepcopy(old), old)) == list(kind.validate(old, copy.deepcopy(old)))
