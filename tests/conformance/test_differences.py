"""Where this server answers otherwise than Kubernetes on purpose: both answers are pinned here.

`docs/differences.md` has the same list, with the reasons; a line of the one belongs to a line of the other.
"""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest
from tests.kit import kube
from tests.kit.databases import V1, Databases, database
from tests.kit.http import JSON_PATCH, PROTOBUF, Http

pytestmark = pytest.mark.conformance


def applied(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": V1, "kind": "Database", "metadata": {"name": "a"}, "spec": spec}


@pytest.fixture
def real(http: Http) -> bool:
    """Whether the server is Kubernetes' own."""
    return http.target.name == kube.NAME


async def test_a_creation_with_a_resource_version_is_a_bad_request(
    dbs: Databases, http: Http, real: bool
) -> None:
    answer = await http.post(dbs.path(), database("a", metadata={"resourceVersion": "5"}))

    assert answer.status == (500 if real else 400)
    assert answer.message == "resourceVersion should not be set on objects to be created"


async def test_protobuf_for_a_custom_kind_is_refused(dbs: Databases, http: Http, real: bool) -> None:
    if real:
        with pytest.raises(aiohttp.ClientError):
            await http.post(dbs.path(), b"k8s\0\x0a\x00", type=PROTOBUF)
    else:
        answer = await http.post(dbs.path(), b"k8s\0\x0a\x00", type=PROTOBUF)
        assert (answer.status, answer.reason) == (415, "UnsupportedMediaType")


@pytest.mark.parametrize(
    "spec", [{"zap": 1}, {"users": [{"name": "u"}, {"name": "u"}]}], ids=["unknown-field", "duplicate-key"]
)
async def test_an_apply_that_does_not_fit_the_schema_is_a_bad_request(
    dbs: Databases, http: Http, real: bool, spec: dict[str, Any]
) -> None:
    answer = await http.apply(dbs.at("a"), applied(engine="pg", **spec), "m1")

    assert answer.status == (500 if real else 400)
    assert "failed to create typed patch object" in answer.message


async def test_a_watch_from_a_version_that_is_no_number_is_a_bad_request(
    dbs: Databases, http: Http, real: bool
) -> None:
    answer = await http.get(dbs.path(), watch="1", resourceVersion="abc")

    assert answer.status == (500 if real else 400)


async def test_a_json_patch_that_fails_says_where(dbs: Databases, http: Http, real: bool) -> None:
    await dbs.create("a")

    answer = await http.patch(
        dbs.at("a"), [{"op": "test", "path": "/spec/engine", "value": "x"}], type=JSON_PATCH
    )

    assert (answer.status, answer.reason) == (422, "Invalid")
    assert ("/spec/engine" in answer.message) is not real


async def test_an_owner_is_blamed_with_its_index(dbs: Databases, http: Http, real: bool) -> None:
    owner = {"apiVersion": V1, "kind": "Database", "name": "", "uid": "u"}

    answer = await http.post(dbs.path(), database("a", metadata={"ownerReferences": [owner]}))

    index = "" if real else "[0]"
    assert answer.causes[0].field == f"metadata.ownerReferences{index}.name"


async def test_an_apply_that_only_takes_ownership_has_a_time(dbs: Databases, http: Http, real: bool) -> None:
    await dbs.create("a")

    live = (await http.apply(dbs.at("a"), applied(engine="pg"), "m1")).expect(200)

    (entry,) = (entry for entry in live["metadata"]["managedFields"] if entry["manager"] == "m1")
    assert ("time" in entry) is not real


async def test_metadata_of_the_wrong_type_is_blamed_on_its_field(
    dbs: Databases, http: Http, real: bool
) -> None:
    answer = await http.post(dbs.path(), database("a", metadata={"labels": {"k": 1}}))

    assert answer.status == (400 if real else 422)
    assert ("metadata.labels" in "".join(cause.field for cause in answer.causes)) is not real


async def test_nesting_has_a_limit(dbs: Databases, http: Http, real: bool) -> None:
    nested: Any = 1
    for _ in range(200):
        nested = {"a": nested}

    answer = await http.post(dbs.path(), database("a", extra=nested))

    assert answer.status == (201 if real else 400)


async def test_an_unknown_method_is_405_with_its_name(dbs: Databases, http: Http, real: bool) -> None:
    answer = await http.send("OPTIONS", dbs.path())

    assert answer.status == 405
    assert answer.message.startswith(" is not supported" if real else "options is not supported")


async def test_the_version_says_whose_server_it_is(http: Http, real: bool) -> None:
    version = (await http.get("/version")).expect(200)

    assert ("+pilothouse" in version["gitVersion"]) is not real
    assert version["minor"] == ("33" if real else "32")


async def test_a_pod_without_an_account_finds_one_in_any_namespace(http: Http, ns: str, real: bool) -> None:
    spec = {"containers": [{"name": "main", "image": "x:1"}]}
    answer = await http.post(f"/api/v1/namespaces/{ns}/pods", {"metadata": {"name": "p"}, "spec": spec})

    assert answer.status == (403 if real else 201)
    account = await http.get(f"/api/v1/namespaces/{ns}/serviceaccounts/default")
    assert account.status == (404 if real else 200)


async def test_a_pod_deleted_at_once_is_answered_with_a_status(http: Http, ns: str, real: bool) -> None:
    pods = f"/api/v1/namespaces/{ns}/pods"
    account = {"metadata": {"name": "default"}}
    await http.post(f"/api/v1/namespaces/{ns}/serviceaccounts", account)
    spec = {"containers": [{"name": "c", "image": "i"}]}
    (await http.post(pods, {"metadata": {"name": "p"}, "spec": spec})).expect(201)

    answer = await http.delete(f"{pods}/p", gracePeriodSeconds="0")

    assert (answer.status, answer.json["kind"]) == (200, "Pod" if real else "Status")


async def test_a_collection_is_not_deleted_in_all_namespaces(http: Http, real: bool) -> None:
    assert (await http.delete("/api/v1/pods")).status == (405 if real else 404)


async def test_a_claim_template_says_what_it_claims(http: Http, ns: str, real: bool) -> None:
    labels = {"a": "b"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {
        "serviceName": "s",
        "selector": {"matchLabels": labels},
        "template": template,
        "volumeClaimTemplates": [{"metadata": {"name": "d"}, "spec": {}}],
    }

    answer = await http.post(
        f"/apis/apps/v1/namespaces/{ns}/statefulsets", {"metadata": {"name": "s"}, "spec": spec}
    )

    assert answer.status == (201 if real else 422)


async def test_a_lease_keeps_who_should_hold_it(http: Http, ns: str, real: bool) -> None:
    spec = {"holderIdentity": "a", "preferredHolder": "x", "strategy": "OldestEmulationVersion"}

    answer = await http.post(
        f"/apis/coordination.k8s.io/v1/namespaces/{ns}/leases", {"metadata": {"name": "l"}, "spec": spec}
    )

    assert answer.expect(201)["spec"] == ({"holderIdentity": "a"} if real else spec)


async def test_a_leases_nanoseconds_are_rounded(http: Http, ns: str, real: bool) -> None:
    spec = {"renewTime": "2024-01-01T00:00:00.123456789Z"}

    answer = await http.post(
        f"/apis/coordination.k8s.io/v1/namespaces/{ns}/leases", {"metadata": {"name": "l"}, "spec": spec}
    )

    if real:
        assert (answer.status, answer.reason) == (400, "BadRequest")
    else:
        assert answer.expect(201)["spec"] == {"renewTime": "2024-01-01T00:00:00.123457Z"}


async def test_a_read_at_a_version_that_is_no_number_is_a_bad_request(
    http: Http, ns: str, real: bool
) -> None:
    answer = await http.get(f"/api/v1/namespaces/{ns}", resourceVersion="abc")

    assert answer.status == (500 if real else 400)


async def test_a_built_in_kind_takes_any_finalizer_without_a_warning(http: Http, ns: str, real: bool) -> None:
    path = f"/api/v1/namespaces/{ns}/configmaps"

    answer = await http.post(path, {"metadata": {"name": "a", "finalizers": ["mine"]}})

    assert (answer.status, answer.warnings) == (422 if real else 201, [])
    await http.patch(f"{path}/a", {"metadata": {"finalizers": None}})


async def test_a_subresource_that_a_custom_kind_lacks_is_not_taken_for_a_missing_object(
    dbs: Databases, http: Http, real: bool
) -> None:
    answer = await http.get("/apis/nav.example.io/v1/regions/north/scale")

    assert (answer.status, answer.reason) == (404, "NotFound")
    if real:
        assert answer.message == 'regions.nav.example.io "north" not found'
    else:
        said = 'the server could not find the requested resource: regions.nav.example.io have no subresource "scale"'
        assert answer.message == said


async def test_sharing_the_nodes_user_ids_needs_a_privileged_namespace(
    http: Http, ns: str, real: bool
) -> None:
    label = {"pod-security.kubernetes.io/enforce": "baseline"}
    (await http.patch(f"/api/v1/namespaces/{ns}", {"metadata": {"labels": label}})).expect(200)
    account = {"metadata": {"name": "default"}}
    (await http.post(f"/api/v1/namespaces/{ns}/serviceaccounts", account)).expect(201, 409)
    containers = [{"name": "a", "image": "registry.example.com/a:1"}]
    pod = {"metadata": {"name": "a"}, "spec": {"containers": containers, "hostUsers": True}}

    answer = await http.post(f"/api/v1/namespaces/{ns}/pods", pod)

    assert answer.status == (201 if real else 403)
    if not real:
        assert answer.message.endswith(
            'violates PodSecurity "baseline:latest": hostUsers (pod must not set hostUsers=true)'
        )
