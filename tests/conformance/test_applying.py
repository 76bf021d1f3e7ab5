"""Cases 35–42: server-side apply and who owns what."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kit.databases import GROUP, V1, V1ALPHA1, Databases, database, manifest
from tests.kit.http import APPLY, MERGE, STRATEGIC, Answer, Http, Json
from tests.kit.kubectl import Kubectl

pytestmark = pytest.mark.conformance


def entries(live: Json) -> list[tuple[str, str, str]]:
    """Manager, operation and subresource of each managedFields entry."""
    fields = live["metadata"].get("managedFields", [])
    return [(entry["manager"], entry["operation"], entry.get("subresource", "")) for entry in fields]


def owned(live: Json, manager: str) -> Json:
    fields: Json = next(e for e in live["metadata"]["managedFields"] if e["manager"] == manager)["fieldsV1"]
    return fields


def applied(name: str = "a", **spec: object) -> Json:
    """An apply configuration: just the fields that a manager wants."""
    return {"apiVersion": V1, "kind": "Database", "metadata": {"name": name}, "spec": spec}


async def test_case_35_applying_a_missing_object_creates_it(dbs: Databases, http: Http) -> None:
    body = applied(engine="pg", replicas=2, tags=["x"], users=[{"name": "u1", "role": "rw"}])

    first = await http.apply(dbs.at("a"), body, "m1")
    created = first.expect(201)

    (entry,) = created["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"], entry["apiVersion"]) == ("m1", "Apply", V1)
    assert entry["fieldsType"] == "FieldsV1"
    assert entry["fieldsV1"] == {
        "f:spec": {
            "f:engine": {},
            "f:replicas": {},
            "f:tags": {'v:"x"': {}},
            "f:users": {'k:{"name":"u1"}': {".": {}, "f:name": {}, "f:role": {}}},
        }
    }
    again = (await http.apply(dbs.at("a"), body, "m1")).expect(200)
    assert again["metadata"]["resourceVersion"] == created["metadata"]["resourceVersion"]


async def test_case_36_changing_another_managers_field_is_a_conflict(dbs: Databases, http: Http) -> None:
    (await http.apply(dbs.at("a"), applied(engine="pg", replicas=2), "m1")).expect(201)

    answer = await http.apply(dbs.at("a"), applied(replicas=3), "m2")

    assert (answer.status, answer.reason) == (409, "Conflict")
    assert answer.message == 'Apply failed with 1 conflict: conflict with "m1": .spec.replicas'
    assert answer.causes == [("FieldManagerConflict", ".spec.replicas", 'conflict with "m1"')]


@pytest.mark.kubectl
async def test_case_36_kubectl_names_the_conflict_and_gives_advice(
    dbs: Databases, http: Http, kubectl: Kubectl
) -> None:
    arguments = ("apply", "--server-side", "-n", dbs.namespace, "-f", "-")
    applied_by_kubectl = await kubectl(*arguments, stdin=manifest(database("a", replicas=2)))
    assert applied_by_kubectl.ok() == f"database.{GROUP}/a serverside-applied\n"

    other = (*arguments, "--field-manager=other")
    shown = await kubectl(*other, stdin=manifest(database("a", replicas=3)))

    assert shown.code == 1
    assert shown.err.startswith(
        'error: Apply failed with 1 conflict: conflict with "kubectl": .spec.replicas\n'
        "Please review the fields above--they currently have other managers."
    )


async def test_case_37_a_shared_field_stays_until_its_last_owner_drops_it(dbs: Databases, http: Http) -> None:
    (await http.apply(dbs.at("a"), applied(engine="pg", replicas=2), "m1")).expect(201)

    shared = (await http.apply(dbs.at("a"), applied(engine="pg", replicas=2), "m2")).expect(200)
    assert owned(shared, "m1") == owned(shared, "m2")
    kept = (await http.apply(dbs.at("a"), applied(engine="pg"), "m1")).expect(200)
    assert kept["spec"]["replicas"] == 2
    reverted = (await http.apply(dbs.at("a"), applied(engine="pg"), "m2")).expect(200)
    assert reverted["spec"]["replicas"] == 1


async def test_case_38_force_takes_over_and_list_items_have_owners(dbs: Databases, http: Http) -> None:
    (await http.apply(dbs.at("a"), applied(engine="pg", replicas=2, users=[{"name": "u1"}]), "m1")).expect(
        201
    )

    forced = applied(replicas=5, users=[{"name": "u2"}])
    both = (await http.apply(dbs.at("a"), forced, "m2", force="true")).expect(200)
    assert both["spec"]["replicas"] == 5
    assert [user["name"] for user in both["spec"]["users"]] == ["u1", "u2"]
    assert "f:replicas" not in owned(both, "m1")["f:spec"]

    without = (await http.apply(dbs.at("a"), applied(replicas=5), "m2")).expect(200)
    assert [user["name"] for user in without["spec"]["users"]] == ["u1"]


async def test_case_39_an_update_takes_ownership(dbs: Databases, http: Http) -> None:
    body = applied(engine="pg", users=[{"name": "u1", "role": "rw"}])
    (await http.apply(dbs.at("a"), body, "m1")).expect(201)

    patch = {"spec": {"users": [{"name": "u1", "role": "admin"}]}}
    patched = (await http.patch(dbs.at("a"), patch, fieldManager="upd")).expect(200)
    assert "f:role" not in owned(patched, "m1")["f:spec"]["f:users"]['k:{"name":"u1"}']

    answer = await http.apply(dbs.at("a"), body, "m1")
    assert answer.status == 409
    assert f'conflict with "upd" using {V1}: .spec.users[name="u1"].role' in answer.message
    (cause,) = answer.causes
    assert cause.field == '.spec.users[name="u1"].role'


async def test_case_40_an_apply_configuration_must_be_well_formed(dbs: Databases, http: Http) -> None:
    body = applied(engine="pg")
    nobody = await http.patch(dbs.at("a"), body, type="application/apply-patch+yaml")
    assert nobody.status == 422
    assert "fieldManager" in nobody.message

    managed = {**body, "metadata": {"name": "a", "managedFields": [{"manager": "x"}]}}
    assert (await http.apply(dbs.at("a"), managed, "m1")).status == 400
    assert (await http.apply(dbs.at("a"), {**body, "apiVersion": V1ALPHA1}, "m1")).status == 400

    unknown = await http.apply(dbs.at("a"), applied(engine="pg", zap=1), "m1")
    assert unknown.status in (400, 422, 500)  # a listed quirk: a real server calls it an internal error
    assert "field not declared in schema" in unknown.message
    assert (await http.get(dbs.at("a"))).status == 404


async def test_case_41_status_is_applied_through_its_subresource(dbs: Databases, http: Http) -> None:
    status = {**applied(), "status": {"phase": "Running"}}
    del status["spec"]
    assert (await http.apply(dbs.at("a", "status"), status, "m1")).status == 404

    main = {**applied(engine="pg"), "status": {"phase": "Running"}}
    created = (await http.apply(dbs.at("a"), main, "m1")).expect(201)
    assert "status" not in created

    updated = (await http.apply(dbs.at("a", "status"), status, "m1")).expect(200)
    assert updated["status"] == {"phase": "Running"}
    assert sorted(entries(updated)) == [("m1", "Apply", ""), ("m1", "Apply", "status")]


async def test_case_42_cleared_ownership_belongs_to_whoever_was_before(dbs: Databases, http: Http) -> None:
    (await http.apply(dbs.at("a"), applied(engine="pg", replicas=2), "m1")).expect(201)

    cleared = (await http.patch(dbs.at("a"), {"metadata": {"managedFields": [{}]}})).expect(200)
    assert "managedFields" not in cleared["metadata"]

    answer = await http.apply(dbs.at("a"), applied(replicas=3), "m1")
    assert answer.status == 409
    assert 'conflict with "before-first-apply"' in answer.message


@pytest.mark.parametrize(("field", "type_"), [("owner", "string"), ("extra", "object"), ("tags", "array")])
async def test_a_null_for_a_field_that_may_not_be_null_is_refused(
    dbs: Databases, http: Http, field: str, type_: str
) -> None:
    await dbs.create("a", owner="me")

    null: dict[str, Any] = {field: None}
    answer = await http.apply(dbs.at("a"), database("a", **null), "m1", force="true")

    assert (answer.status, answer.reason) == (422, "Invalid")
    cause = answer.causes[0]
    assert (cause.reason, cause.field) == ("FieldValueTypeInvalid", f"spec.{field}")
    assert cause.message == f'Invalid value: "null": spec.{field} in body must be of type {type_}: "null"'
    assert (await dbs.read("a"))["spec"]["owner"] == "me"


async def test_a_null_is_applied_where_it_may_be_or_where_there_is_a_default(
    dbs: Databases, http: Http
) -> None:
    await dbs.create("a", replicas=3, note="n", tags=["x"])

    nulls = database("a", note=None, replicas=None, tags=None)
    spec = (await http.apply(dbs.at("a"), nulls, "m1", force="true")).expect(200)["spec"]

    # What somebody else has in a list or map stays.
    assert (spec["note"], spec["replicas"], spec["tags"]) == (None, 1, ["x"])


async def test_labels_and_data_that_are_emptied_go(dbs: Databases, http: Http) -> None:
    at = f"/api/v1/namespaces/{dbs.namespace}/configmaps/c"

    def config(**parts: Any) -> dict[str, Any]:
        metadata = {"name": "c", **parts.pop("metadata", {})}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **parts}

    labelled = config(metadata={"labels": {"a": "b"}, "annotations": {"a": "b"}}, data={"x": "1"})
    (await http.apply(at, labelled, "m1")).expect(201)
    emptied = config(metadata={"labels": {}, "annotations": {}}, data={})
    left = (await http.apply(at, emptied, "m1")).expect(200)
    assert {"labels", "annotations"}.isdisjoint(left["metadata"])
    assert "data" not in left

    for type_ in (MERGE, STRATEGIC):
        added = {"metadata": {"labels": {"z": "1"}}, "data": {"k": "v"}}
        (await http.patch(at, added, type=type_)).expect(200)
        removed = {"metadata": {"labels": {"z": None}}, "data": {"k": None}}
        patched = (await http.patch(at, removed, type=type_)).expect(200)
        assert "labels" not in patched["metadata"]
        assert "data" not in patched
    (await http.apply(at, config(data=None), "m2")).expect(200)

    await dbs.create("a", metadata={"labels": {"a": "b"}})
    patched = (await http.patch(dbs.at("a"), {"metadata": {"labels": {"a": None}}})).expect(200)
    assert "labels" not in patched["metadata"]


@pytest.mark.parametrize("how", ["post", "apply"])
async def test_keys_that_a_yaml_body_repeats_are_named_with_their_line(
    dbs: Databases, http: Http, how: str
) -> None:
    def body(name: str) -> bytes:
        lines = ["apiVersion: nav.example.io/v1", "kind: Database", f"metadata: {{name: {name}}}", "spec:"]
        return "\n".join([*lines, "  engine: pg", "  owner: a", "  owner: b", ""]).encode()

    async def send(name: str, validation: str) -> Answer:
        if how == "post":
            return await http.post(
                dbs.path(), body(name), type="application/yaml", fieldValidation=validation
            )
        query: dict[str, Any] = {"fieldManager": "m", "fieldValidation": validation}
        return await http.send("PATCH", dbs.at(name), body(name), type=APPLY, **query)

    warned = await send("warned", "Warn")
    assert warned.status == 201
    assert any('line 7: key "owner" already set in map' in text for text in warned.warnings)
    refused = await send("refused", "Strict")
    assert (refused.status, refused.reason) == (400, "BadRequest")
    assert 'line 7: key "owner" already set in map' in refused.message
    assert (await send("ignored", "Ignore")).warnings == []
