from __future__ import annotations

from typing import Any

import pytest
from tests.meta.apply.databases import SCHEMA, V1, Databases, copy, database

from pilothouse.meta.apply.managed_fields import track_update


def test_the_creator_owns_everything_and_the_containers_around_it() -> None:
    db = Databases()
    db.update(
        "kubectl-create",
        lambda obj: obj.update(database({"engine": "pg", "users": [{"name": "u1"}], "tags": []})),
    )
    assert db.live is not None
    db.live["metadata"]["labels"] = {"a": "b"}
    [entry] = db.entries
    assert entry["fieldsV1"] == {
        "f:spec": {
            ".": {},
            "f:engine": {},
            "f:tags": {},
            "f:users": {".": {}, 'k:{"name":"u1"}': {".": {}, "f:name": {}}},
        }
    }
    assert (entry["manager"], entry["operation"], entry["apiVersion"]) == ("kubectl-create", "Update", V1)


def test_the_servers_own_fields_are_nobodys() -> None:
    db = Databases()

    def fill(obj: dict[str, Any]) -> None:
        obj["metadata"].update(
            uid="u", generation=1, creationTimestamp="t", resourceVersion="1", selfLink="x"
        )
        obj["metadata"]["finalizers"] = ["a/b"]
        obj["status"] = {"phase": "Up"}

    db.update("m", fill)
    assert db.owned("m", "Update") == [".metadata.finalizers", '.metadata.finalizers[="a/b"]', ".spec"]


def test_a_writer_takes_what_it_changes_and_loses_what_it_removes() -> None:
    db = Databases()
    db.update("one", lambda obj: obj.update(spec={"engine": "pg", "replicas": 1, "owner": "o"}))
    db.update("two", lambda obj: obj["spec"].update(replicas=2))
    assert db.owned("one", "Update") == [".spec", ".spec.engine", ".spec.owner"]
    assert db.owned("two", "Update") == [".spec.replicas"]
    db.update("two", lambda obj: obj["spec"].pop("owner"))
    assert db.owned("one", "Update") == [".spec", ".spec.engine"]
    db.update("two", lambda obj: obj["spec"].pop("replicas"))
    assert db.owned("two", "Update") == []
    assert len(db.entries) == 1


def test_changing_what_one_owns_leaves_the_entries_as_they_are() -> None:
    db = Databases()
    db.update("one", lambda obj: obj.update(spec={"replicas": 1}))
    before = copy(db.entries)
    db.update("one", lambda obj: obj["spec"].update(replicas=2))
    assert db.entries == before


def test_the_time_moves_when_something_is_gained() -> None:
    db = Databases()
    db.update("one", lambda obj: obj.update(spec={"replicas": 1}))
    db.update("one", lambda obj: obj["spec"].update(engine="pg"))
    assert db.entries[0]["time"] == "2024-01-01T00:00:02Z"


def test_the_order_of_a_list_is_nobodys() -> None:
    db = Databases()
    db.update(
        "one", lambda obj: obj.update(spec={"tags": ["a", "b"], "users": [{"name": "x"}, {"name": "y"}]})
    )
    before = copy(db.entries)
    db.update("two", lambda obj: (obj["spec"]["tags"].reverse(), obj["spec"]["users"].reverse()))
    assert db.entries == before


def test_entries_are_ordered_by_operation_then_age() -> None:
    db = Databases()
    db.update("z", lambda obj: obj.update(spec={"engine": "pg"}))
    db.update("a", lambda obj: obj["spec"].update(replicas=2))
    db.apply("applier", owner="me")
    assert [entry["manager"] for entry in db.entries] == ["applier", "z", "a"]


