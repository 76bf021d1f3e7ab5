from __future__ import annotations

from functools import partial
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.meta.apply.databases import SCHEMA, Databases, copy, database

from pilothouse.meta.apply.comparison import changes_only, compare
from pilothouse.meta.apply.field_sets import difference, without
from pilothouse.meta.apply.topology import topology
from pilothouse.meta.schema.model import Schema

users = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(["u1", "u2", "u3"])},
        optional={
            "role": st.sampled_from(["ro", "rw"]),
            "limits": st.dictionaries(st.sampled_from("ab"), st.integers(1, 2), max_size=2),
        },
    ),
    unique_by=lambda user: str(user["name"]),
    max_size=3,
)
free = st.recursive(
    st.integers(1, 2),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(st.sampled_from("abc"), inner, max_size=2)
    ),
    max_leaves=5,
)
specs = st.fixed_dictionaries(
    {},
    optional={
        "engine": st.sampled_from(["pg", "mysql"]),
        "replicas": st.integers(1, 3),
        "users": users,
        "tags": st.lists(st.sampled_from("xyz"), unique=True, max_size=3),
        "args": st.lists(st.sampled_from("ab"), max_size=2),
        "point": st.dictionaries(st.sampled_from("xy"), st.integers(1, 2), max_size=2),
        "settings": st.dictionaries(st.sampled_from("abc"), st.sampled_from("12"), max_size=3),
        "extra": st.dictionaries(st.sampled_from("abc"), free, max_size=2),
    },
)
histories = st.lists(
    st.tuples(st.sampled_from(["apply", "update"]), st.sampled_from(["p", "q"]), specs), max_size=4
)


def _replace_spec(spec: dict[str, Any], obj: dict[str, Any]) -> None:
    obj["spec"] = spec


def after(history: list[tuple[str, str, dict[str, Any]]]) -> Databases:
    db = Databases()
    for verb, manager, spec in history:
        if verb == "apply":
            db.apply(manager, force=True, **copy(spec))
        else:
            db.update(manager, partial(_replace_spec, copy(spec)))
    return db


def owned_by_anybody(db: Databases) -> set[str]:
    entries = db.entries if db.live is not None else []
    return {path for entry in entries for path in db.owned(entry["manager"], entry["operation"])}


@given(histories, specs)
def test_applying_twice_is_applying_once(history: list[Any], spec: dict[str, Any]) -> None:
    db = after(history)
    db.apply("me", force=True, **copy(spec))
    once = copy(db.live)
    db.apply("me", **copy(spec))
    assert db.live == once


@given(histories, specs)
def test_what_is_applied_is_what_one_gets(history: list[Any], spec: dict[str, Any]) -> None:
    db = after(history)
    db.apply("me", force=True, **copy(spec))
    for field in ("engine", "replicas", "args", "point"):
        if field in spec:
            assert db.spec[field] == spec[field]
    for field in ("settings", "extra"):
        for key, value in spec.get(field, {}).items():
            if not isinstance(value, dict):
                assert db.spec[field][key] == value
    order = [user["name"] for user in db.spec.get("users", [])]
    applied = [user["name"] for user in spec.get("users", [])]
    assert [name for name in order if name in applied] == applied
    assert set(spec.get("tags", [])) <= set(db.spec.get("tags", []))


@given(histories, specs)
def test_applying_nothing_removes_what_only_one_self_owned(history: list[Any], spec: dict[str, Any]) -> None:
    db = Databases()
    db.apply("me", **copy(spec))
    db.apply_object("me", database())
    assert db.owned("me") == []
    assert "spec" not in (db.live or {}) or not db.spec

    db = after(history)
    # An object that nobody owns anything of is not tracked; all of it goes to whoever was there before.
    assume(db.live is None or db.entries)
    others = owned_by_anybody(db)
    db.apply("me", force=True, **copy(spec))
    db.apply_object("me", database())
    assert db.owned("me") == []
    assert owned_by_anybody(db) <= others | {".spec"}


@given(histories, specs)
def test_nobody_owns_what_is_not_there(history: list[Any], spec: dict[str, Any]) -> None:
    db = after([*history, ("update", "me", spec)])
    assert all(
        path.startswith(".spec")
        for entry in db.entries
        for path in db.owned(entry["manager"], entry["operation"])
    )
    for entry in db.entries:
        fields = entry["fieldsV1"].get("f:spec", {})
        assert {name[2:] for name in fields if name != "."} <= set(db.spec)


