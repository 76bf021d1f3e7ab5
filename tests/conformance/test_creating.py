"""Cases 11–19 and 25: creating objects."""

from __future__ import annotations

import json
import re

import pytest
from tests.kit.databases import GROUP, V1ALPHA1, Databases, database, manifest
from tests.kit.http import Http
from tests.kit.kubectl import Kubectl

pytestmark = pytest.mark.conformance


async def test_case_11_defaults_are_filled_in_and_unknown_fields_dropped_with_a_warning(
    dbs: Databases, http: Http
) -> None:
    answer = await http.post(dbs.path(), {**database("a", bogus=1), "status": {"phase": "x"}})

    created = answer.expect(201)
    assert created["metadata"]["generation"] == 1
    assert created["spec"] == {"engine": "pg", "replicas": 1}
    assert "status" not in created
    assert answer.headers.getall("Warning") == ['299 - "unknown field \\"spec.bogus\\""']


async def test_case_12_field_validation_decides_about_unknown_fields(dbs: Databases, http: Http) -> None:
    strict = await http.post(dbs.path(), database("a", bogus=1), fieldValidation="Strict")
    assert (strict.status, strict.reason) == (400, "BadRequest")
    assert 'strict decoding error: unknown field "spec.bogus"' in strict.message

    ignored = await http.post(dbs.path(), database("a", bogus=1), fieldValidation="Ignore")
    assert ignored.status == 201
    assert ignored.warnings == []


async def test_case_13_each_duplicate_and_unknown_field_has_a_warning_of_its_own(
    dbs: Databases, http: Http
) -> None:
    body = b"""{"apiVersion": "nav.example.io/v1", "kind": "Database", "metadata": {"name": "a", "zork": 1},
      "spec": {"engine": "mysql", "engine": "pg", "zap": 1, "users": [{"name": "u1", "q": 2}]}}"""

    answer = await http.post(dbs.path(), body)

    assert sorted(answer.warnings) == [
        'duplicate field "spec.engine"',
        'unknown field "metadata.zork"',
        'unknown field "spec.users[0].q"',
        'unknown field "spec.zap"',
    ]
    assert answer.expect(201)["spec"]["engine"] == "pg"


async def test_what_is_wrong_with_a_built_in_kinds_fields_is_said_in_the_order_of_the_document(
    ns: str, http: Http
) -> None:
    body = b"""{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"},
      "spec": {"zap": 1, "type": "ClusterIP", "type": "ClusterIP", "ports": [{"port": 1, "q": 2}], "clusterIP": "None", "clusterIP": "None"}}"""

    answer = await http.post(f"/api/v1/namespaces/{ns}/services", body, fieldValidation="Strict")

    assert (answer.status, answer.reason) == (400, "BadRequest")
    assert answer.message.endswith(
        'strict decoding error: unknown field "spec.zap", duplicate field "spec.type", '
        'unknown field "spec.ports[0].q", duplicate field "spec.clusterIP"'
    )


async def test_a_pod_can_not_ask_for_a_runtime_class_that_is_not_there(ns: str, http: Http) -> None:
    # Without controllers nobody makes it, and no pod can be created.
    await http.post(f"/api/v1/namespaces/{ns}/serviceaccounts", {"metadata": {"name": "default"}})
    spec = {"runtimeClassName": "absent", "containers": [{"name": "main", "image": "busybox"}]}

    answer = await http.post(f"/api/v1/namespaces/{ns}/pods", {"metadata": {"name": "a"}, "spec": spec})

    assert (answer.status, answer.reason) == (403, "Forbidden")
    assert 'pod rejected: RuntimeClass "absent" not found' in answer.message


async def test_case_14_a_taken_name_is_409(dbs: Databases, http: Http) -> None:
    await dbs.create("a")

    again = await http.post(dbs.path(), database("a"))

    assert (again.status, again.reason) == (409, "AlreadyExists")
    assert again.json["details"] == {"name": "a", "group": GROUP, "kind": "databases"}
    assert again.message == f'databases.{GROUP} "a" already exists'


@pytest.mark.kubectl
async def test_case_14_kubectl_says_that_the_name_is_taken(dbs: Databases, kubectl: Kubectl) -> None:
    arguments = ("create", "-n", dbs.namespace, "-f", "-")
    assert (
        await kubectl(*arguments, stdin=manifest(database("kdb")))
    ).ok() == f"database.{GROUP}/kdb created\n"

    again = await kubectl(*arguments, stdin=manifest(database("kdb")))

    assert again.code == 1
    assert again.err == (
        'Error from server (AlreadyExists): error when creating "STDIN": '
        'databases.nav.example.io "kdb" already exists\n'
    )