def test_the_oldest_of_too_many_writers_are_folded_into_one() -> None:
    db = Databases()
    for index in range(13):

        def add(obj: dict[str, Any], index: int = index) -> None:
            obj["spec"].setdefault("settings", {})[f"s{index:02d}"] = "x"

        db.update(f"m{index:02d}", add)
    assert [entry["manager"] for entry in db.entries] == [
        "ancient-changes",
        *(f"m{index:02d}" for index in range(4, 13)),
    ]
    assert db.owned("ancient-changes", "Update") == [
        ".spec",
        ".spec.settings",
        *(f".spec.settings.s{i:02d}" for i in range(4)),
    ]


@pytest.mark.parametrize(
    "nonsense",
    [
        "x",
        [{"manager": "a"}],
        [{"manager": "a", "operation": "Eat", "apiVersion": V1, "fieldsType": "FieldsV1", "fieldsV1": {}}],
        [
            {
                "manager": "a",
                "operation": "Update",
                "apiVersion": V1,
                "fieldsType": "FieldsV1",
                "fieldsV1": {"spec": {}},
            }
        ],
        None,
    ],
)
def test_entries_that_make_no_sense_are_not_taken(nonsense: Any) -> None:
    db = Databases()
    db.update("one", lambda obj: obj.update(spec={"engine": "pg"}))
    before = copy(db.entries)
    db.update("two", lambda obj: obj["metadata"].update(managedFields=nonsense))
    assert db.entries == before


def test_entries_that_make_sense_are_taken() -> None:
    db = Databases()
    db.update("one", lambda obj: obj.update(spec={"engine": "pg", "replicas": 1}))
    moved = {**db.entries[0], "manager": "other"}
    db.update("two", lambda obj: obj["metadata"].update(managedFields=[moved]))
    assert [entry["manager"] for entry in db.entries] == ["other"]


def test_a_subresource_can_not_rewrite_the_entries() -> None:
    db = Databases()
    db.update("one", lambda obj: obj.update(spec={"engine": "pg"}))

    def write(obj: dict[str, Any]) -> None:
        obj["metadata"]["managedFields"] = []
        obj["status"] = {"phase": "Up"}

    db.update("two", write, subresource="status")
    assert db.owned("one", "Update") == [".spec", ".spec.engine"]
    assert db.owned("two", "Update", "status") == [".status", ".status.phase"]


def test_entries_of_versions_no_longer_served_are_dropped() -> None:
    live = database({"engine": "pg"})
    old = {
        "manager": "old",
        "operation": "Update",
        "apiVersion": "nav.example.io/v0",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {"f:engine": {}}},
    }
    live["metadata"]["managedFields"] = [old]
    new = copy(live)
    new["spec"]["replicas"] = 1
    track_update(
        live, new, schema=SCHEMA, api_version=V1, manager="m", now="2024-01-01T00:00:00Z", served={V1: SCHEMA}
    )
    assert [entry["manager"] for entry in new["metadata"]["managedFields"]] == ["m"]


def test_items_without_their_key_are_owned_with_the_whole_list() -> None:
    db = Databases()
    db.update("m", lambda obj: obj.update(spec={"users": [{"role": "x"}]}))
    assert db.owned("m", "Update") == [".spec", ".spec.users"]
    db.update("n", lambda obj: obj["spec"].update(users=[{"name": "a"}, {"name": "a"}]))
    assert db.owned("n", "Update") == [".spec.users"]


def test_a_nameless_manager_is_unknown() -> None:
    db = Databases()
    db.update("", lambda obj: obj.update(spec={"engine": "pg"}))
    assert db.entries[0]["manager"] == "unknown"


def test_an_object_that_shares_its_metadata_with_the_live_one_is_safe() -> None:
    db = Databases()
    db.update("one", lambda obj: obj.update(spec={"engine": "pg"}))
    live = db.live
    assert live is not None
    new = {**live, "spec": {"engine": "pg", "replicas": 2}}
    track_update(live, new, schema=SCHEMA, api_version=V1, manager="two", now="2024-01-01T00:01:00Z")
    assert [entry["manager"] for entry in live["metadata"]["managedFields"]] == ["one"]
    assert [entry["manager"] for entry in new["metadata"]["managedFields"]] == ["one", "two"]
