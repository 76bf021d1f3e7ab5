from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.meta.apply.patches import MOST_OPERATIONS, json_patch, merge_patch
from pilothouse.meta.errors import StatusError

OBJECT: dict[str, Any] = {"metadata": {"labels": {"a": "b"}}, "spec": {"replicas": 1, "tags": ["x", "y"]}}


def code(call: Any) -> int:
    with pytest.raises(StatusError) as caught:
        call()
    return caught.value.code


def outcome(call: Any) -> Any:
    """The type of the result, or the code of the failure."""
    try:
        return type(call())
    except StatusError as error:
        return error.code


def message(obj: dict[str, Any], operation: dict[str, Any]) -> str:
    """What the failure says, if there is one."""
    try:
        json_patch(obj, [operation])
    except StatusError as error:
        return error.message
    return ""


def test_case_33_test_and_replace() -> None:
    operations = [
        {"op": "test", "path": "/spec/replicas", "value": 1},
        {"op": "replace", "path": "/spec/replicas", "value": 2},
        {"op": "add", "path": "/spec/tags/-", "value": "z"},
        {"op": "remove", "path": "/metadata/labels/a"},
        {"op": "copy", "from": "/spec/tags", "path": "/spec/more"},
        {"op": "move", "from": "/spec/more", "path": "/spec/moved"},
    ]
    assert json_patch(OBJECT, operations) == {
        "metadata": {"labels": {}},
        "spec": {"replicas": 2, "tags": ["x", "y", "z"], "moved": ["x", "y", "z"]},
    }
    assert OBJECT["spec"] == {"replicas": 1, "tags": ["x", "y"]}


@pytest.mark.parametrize(
    ("operation", "spec"),
    [
        ({"op": "test", "path": "/spec/missing", "value": None}, {}),
        ({"op": "test", "path": "/spec/missing"}, {}),
        ({"op": "replace", "path": "/spec/missing", "value": 2}, {"missing": 2}),
        ({"op": "add", "path": "/spec/replicas"}, {"replicas": None}),
        ({"op": "replace", "path": "/spec/replicas"}, {"replicas": None}),
        ({"op": "copy", "from": "/spec/missing", "path": "/spec/a"}, {"a": None}),
        ({"op": "test", "path": "/spec/tags/-1", "value": "y"}, {}),
        ({"op": "remove", "path": "/spec/tags/-1"}, {"tags": ["x"]}),
        ({"op": "remove", "path": "/spec/tags/-2"}, {"tags": ["y"]}),
        ({"op": "replace", "path": "/spec/tags/-1", "value": "z"}, {"tags": ["x", "z"]}),
        ({"op": "add", "path": "/spec/tags/-1", "value": "z"}, {"tags": ["x", "y", "z"]}),
        ({"op": "add", "path": "/spec/tags/-3", "value": "z"}, {"tags": ["z", "x", "y"]}),
        ({"op": "move", "from": "/spec/tags/-1", "path": "/spec/tags/0"}, {"tags": ["y", "x"]}),
    ],
)
def test_case_33_absent_members_are_null_and_negative_indices_count_from_the_end(
    operation: dict[str, Any], spec: dict[str, Any]
) -> None:
    assert json_patch(OBJECT, [operation]) == {**OBJECT, "spec": {**OBJECT["spec"], **spec}}


def test_a_patch_may_be_applied_again() -> None:
    patch = [{"op": "add", "path": "/spec/a", "value": []}, {"op": "add", "path": "/spec/a/-", "value": 1}]
    assert json_patch(OBJECT, patch) == json_patch(OBJECT, patch)


def test_no_message_quotes_the_object() -> None:
    secret = {"data": {"password": "hunter2", "list": ["hunter2"]}}
    for name in ("add", "copy", "move", "remove", "replace", "test"):
        for path in (
            "",
            "/data/x",
            "/data/password",
            "/data/password/x",
            "/data/list/7",
            "/data/list/x",
            "x",
        ):
            operation = {"op": name, "path": path, "from": path, "value": 1}
            assert "hunter2" not in message(secret, operation)


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/spec/replicas", "value": 2},
        {"op": "test", "path": "/spec/replicas", "value": True},
        {"op": "test", "path": "/spec/replicas", "value": 1.0},
        {"op": "test", "path": "/spec/replicas"},
        {"op": "test", "path": "/spec/missing", "value": ""},
        {"op": "test", "path": "/missing/deeper", "value": None},
        {"op": "test", "path": "/spec/tags/2", "value": None},
        {"op": "test", "path": "/spec/tags/-3", "value": None},
        {"op": "test", "path": "/spec/tags/-", "value": "y"},
        {"op": "replace", "path": "/missing/deeper", "value": 2},
        {"op": "replace", "path": "/spec/tags/2", "value": "z"},
        {"op": "replace", "path": "/spec/tags/-", "value": "z"},
        {"op": "remove", "path": "/spec/tags/-3"},
        {"op": "remove", "path": "/spec/tags/-"},
        {"op": "move", "from": "/spec/missing", "path": "/spec/a"},
        {"op": "copy", "from": "/missing/deeper", "path": "/spec/a"},
        {"op": "remove", "path": "/spec/missing"},
        {"op": "add", "path": "/no/where", "value": 1},
        {"op": "add", "path": "/spec/replicas/deeper", "value": 1},
        {"op": "add", "path": "/spec/tags/7", "value": 1},
        {"op": "add", "path": "/spec/tags/x", "value": 1},
        {"op": "add", "path": "spec", "value": 1},
        {"op": "move", "from": "/spec", "path": "/spec/inner"},
        {"op": "copy", "path": "/spec/a"},
        {"op": "jump", "path": "/spec"},
        {"op": "replace", "path": "", "value": []},
        {"op": "remove", "path": ""},
        {"op": ["add"], "path": "/spec"},
        {"path": "/spec"},
        {},
    ],
)
def test_case_33_what_cannot_be_applied_is_a_422(operation: dict[str, Any]) -> None:
    with pytest.raises(StatusError) as caught:
        json_patch(OBJECT, [operation])
    assert (caught.value.code, caught.value.reason) == (422, "Invalid")
    assert "the patch can't be applied" in caught.value.message


