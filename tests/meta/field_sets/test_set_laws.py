from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.meta.apply.field_sets import (
    Tree,
    difference,
    intersection,
    parse_fields,
    paths,
    union,
    without,
)

# Sets of paths as plain Python sets are the model that the trees are held against.
elements = st.sampled_from(["f:a", "f:b", 'k:{"name":"x"}', 'v:"y"', "i:0"])
path_sets = st.frozensets(st.lists(elements, min_size=1, max_size=4).map(tuple), max_size=8)
Paths = frozenset[tuple[str, ...]]


def tree(members: Paths) -> Tree:
    root: Tree = {}
    for path in members:
        node = root
        for name in path:
            node = node.setdefault(name, {})
        node["."] = {}
    return parse_fields(root)


def members(node: Tree, prefix: tuple[str, ...] = ()) -> Paths:
    found: set[tuple[str, ...]] = set()
    for name, below in node.items():
        if name == ".":
            continue
        path = (*prefix, name)
        if not below or "." in below:
            found.add(path)
        found |= members(below, path)
    return frozenset(found)


@given(path_sets)
def test_a_tree_is_its_set(one: Paths) -> None:
    assert members(tree(one)) == one


@given(path_sets, path_sets)
def test_union_difference_and_intersection(one: Paths, two: Paths) -> None:
    assert union(tree(one), tree(two)) == tree(one | two)
    assert difference(tree(one), tree(two)) == tree(one - two)
    assert intersection(tree(one), tree(two)) == tree(one & two)


@given(path_sets, path_sets)
def test_nothing_to_do_returns_the_same_tree(one: Paths, two: Paths) -> None:
    left = tree(one)
    assert (union(left, tree(two)) is left) == (two <= one)
    assert (difference(left, tree(two)) is left) == (not one & two)


@given(path_sets, path_sets)
def test_arguments_are_left_alone(one: Paths, two: Paths) -> None:
    left, right = tree(one), tree(two)
    for operation in (union, difference, intersection, without):
        operation(left, right)
    assert (left, right) == (tree(one), tree(two))


@given(path_sets, path_sets)
def test_a_changed_leaf_takes_what_is_below_it_along(owned: Paths, changed: Paths) -> None:
    leaves = {
        path for path in changed if not any(other != path and other[: len(path)] == path for other in changed)
    }
    left = {
        path
        for path in owned
        if path not in changed and not any(path[: len(leaf)] == leaf for leaf in leaves)
    }
    assert without(tree(owned), tree(changed)) == tree(frozenset(left))


def test_paths_read_as_people_write_them() -> None:
    fields = {
        "f:metadata": {"f:labels": {".": {}, "f:a.b/c": {}}},
        "f:spec": {
            "f:users": {'k:{"name":"u1"}': {".": {}, "f:role": {}}},
            "f:ports": {'k:{"port":80,"protocol":"TCP"}': {}},
            "f:tags": {'v:"x"': {}, "v:1": {}},
            "f:old": {"i:0": {}},
        },
    }
    assert list(paths(fields)) == [
        ".metadata.labels",
        ".metadata.labels.a.b/c",
        ".spec.old[0]",
        '.spec.ports[port=80,protocol="TCP"]',
        '.spec.tags[="x"]',
        ".spec.tags[=1]",
        '.spec.users[name="u1"]',
        '.spec.users[name="u1"].role',
    ]


@pytest.mark.parametrize(
    "fields",
    [
        [],
        "x",
        None,
        {"f:a": []},
        {"a": {}},
        {"x:a": {}},
        {"k:{": {}},
        {'k:"a"': {}},
        {"v:{}": {}},
        {"v:nope": {}},
        {"i:x": {}},
    ],
)
def test_a_tree_from_outside_is_checked(fields: Any) -> None:
    with pytest.raises(ValueError, match="fieldsV1"):
        parse_fields(fields)


def test_a_tree_from_outside_is_not_endless() -> None:
    deep: Tree = {}
    for _ in range(5000):
        deep = {"f:a": deep}
    with pytest.raises(ValueError, match="fieldsV1"):
        parse_fields(deep)
