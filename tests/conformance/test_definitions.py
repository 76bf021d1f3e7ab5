"""Custom resource definitions over their life: several versions, names that clash, and the end."""

from __future__ import annotations

import uuid
from functools import partial
from typing import Any

import pytest
from tests.kit.http import Http, Json
from tests.kit.waiting import eventually

pytestmark = pytest.mark.conformance

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def version(name: str, spec: Json, **more: Any) -> Json:
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}}
    return {"name": name, "served": True, "storage": False, "schema": {"openAPIV3Schema": schema}, **more}


def definition(group: str, plural: str, kind: str, *versions: Json) -> Json:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Cluster",
            "names": {"plural": plural, "kind": kind},
            "versions": list(versions),
        },
    }


@pytest.fixture
def group() -> str:
    return f"g{uuid.uuid4().hex[:8]}.example.io"


async def condition(http: Http, name: str, type_: str) -> str:
    live = (await http.get(f"{CRDS}/{name}")).expect(200)
    found = {each["type"]: each["status"] for each in live.get("status", {}).get("conditions") or []}
    return str(found.get(type_, ""))


async def served(http: Http, path: str) -> bool:
    return (await http.get(path)).status == 200


async def defined(http: Http, crd: Json) -> None:
    (await http.post(CRDS, crd)).expect(201)
    spec = crd["spec"]
    paths = [f"/apis/{spec['group']}/{each['name']}/{spec['names']['plural']}" for each in spec["versions"]]
    for path in paths:
        await eventually(partial(served, http, path))


def thing(group: str, version: str, name: str, **spec: Any) -> Json:
    return {"apiVersion": f"{group}/{version}", "kind": "Thing", "metadata": {"name": name}, "spec": spec}


async def test_what_is_written_through_one_version_fits_the_stored_one(http: Http, group: str) -> None:
    text = {"type": "string"}
    colour = {"type": "string", "default": "blue"}
    selectable = [{"jsonPath": ".spec.colour"}]
    crd = definition(
        group,
        "things",
        "Thing",
        version("v1", {"oldonly": text}),
        version("v2", {"colour": colour}, storage=True, selectableFields=selectable),
    )
    await defined(http, crd)

    (await http.post(f"/apis/{group}/v1/things", thing(group, "v1", "a", oldonly="x"))).expect(201)

    newer = (await http.get(f"/apis/{group}/v2/things/a")).expect(200)
    assert newer["spec"] == {"colour": "blue"}
    found = (await http.get(f"/apis/{group}/v2/things", fieldSelector="spec.colour=blue")).expect(200)
    assert [each["metadata"]["name"] for each in found["items"]] == ["a"]
    patched = await http.patch(f"/apis/{group}/v2/things/a", {"metadata": {"labels": {"k": "v"}}})
    assert (patched.status, patched.warnings) == (200, [])


async def test_watchers_see_the_objects_of_a_deleted_definition_go(http: Http, group: str) -> None:
    await defined(http, definition(group, "things", "Thing", version("v1", {}, storage=True)))
    path = f"/apis/{group}/v1/things"
    for name in "abc":
        (await http.post(path, thing(group, "v1", name))).expect(201)

    start = (await http.get(path)).expect(200)["metadata"]["resourceVersion"]
    async with http.watch(path, resourceVersion=start) as watch:
        (await http.delete(f"{CRDS}/things.{group}")).expect(200)
        events = await watch.take(3)

    assert sorted((event.type, event.name) for event in events) == [("DELETED", each) for each in "abc"]


async def test_a_definition_waits_for_its_last_object(http: Http, group: str) -> None:
    await defined(http, definition(group, "things", "Thing", version("v1", {}, storage=True)))
    path = f"/apis/{group}/v1/things"
    held = thing(group, "v1", "held")
    held["metadata"]["finalizers"] = ["example.io/hold"]
    (await http.post(path, held)).expect(201)
    (await http.delete(f"{CRDS}/things.{group}")).expect(200)

    async def marked() -> bool:
        return "deletionTimestamp" in (await http.get(f"{path}/held")).expect(200)["metadata"]

    async def gone() -> bool:
        return (await http.get(f"{CRDS}/things.{group}")).status == 404

    await eventually(marked)
    assert not await gone()
    await http.patch(f"{path}/held", {"metadata": {"finalizers": None}})
    await eventually(gone)


async def test_a_kind_that_is_taken_is_had_once_it_is_free(http: Http, group: str) -> None:
    await defined(http, definition(group, "things", "Thing", version("v1", {}, storage=True)))
    rival = definition(group, "objects", "Thing", version("v1", {}, storage=True))
    (await http.post(CRDS, rival)).expect(201)

    async def has(type_: str, status: str) -> bool:
        return await condition(http, f"objects.{group}", type_) == status

    await eventually(lambda: has("NamesAccepted", "False"))
    assert (await http.get(f"/apis/{group}/v1/objects")).status == 404
    (await http.delete(f"{CRDS}/things.{group}")).expect(200)
    await eventually(lambda: has("Established", "True"))
    await eventually(lambda: served(http, f"/apis/{group}/v1/objects"))


