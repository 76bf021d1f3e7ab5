from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.meta.apply.patches import merge_patch
from pilothouse.meta.apply.strategic_merge import strategic_merge
from pilothouse.meta.errors import StatusError
from pilothouse.meta.schema.model import Schema

STRING = Schema(type="string")
PORT = Schema(type="object", properties={"containerPort": Schema(type="integer"), "name": STRING})
CONTAINER = Schema(
    type="object",
    properties={
        "name": STRING,
        "image": STRING,
        "args": Schema(type="array", items=STRING),
        "ports": Schema(type="array", items=PORT, merge_key="containerPort", merge_strategy="merge"),
    },
)
POD = Schema(
    type="object",
    properties={
        "metadata": Schema(
            type="object",
            properties={
                "labels": Schema(type="object", additional=STRING),
                "finalizers": Schema(type="array", items=STRING, merge_strategy="merge"),
            },
        ),
        "spec": Schema(
            type="object",
            properties={
                "containers": Schema(type="array", items=CONTAINER, merge_key="name", merge_strategy="merge"),
                "tolerations": Schema(type="array", items=Schema(type="object", properties={"key": STRING})),
                "strategy": Schema(
                    type="object",
                    properties={"type": STRING, "rolling": Schema(type="object", additional=STRING)},
                    merge_strategy="retainKeys",
                ),
                "whole": Schema(type="object", additional=STRING, merge_strategy="replace"),
            },
        ),
    },
)


def merged(spec: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    result = strategic_merge({"spec": spec}, {"spec": patch}, POD)["spec"]
    assert isinstance(result, dict)
    return result


def outcome(live: dict[str, Any], patch: Any) -> Any:
    """The type of the result, or the code of the failure."""
    try:
        return type(strategic_merge(live, patch, POD))
    except StatusError as error:
        return error.code


TWO: dict[str, Any] = {
    "containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1", "args": ["x"]}]
}


def test_lists_are_merged_by_their_key() -> None:
    result = merged(TWO, {"containers": [{"name": "b", "image": "2", "args": ["y"]}, {"name": "c"}]})
    assert result["containers"] == [
        {"name": "a", "image": "1"},
        {"name": "b", "image": "2", "args": ["y"]},
        {"name": "c"},
    ]
    assert TWO["containers"][1]["image"] == "1"


def test_lists_inside_items_are_merged_too() -> None:
    live = {"containers": [{"name": "a", "ports": [{"containerPort": 80, "name": "http"}]}]}
    result = merged(live, {"containers": [{"name": "a", "ports": [{"containerPort": 443}]}]})
    assert result["containers"][0]["ports"] == [{"containerPort": 443}, {"containerPort": 80, "name": "http"}]


def test_other_lists_are_replaced() -> None:
    assert merged({"tolerations": [{"key": "a"}]}, {"tolerations": [{"key": "b"}]}) == {
        "tolerations": [{"key": "b"}]
    }


def test_items_are_deleted_by_directive() -> None:
    assert merged(TWO, {"containers": [{"name": "a", "$patch": "delete"}]})["containers"] == [
        TWO["containers"][1]
    ]


def test_a_list_is_replaced_by_directive() -> None:
    assert merged(TWO, {"containers": [{"$patch": "replace"}, {"name": "z", "image": None}]}) == {
        "containers": [{"name": "z"}]
    }


def test_a_map_is_replaced_or_emptied_by_directive() -> None:
    assert merged(
        {"strategy": {"type": "A"}}, {"strategy": {"$patch": "replace", "rolling": {"a": "b"}}}
    ) == {"strategy": {"rolling": {"a": "b"}}}
    assert merged({"strategy": {"type": "A"}}, {"strategy": {"$patch": "delete"}}) == {"strategy": {}}
    assert merged({"strategy": {"type": "A"}}, {"strategy": {"$patch": "merge", "rolling": {}}}) == {
        "strategy": {"type": "A", "rolling": {}}
    }
    assert merged({"whole": {"a": "1"}}, {"whole": {"b": "2"}}) == {"whole": {"b": "2"}}


def test_retained_keys_drop_the_others() -> None:
    live = {"strategy": {"type": "Rolling", "rolling": {"max": "1"}}}
    assert merged(live, {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}) == {
        "strategy": {"type": "Recreate"}
    }