@pytest.mark.parametrize("patch", [{"op": "add"}, "x", None, [1], [[]]])
def test_case_33_what_is_no_patch_is_a_400(patch: Any) -> None:
    assert code(lambda: json_patch(OBJECT, patch)) == 400


def test_too_many_operations_are_a_413() -> None:
    operation = {"op": "test", "path": "/spec/replicas", "value": 1}
    assert code(lambda: json_patch(OBJECT, [operation] * (MOST_OPERATIONS + 1))) == 413


def test_copies_cannot_fill_the_memory() -> None:
    double = [{"op": "copy", "from": "/spec", "path": f"/spec/c{index}"} for index in range(60)]
    with pytest.raises(StatusError, match="copies more than"):
        json_patch(OBJECT, double)


@pytest.mark.parametrize("times", [130, 3000])
def test_nesting_ends_somewhere(times: int) -> None:
    deeper = [
        {"op": "move", "from": "/spec", "path": "/hold"},
        {"op": "add", "path": "/spec", "value": {}},
        {"op": "move", "from": "/hold", "path": "/spec/a"},
    ]
    with pytest.raises(StatusError, match="nested deeper than 128 levels"):
        json_patch(OBJECT, deeper * times)


def test_case_34_null_removes() -> None:
    assert merge_patch(OBJECT, {"metadata": {"labels": None}}) == {"metadata": {}, "spec": OBJECT["spec"]}
    assert OBJECT["metadata"] == {"labels": {"a": "b"}}


@pytest.mark.parametrize("patch", [[], "x", None, 1])
def test_case_34_only_an_object_is_a_merge_patch(patch: Any) -> None:
    assert code(lambda: merge_patch(OBJECT, patch)) == 400


# The examples of RFC 7386's appendix that have an object on both sides.
@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_the_examples_of_the_rfc(
    target: dict[str, Any], patch: dict[str, Any], result: dict[str, Any]
) -> None:
    assert merge_patch(target, patch) == result


leaves = st.one_of(st.none(), st.integers(0, 3), st.text("ab", max_size=2))
values = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=8,
)
objects = st.dictionaries(st.sampled_from("abcd"), values, max_size=4)


@given(objects, objects)
def test_merging_twice_is_merging_once(target: dict[str, Any], patch: dict[str, Any]) -> None:
    once = merge_patch(target, patch)
    assert merge_patch(once, patch) == once


@given(objects)
def test_the_empty_patch_changes_nothing(target: dict[str, Any]) -> None:
    assert merge_patch(target, {}) == target


@given(objects, objects)
def test_what_a_patch_names_and_only_that_is_changed(target: dict[str, Any], patch: dict[str, Any]) -> None:
    result = merge_patch(target, patch)
    assert set(result) == (set(target) | {key for key in patch if patch[key] is not None}) - {
        key for key in patch if patch[key] is None
    }
    assert all(result[key] == target[key] for key in target if key not in patch)


pointers = st.lists(
    st.sampled_from(["spec", "tags", "metadata", "labels", "a", "0", "-", "~1", "", "9"]), max_size=4
).map(lambda parts: "".join(f"/{part}" for part in parts))
operations = st.fixed_dictionaries(
    {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test", "x"]), "path": pointers},
    optional={"from": pointers, "value": values},
)


@given(st.lists(operations, max_size=6))
def test_any_patch_gives_an_object_or_a_4xx(patch: list[dict[str, Any]]) -> None:
    assert outcome(lambda: json_patch(OBJECT, patch)) in (dict, 422)


@given(objects, objects)
def test_results_share_nothing_with_what_was_given(target: dict[str, Any], patch: dict[str, Any]) -> None:
    before = repr((target, patch))
    result = merge_patch(target, patch)
    scribble(result)
    assert repr((target, patch)) == before


def scribble(value: Any) -> None:
    if isinstance(value, dict):
        for child in value.values():
            scribble(child)
        value["scribbled"] = True
    elif isinstance(value, list):
        for child in value:
            scribble(child)
        value.append("scribbled")