@given(histories, specs)
@settings(max_examples=50)
def test_arguments_are_left_alone(history: list[Any], spec: dict[str, Any]) -> None:
    db = after(history)
    live, patch = copy(db.live), database(copy(spec))
    given_live, given_patch = db.live, copy(patch)
    db.apply_object("me", given_patch, force=True)
    assert given_patch == patch
    assert given_live == live


def varied(value: Any, choose: Any) -> Any:
    """The same shape with some other values in it; now and then something is left out."""
    if isinstance(value, dict):
        return {name: varied(inner, choose) for name, inner in value.items() if choose(st.integers(0, 9))}
    if isinstance(value, int):
        return value + choose(st.integers(0, 1))
    return value


@given(histories, specs, st.data())
def test_a_quick_look_says_nothing_that_the_sets_of_fields_deny(
    history: list[Any], spec: dict[str, Any], data: st.DataObject
) -> None:
    db = after([*history, ("update", "me", spec)])
    assume(db.live is not None)
    old, new, node = db.live or {}, copy(db.live), topology(SCHEMA)
    new["spec"] = varied(new["spec"], data.draw)
    removed, modified, added = compare(old, new, node)
    for entry in db.entries:
        mine = entry["fieldsV1"]
        others = [other["fieldsV1"] for other in db.entries if other is not entry]
        if changes_only(old, new, node, mine, others):
            assert not removed
            assert not added
            assert not difference(modified, mine)
            assert all(without(other, modified) is other for other in others)


def test_a_value_of_ones_own_is_within_ones_fields_and_one_shared_is_not() -> None:
    node = topology(SCHEMA)
    old, new = database({"replicas": 1, "engine": "pg"}), database({"replicas": 2, "engine": "pg"})
    mine: dict[str, Any] = {"f:spec": {".": {}, "f:replicas": {}, "f:engine": {}}}
    assert changes_only(old, new, node, mine, [{"f:spec": {"f:engine": {}}}])
    assert not changes_only(old, new, node, mine, [{"f:spec": {"f:replicas": {}}}])
    assert not changes_only(old, new, node, {"f:spec": {"f:engine": {}}}, [])


def test_a_value_in_an_item_of_ones_own_is_within_ones_fields_unless_the_item_moves() -> None:
    node = topology(SCHEMA)
    old = database({"users": [{"name": "u1", "role": "ro"}, {"name": "u2", "role": "ro"}]})
    new = database({"users": [{"name": "u1", "role": "ro"}, {"name": "u2", "role": "rw"}]})
    item: dict[str, Any] = {".": {}, "f:name": {}, "f:role": {}}
    mine = {"f:spec": {".": {}, "f:users": {".": {}, 'k:{"name":"u1"}': item, 'k:{"name":"u2"}': item}}}
    assert changes_only(old, new, node, mine, [])
    assert not changes_only(
        old, new, node, mine, [{"f:spec": {"f:users": {'k:{"name":"u2"}': {"f:role": {}}}}}]
    )
    assert not changes_only(old, new, node, {"f:spec": {"f:users": {'k:{"name":"u1"}': item}}}, [])
    turned = database({"users": new["spec"]["users"][::-1]})
    assert not changes_only(old, turned, node, mine, [])


def test_a_value_that_no_schema_describes_is_within_ones_fields_unless_it_becomes_a_map() -> None:
    node = topology(Schema(type="object", properties={"status": Schema(preserve_unknown=True)}))
    mine: dict[str, Any] = {"f:status": {".": {}, "f:seen": {}}}
    assert changes_only({"status": {"seen": 1}}, {"status": {"seen": 2}}, node, mine, [])
    assert changes_only({"status": {"seen": [1]}}, {"status": {"seen": [2]}}, node, mine, [])
    assert not changes_only({"status": {"seen": 1}}, {"status": {"seen": {"a": 1}}}, node, mine, [])
    assert not changes_only({"status": {"seen": None}}, {"status": {"seen": 1}}, node, mine, [])
    assert not changes_only({"status": {"seen": 1}}, {"status": {"seen": 2}}, node, mine, [mine])
