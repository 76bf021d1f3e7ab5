"""Cases 35 to 42 of the protocol, as far as they are about merging and ownership."""

from __future__ import annotations

from typing import Any

import pytest
from tests.meta.apply.databases import V1, Databases, database

from pilothouse.meta.errors import StatusError


def first(db: Databases) -> None:
    db.apply("m1", engine="pg", replicas=2, tags=["x"], users=[{"name": "u1", "role": "rw"}])


def conflict(db: Databases, manager: str, **spec: Any) -> StatusError:
    with pytest.raises(StatusError) as caught:
        db.apply(manager, **spec)
    assert (caught.value.code, caught.value.reason) == (409, "Conflict")
    return caught.value


def test_case_35_the_applier_owns_what_it_applied() -> None:
    db = Databases()
    first(db)
    assert db.entries == [
        {
            "manager": "m1",
            "operation": "Apply",
            "apiVersion": V1,
            "time": "2024-01-01T00:00:01Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:spec": {
                    "f:engine": {},
                    "f:replicas": {},
                    "f:tags": {'v:"x"': {}},
                    "f:users": {'k:{"name":"u1"}': {".": {}, "f:name": {}, "f:role": {}}},
                }
            },
        }
    ]


def test_case_35_applying_again_changes_nothing() -> None:
    db = Databases()
    first(db)
    before = db.live
    first(db)
    assert db.live == before


def test_case_36_another_value_is_a_conflict() -> None:
    db = Databases()
    first(db)
    error = conflict(db, "m2", replicas=3)
    assert [tuple(cause) for cause in error.causes] == [
        ("FieldManagerConflict", 'conflict with "m1"', ".spec.replicas")
    ]
    assert error.message == 'Apply failed with 1 conflict: conflict with "m1": .spec.replicas'
    assert db.spec["replicas"] == 2


def test_case_37_equal_values_are_shared_and_go_with_the_last_owner() -> None:
    db = Databases()
    first(db)
    db.apply("m2", replicas=2)
    assert ".spec.replicas" in db.owned("m1")
    assert db.owned("m2") == [".spec.replicas"]
    db.apply("m1", engine="pg", tags=["x"], users=[{"name": "u1", "role": "rw"}])
    assert db.spec["replicas"] == 2
    db.apply_object("m2", database())
    assert "replicas" not in db.spec
    assert db.owned("m2") == []


def test_case_38_force_takes_over_and_dropping_removes_ones_own_items() -> None:
    db = Databases()
    first(db)
    db.apply("m2", force=True, replicas=5, users=[{"name": "u2"}])
    assert [user["name"] for user in db.spec["users"]] == ["u1", "u2"]
    assert ".spec.replicas" not in db.owned("m1")
    db.apply("m2", replicas=5)
    assert [user["name"] for user in db.spec["users"]] == ["u1"]


def test_case_39_a_plain_write_takes_fields_from_an_applier() -> None:
    db = Databases()
    first(db)
    db.update("upd", lambda obj: obj["spec"]["users"][0].update(role="admin"))
    assert db.owned("upd", "Update") == ['.spec.users[name="u1"].role']
    assert '.spec.users[name="u1"].role' not in db.owned("m1")
    error = conflict(db, "m1", engine="pg", replicas=2, tags=["x"], users=[{"name": "u1", "role": "rw"}])
    [cause] = error.causes
    assert f"{cause.message}: {cause.field}" == (
        'conflict with "upd" using nav.example.io/v1: .spec.users[name="u1"].role'
    )


@pytest.mark.parametrize(
    ("patch", "text"),
    [
        (
            database({"zap": 1}),
            "failed to create typed patch object (t/a; nav.example.io/v1, Kind=Database): .spec.zap: field not declared in schema",
        ),
        (
            database({"users": [{"name": "u", "q": 1}]}),
            '.spec.users[name="u"].q: field not declared in schema',
        ),
        (database({"point": {"z": 1}}), ".spec.point.z: field not declared in schema"),
        (database({"users": {"name": "u"}}), ".spec.users: expected list, got map"),
        (
            database({"users": [{"role": "rw"}]}),
            '.spec.users: element 0: the item omits its key field "name"',
        ),
        (
            database({"users": [{"name": "u"}, {"name": "u"}]}),
            '.spec.users: duplicate entries for key [name="u"]',
        ),
        (database({"tags": ["x", "x"]}), '.spec.tags: duplicate entries for key [="x"]'),
        (database({"tags": [["x"]]}), ".spec.tags: element 0: an item of a set must be a plain value"),
        (database({"settings": {"a": {"b": 1}}}), ".spec.settings.a: expected string, got map"),
        (
            {**database({}), "apiVersion": "nav.example.io/v2"},
            "Specified patch version: nav.example.io/v2, expected: nav.example.io/v1",
        ),
        (
            {**database({}), "metadata": {"name": "a", "managedFields": []}},
            "metadata.managedFields must be nil",
        ),
        (
            {**database({}), "metadata": {"name": "a", "zork": 1}},
            ".metadata.zork: field not declared in schema",
        ),
    ],
)
def test_case_40_a_patch_that_does_not_fit_is_refused_with_its_path(
    patch: dict[str, object], text: str
) -> None:
    with pytest.raises(StatusError) as caught:
        Databases().apply_object("m1", patch)
    assert caught.value.code == 400
    assert text in caught.value.message


def test_case_41_status_is_out_of_reach_of_the_main_endpoint() -> None:
    db = Databases()
    db.apply_object("m1", database({"engine": "pg"}, status={"phase": "Up"}))
    assert db.live is not None
    assert "status" not in db.live
    assert db.owned("m1") == [".spec.engine"]


def test_case_41_status_is_applied_through_its_subresource() -> None:
    db = Databases()
    first(db)
    patch = database({"replicas": 99}, status={"phase": "Up"})
    patch["metadata"]["labels"] = {"a": "b"}
    db.apply_object("m1", patch, subresource="status")
    assert db.live is not None
    assert db.live["status"] == {"phase": "Up"}
    assert db.spec["replicas"] == 2
    assert "labels" not in db.live["metadata"]
    assert db.owned("m1", subresource="status") == [".status.phase"]
    with pytest.raises(StatusError) as caught:
        db.apply_object("m2", database(status={"phase": "Down"}), subresource="status")
    assert caught.value.causes[0].message == 'conflict with "m1" with subresource "status"'


@pytest.mark.parametrize("cleared", [[{}], []])
def test_case_42_cleared_tracking_belongs_to_before_first_apply(cleared: list[object]) -> None:
    db = Databases()
    first(db)
    db.update("upd", lambda obj: obj["metadata"].update(managedFields=cleared))
    assert db.entries == []
    db.update("upd", lambda obj: obj["spec"].update(owner="me"))
    assert db.entries == []
    error = conflict(db, "m2", replicas=7)
    assert error.causes[0].message == 'conflict with "before-first-apply" using nav.example.io/v1'
    db.apply("m2", replicas=2)
    assert ".spec.replicas" in db.owned("before-first-apply", "Update")
    assert db.owned("m2") == [".spec.replicas"]