APPROVAL = "api-approved.kubernetes.io"


def protected(domain: str, approval: str | None) -> Json:
    """A definition in a group of the Kubernetes community."""
    made = definition(f"g{uuid.uuid4().hex[:8]}.{domain}", "things", "Thing", version("v1", {}, storage=True))
    if approval is not None:
        made["metadata"]["annotations"] = {APPROVAL: approval}
    return made


@pytest.mark.parametrize("domain", ["k8s.io", "kubernetes.io", "deep.down.k8s.io"])
async def test_groups_of_the_community_need_an_approval(http: Http, domain: str) -> None:
    crd = protected(domain, None)
    answer = await http.post(CRDS, crd)
    assert answer.status == 422
    assert answer.message == (
        f'CustomResourceDefinition.apiextensions.k8s.io "{crd["metadata"]["name"]}" is invalid: '
        f"metadata.annotations[{APPROVAL}]: Required value: protected groups must have approval annotation "
        f'"{APPROVAL}", see https://github.com/kubernetes/enhancements/pull/1111'
    )


@pytest.mark.parametrize(
    "value", ["yes", "true", "/path", "https://", "example.com/1", "https://user@/x", "https://a b/"]
)
async def test_an_approval_is_a_url_or_says_that_there_is_none(http: Http, value: str) -> None:
    answer = await http.post(CRDS, protected("k8s.io", value))
    assert answer.status == 422
    assert (
        f'metadata.annotations[{APPROVAL}]: Invalid value: "{value}": protected groups must have'
        in answer.message
    )


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (
            "https://github.com/kubernetes/enhancements/pull/1",
            ("True", "ApprovedAnnotation", "approved in {}"),
        ),
        ("unapproved, experimental-only", ("False", "UnapprovedAnnotation", 'not approved: "{}"')),
    ],
)
async def test_a_condition_says_what_the_approval_is_worth(
    http: Http, value: str, expected: tuple[str, str, str]
) -> None:
    crd = protected("k8s.io", value)
    await defined(http, crd)
    path = f"{CRDS}/{crd['metadata']['name']}"

    async def judged() -> Json | None:
        live = (await http.get(path)).expect(200)
        named = {each["type"]: each for each in live["status"]["conditions"]}
        return named.get("KubernetesAPIApprovalPolicyConformant")

    found = await eventually(judged)
    assert (found["status"], found["reason"], found["message"]) == (*expected[:2], expected[2].format(value))
    withdrawn = await http.patch(path, {"metadata": {"annotations": {APPROVAL: None}}})
    assert withdrawn.status == 422
    (await http.delete(path)).expect(200)


@pytest.mark.parametrize("domain", ["k8s.io.example.com", "notk8s.io", "k8s.iox"])
async def test_groups_that_only_look_like_it_need_none(http: Http, domain: str) -> None:
    crd = protected(domain, None)
    await defined(http, crd)
    assert await condition(http, crd["metadata"]["name"], "KubernetesAPIApprovalPolicyConformant") == ""
    (await http.delete(f"{CRDS}/{crd['metadata']['name']}")).expect(200)


async def test_a_kind_that_keeps_all_fields_is_an_object_to_old_clients_and_no_more(
    http: Http, group: str
) -> None:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    only = version("v1", {}, storage=True, schema={"openAPIV3Schema": schema})
    await defined(http, definition(group, "things", "Thing", only))
    name = ".".join((*reversed(group.split(".")), "v1", "Thing"))

    async def found() -> Json | None:
        document = (await http.get("/openapi/v2")).expect(200)
        definition: Json | None = document["definitions"].get(name)
        return definition

    assert await eventually(found) == {
        "type": "object",
        "x-kubernetes-group-version-kind": [{"group": group, "version": "v1", "kind": "Thing"}],
    }


async def test_fields_that_every_kind_has_are_described_in_the_words_that_are_looked_for(
    http: Http, group: str
) -> None:
    await defined(http, definition(group, "things", "Thing", version("v1", {}, storage=True)))
    name = ".".join((*reversed(group.split(".")), "v1", "Thing"))

    async def found() -> Json | None:
        answer = await http.get(f"/openapi/v3/apis/{group}/v1")
        schemas: Json = answer.json["components"]["schemas"] if answer.status == 200 else {}
        return schemas if name in schemas else None

    schemas = await eventually(found)
    fields = schemas[name]["properties"]
    assert fields["apiVersion"]["description"].startswith("APIVersion defines")
    assert fields["metadata"]["description"].startswith("Standard object's metadata")
    meta = schemas["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"]["properties"]
    assert meta["creationTimestamp"]["description"].startswith("CreationTimestamp is a timestamp")