async def test_case_15_a_name_is_generated_from_its_prefix(dbs: Databases, http: Http) -> None:
    body = {**database(""), "metadata": {"generateName": "gen-"}}

    created = (await http.post(dbs.path(), body)).expect(201)

    assert re.fullmatch(r"gen-[bcdfghjklmnpqrstvwxz2456789]{5}", created["metadata"]["name"])
    assert created["metadata"]["generateName"] == "gen-"


async def test_case_15_a_built_in_kind_gets_a_name_as_well(http: Http, ns: str) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "gen-"}}

    created = (await http.post(f"/api/v1/namespaces/{ns}/configmaps", body)).expect(201)

    assert re.fullmatch(r"gen-[bcdfghjklmnpqrstvwxz2456789]{5}", created["metadata"]["name"])


async def test_case_16_what_belongs_to_the_server_is_set_by_the_server(dbs: Databases, http: Http) -> None:
    theirs = {
        "uid": "00000000-0000-0000-0000-000000000001",
        "generation": 7,
        "creationTimestamp": "2001-01-01T00:00:00Z",
        "deletionTimestamp": "2001-01-01T00:00:00Z",
    }

    created = (await http.post(dbs.path(), database("a", metadata=theirs))).expect(201)["metadata"]

    assert created["uid"] != theirs["uid"]
    assert created["generation"] == 1
    assert not created["creationTimestamp"].startswith("2001")
    assert "deletionTimestamp" not in created


async def test_case_17_a_name_must_be_a_dns_subdomain(dbs: Databases, http: Http) -> None:
    wrong = await http.post(dbs.path(), database("A_b"))
    assert (wrong.status, wrong.reason) == (422, "Invalid")
    assert wrong.json["details"]["kind"] == "Database"
    (cause,) = wrong.causes
    assert cause.field == "metadata.name"
    assert "RFC 1123 subdomain" in cause.message

    empty = await http.post(dbs.path(), database(""))
    assert empty.status == 422
    assert ("FieldValueRequired", "metadata.name") in [(c.reason, c.field) for c in empty.causes]


async def test_case_18_a_missing_namespace_is_404(dbs: Databases, http: Http) -> None:
    path = dbs.path().replace(dbs.namespace, "nons")

    answer = await http.post(path, database("a"))

    assert (answer.status, answer.reason) == (404, "NotFound")
    assert answer.message == 'namespaces "nons" not found'
    assert answer.json["details"] == {"name": "nons", "kind": "namespaces"}


async def test_case_19_the_body_must_agree_with_the_address(dbs: Databases, http: Http) -> None:
    elsewhere = await http.post(dbs.path(), database("a", metadata={"namespace": "elsewhere"}))
    assert (elsewhere.status, elsewhere.reason) == (400, "BadRequest")
    assert "namespace" in elsewhere.message

    version = await http.post(dbs.path(), database("a", version=V1ALPHA1))
    assert version.status == 400
    assert "does not match the expected API version" in version.message


async def test_case_25_a_dry_run_stores_nothing(dbs: Databases, http: Http) -> None:
    dry = (await http.post(dbs.path(), database("a"), dryRun="All")).expect(201)

    assert dry["metadata"]["uid"]
    assert dry["metadata"]["creationTimestamp"]
    assert "resourceVersion" not in dry["metadata"]
    assert (await http.get(dbs.at("a"))).status == 404
    assert (await http.post(dbs.path(), database("a"), dryRun="Some")).status == 422


async def test_a_resource_version_on_create_is_refused(dbs: Databases, http: Http) -> None:
    """A listed quirk: a real server calls it an internal error."""
    answer = await http.post(dbs.path(), database("a", metadata={"resourceVersion": "5"}))

    assert answer.status in (400, 422, 500)
    assert "resourceVersion" in json.dumps(answer.json)


async def test_a_finalizer_that_others_might_use_is_warned_of_once(dbs: Databases, http: Http) -> None:
    mine = ["mine", "my.example.com", "example.com/mine", "foregroundDeletion"]
    posted = await http.post(dbs.path(), database("a", metadata={"finalizers": mine}))
    said = "prefer a domain-qualified finalizer name"
    why = "to avoid accidental conflicts with other finalizer writers"
    assert sorted(posted.warnings) == [
        f'metadata.finalizers: "mine": {said} {why}',
        f'metadata.finalizers: "my.example.com": {said} including a path (/) {why}',
    ]

    again = await http.patch(dbs.at("a"), {"metadata": {"labels": {"a": "b"}}})
    assert (again.status, again.warnings) == (200, [])
    await http.patch(dbs.at("a"), {"metadata": {"finalizers": None}})


async def test_a_built_in_kind_is_not_created_at_a_name(http: Http, ns: str) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    answer = await http.post(f"/api/v1/namespaces/{ns}/configmaps/a", body)

    assert answer.status == 405
    assert (await http.get(f"/api/v1/namespaces/{ns}/configmaps/a")).status == 404