def test_values_are_merged_and_taken_out() -> None:
    live = {"metadata": {"finalizers": ["a", "b"]}}
    patch = {"metadata": {"finalizers": ["c"], "$deleteFromPrimitiveList/finalizers": ["a"]}}
    assert strategic_merge(live, patch, POD) == {"metadata": {"finalizers": ["c", "b"]}}
    only = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["b"]}}
    assert strategic_merge(live, only, POD) == {"metadata": {"finalizers": ["a"]}}


def test_the_order_is_as_asked_and_others_stay_beside_their_neighbours() -> None:
    live = {"containers": [{"name": name} for name in ("a", "b", "c", "d")]}
    patch = {
        "$setElementOrder/containers": [{"name": "d"}, {"name": "new"}, {"name": "a"}],
        "containers": [{"name": "new"}, {"name": "a", "image": "2"}],
    }
    assert [item["name"] for item in merged(live, patch)["containers"]] == ["b", "c", "d", "new", "a"]
    values = {"metadata": {"$setElementOrder/finalizers": ["z", "x"]}}
    assert strategic_merge({"metadata": {"finalizers": ["x", "y", "z"]}}, values, POD) == {
        "metadata": {"finalizers": ["y", "z", "x"]}
    }


@pytest.mark.parametrize(
    ("patch", "why"),
    [
        (
            {"containers": [{"image": "1"}]},
            r"spec.containers\[0\]: the item does not contain the merge key 'name'",
        ),
        ({"containers": ["a"]}, "this list holds objects"),
        ({"containers": [{"name": {}}]}, "plain values"),
        ({"strategy": {"$patch": "explode"}}, "must be replace, delete or merge"),
        ({"strategy": {"$retainKeys": "type"}}, "must be a list"),
        ({"strategy": {"$retainKeys": ["rolling"], "type": "A"}}, "does not name the field 'type'"),
        ({"$setElementOrder/containers": "a"}, "must be a list"),
        ({"$setElementOrder/containers": [{"name": "a"}], "containers": [{"name": "b"}]}, "not in the order"),
        ({"$setElementOrder/tolerations": []}, "merged lists only"),
    ],
)
def test_misuse_is_a_400_that_says_where(patch: dict[str, Any], why: str) -> None:
    with pytest.raises(StatusError, match=why) as caught:
        merged({**TWO, "tolerations": []}, patch)
    assert caught.value.code == 400


@pytest.mark.parametrize("patch", [[], None, "x"])
def test_only_an_object_is_a_patch(patch: Any) -> None:
    with pytest.raises(StatusError, match="must be an object"):
        strategic_merge({}, patch, POD)


leaves = st.one_of(st.integers(0, 3), st.text("ab", max_size=2))
maps = st.recursive(
    st.dictionaries(st.sampled_from("abc"), leaves, max_size=3),
    lambda inner: st.dictionaries(st.sampled_from("abc"), st.one_of(leaves, inner), max_size=3),
    max_leaves=8,
)


@given(maps, maps)
def test_maps_are_merged_like_a_merge_patch(live: dict[str, Any], patch: dict[str, Any]) -> None:
    assert strategic_merge(live, patch, Schema(type="object")) == merge_patch(live, patch)


names = st.lists(st.sampled_from("abcdef"), unique=True, max_size=5)


@given(names, names, st.data())
def test_every_item_is_there_once_whatever_the_order(
    live: list[str], patch: list[str], data: st.DataObject
) -> None:
    order = data.draw(st.permutations(sorted({*live, *patch}))) if data.draw(st.booleans()) else None
    body: dict[str, Any] = {"containers": [{"name": name} for name in patch]}
    if order is not None:
        body["containers"].sort(key=lambda item: order.index(item["name"]))
        body["$setElementOrder/containers"] = [{"name": name} for name in order]
    result = [
        item["name"] for item in merged({"containers": [{"name": name} for name in live]}, body)["containers"]
    ]
    if order is not None:
        assert result == list(order)
    else:
        assert sorted(result) == sorted({*live, *patch})
        assert [name for name in result if name in patch] == patch
        assert [name for name in result if name not in patch] == [name for name in live if name not in patch]


hostile = st.recursive(
    st.one_of(st.none(), st.integers(0, 2), st.text("ab", max_size=2)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                [
                    "spec",
                    "containers",
                    "name",
                    "$patch",
                    "$retainKeys",
                    "$setElementOrder/containers",
                    "$deleteFromPrimitiveList/finalizers",
                    "metadata",
                    "finalizers",
                ]
            ),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=12,
)


@given(hostile, hostile)
def test_any_patch_gives_an_object_or_a_400(live: Any, patch: Any) -> None:
    assert outcome(live if isinstance(live, dict) else {}, patch) in (dict, 400)
