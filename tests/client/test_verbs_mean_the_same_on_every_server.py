from __future__ import annotations

from typing import Any

import pytest

from pilothouse.api.kind_names import ConfigMap, KindName, Lease, Pod, ServiceAccount, StatefulSet
from pilothouse.client.api import Api, Patch
from pilothouse.client.discovery import NoSuchKind, discover
from pilothouse.client.fence import FENCED, LeadershipFence
from pilothouse.client.subresources import bind, evict, mint_token, scale
from pilothouse.meta.errors import StatusError


def config_map(space: str, name: str = "a", **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": space}, "data": data}


def pod(space: str, name: str = "web-0") -> dict[str, Any]:
    spec = {"containers": [{"name": "web", "image": "web:1"}], "automountServiceAccountToken": False}
    return {"metadata": {"name": name, "namespace": space, "labels": {"app": "web"}}, "spec": spec}


def stateful_set(space: str) -> dict[str, Any]:
    labels = {"app": "db"}
    containers = [{"name": "db", "image": "db:1"}]
    return {
        "metadata": {"name": "db", "namespace": space},
        "spec": {
            "replicas": 3,
            "serviceName": "db",
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
        },
    }


async def account(api: Api, space: str) -> None:
    """The service account that pods of a real Kubernetes need, whose controller does not run here."""
    if await api.find(ServiceAccount, "default", space) is None:
        await api.create(ServiceAccount, {"metadata": {"name": "default", "namespace": space}})


async def test_an_object_is_created_read_replaced_and_deleted(api: Api, space: str) -> None:
    created = await api.create(ConfigMap, config_map(space, color="red"))
    assert (created.kind, created.api_version, created.key) == ("ConfigMap", "v1", (space, "a"))
    assert created.revision > 0
    assert await api.get(ConfigMap, "a", space) == created

    changed = created.thawed()
    changed["data"]["color"] = "blue"
    updated = await api.update(ConfigMap, changed)
    assert updated.tree["data"] == {"color": "blue"}
    assert updated.revision > created.revision
    assert updated != created
    with pytest.raises(StatusError) as conflict:
        await api.update(ConfigMap, changed)
    assert (conflict.value.code, conflict.value.reason, conflict.value.name) == (409, "Conflict", "a")

    assert await api.delete(ConfigMap, "a", space) is None
    assert await api.find(ConfigMap, "a", space) is None
    with pytest.raises(StatusError) as missing:
        await api.get(ConfigMap, "a", space)
    assert (missing.value.code, missing.value.reason) == (404, "NotFound")


async def test_a_kind_that_is_not_served_is_no_missing_object(api: Api, space: str) -> None:
    with pytest.raises(StatusError) as unknown:
        await api.find(KindName("nobody.example.io", "v1", "things", "Thing"), "a", space)
    assert unknown.value.code == 404


async def test_patches_of_every_kind(api: Api, space: str) -> None:
    await api.create(ConfigMap, config_map(space, a="1", b="2"))
    merged = await api.patch(ConfigMap, "a", space, {"data": {"b": None, "c": "3"}})
    assert merged.tree["data"] == {"a": "1", "c": "3"}
    operations = [{"op": "replace", "path": "/data/a", "value": "9"}]
    assert (await api.patch(ConfigMap, "a", space, operations, kind=Patch.JSON)).tree["data"]["a"] == "9"
    strategic = {"metadata": {"labels": {"x": "y"}}}
    assert (await api.patch(ConfigMap, "a", space, strategic, kind=Patch.STRATEGIC)).labels == {"x": "y"}


async def test_apply_names_who_holds_a_field(api: Api, space: str) -> None:
    await api.apply(ConfigMap, config_map(space, color="red"), manager="one")
    with pytest.raises(StatusError) as conflict:
        await api.apply(ConfigMap, config_map(space, color="blue"), manager="two")
    assert (conflict.value.code, conflict.value.reason) == (409, "Conflict")
    assert [(cause.reason, cause.field) for cause in conflict.value.causes] == [
        ("FieldManagerConflict", ".data.color")
    ]
    forced = await api.apply(ConfigMap, config_map(space, color="blue"), manager="two", force=True)
    assert forced.tree["data"] == {"color": "blue"}


async def test_a_dry_run_changes_nothing(api: Api, space: str) -> None:
    assert (await api.create(ConfigMap, config_map(space), dry_run=True)).name == "a"
    assert await api.find(ConfigMap, "a", space) is None
    await api.create(ConfigMap, config_map(space))
    await api.delete(ConfigMap, "a", space, dry_run=True)
    await api.delete_collection(ConfigMap, space, dry_run=True)
    assert await api.find(ConfigMap, "a", space) is not None


async def test_unknown_fields_are_refused_if_asked(api: Api, space: str) -> None:
    with pytest.raises(StatusError) as refusal:
        await api.create(ConfigMap, {**config_map(space), "dada": {}}, validation="Strict")
    assert refusal.value.code == 400
    assert "dada" in refusal.value.message


async def test_a_delete_means_one_version_of_one_object(api: Api, space: str) -> None:
    first = await api.create(ConfigMap, config_map(space))
    await api.patch(ConfigMap, "a", space, {"data": {"x": "y"}})
    preconditions: list[dict[str, Any]] = [{"uid": "another"}, {"revision": first.resource_version}]
    for precondition in preconditions:
        with pytest.raises(StatusError) as refusal:
            await api.delete(ConfigMap, "a", space, **precondition)
        assert refusal.value.code == 409
    assert await api.delete(ConfigMap, "a", space, uid=first.uid) is None


async def test_an_object_with_a_finalizer_lives_on(api: Api, space: str) -> None:
    body = config_map(space)
    body["metadata"]["finalizers"] = ["example.io/wait"]
    await api.create(ConfigMap, body)
    left = await api.delete(ConfigMap, "a", space)
    assert left is not None
    assert left.deletion_timestamp
    assert left.finalizers == ("example.io/wait",)
    await api.patch(ConfigMap, "a", space, {"metadata": {"finalizers": None}})
    assert await api.find(ConfigMap, "a", space) is None


async def test_a_collection_is_deleted_by_labels(api: Api, space: str) -> None:
    for name, color in (("a", "red"), ("b", "red"), ("c", "blue")):
        body = config_map(space, name)
        body["metadata"]["labels"] = {"color": color}
        await api.create(ConfigMap, body)
    await api.delete_collection(ConfigMap, space, labels="color=red")
    listed = await api.list(ConfigMap, space, labels="color")
    assert [each.name for each in listed.objects] == ["c"]


async def test_a_list_of_many_pages_is_of_one_moment(api: Api, space: str) -> None:
    for n in range(7):
        await api.create(ConfigMap, config_map(space, f"m{n}"))
    listed = await api.list(ConfigMap, space, page=2, fields="metadata.name!=kube-root-ca.crt")
    assert [each.name for each in listed.objects] == [f"m{n}" for n in range(7)]
    assert all(
        each.tree["kind"] == "ConfigMap" and each.tree["apiVersion"] == "v1" for each in listed.objects
    )
    assert listed.revision >= max(each.revision for each in listed.objects)


async def test_status_is_written_on_its_own(api: Api, space: str) -> None:
    await api.create(StatefulSet, stateful_set(space))
    status = {"status": {"replicas": 1, "readyReplicas": 1}}
    patched = await api.patch(StatefulSet, "db", space, status, subresource="status")
    assert patched.status["readyReplicas"] == 1
    assert patched.spec["replicas"] == 3
    assert patched.generation == 1


async def test_scale_asks_for_a_number(api: Api, space: str) -> None:
    await api.create(StatefulSet, stateful_set(space))
    assert (await scale(api, StatefulSet, "db", space)).spec.replicas == 3
    assert (await scale(api, StatefulSet, "db", space, 5)).spec.replicas == 5
    assert (await api.get(StatefulSet, "db", space)).spec["replicas"] == 5


async def test_a_pod_is_bound_and_evicted(api: Api, space: str) -> None:
    await account(api, space)
    created = await api.create(Pod, pod(space))
    await bind(api, "web-0", space, "node-1")
    assert (await api.get(Pod, "web-0", space)).spec["nodeName"] == "node-1"
    with pytest.raises(StatusError) as another:
        await evict(api, "web-0", space, uid="another")
    assert another.value.code == 409
    await evict(api, "web-0", space, uid=created.uid, grace=0, dry_run=True)
    assert await api.find(Pod, "web-0", space) == await api.get(Pod, "web-0", space)
    await evict(api, "web-0", space, uid=created.uid, grace=0)
    assert await api.find(Pod, "web-0", space) is None


async def test_a_token_is_minted(api: Api, space: str) -> None:
    await account(api, space)
    minted = await mint_token(api, "default", space, seconds=1200)
    assert minted.token.count(".") == 2
    assert minted.expires.endswith("Z")


async def test_kinds_are_discovered(api: Api) -> None:
    found = await discover(api)
    assert found.find("Pod") == Pod
    assert found.find("leases", group="coordination.k8s.io") == Lease
    assert found.find("StatefulSet", group="apps", version="v1") == StatefulSet
    verbs = next(each.verbs for each in found.served if each.noun == Pod)
    assert {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"} <= verbs
    with pytest.raises(NoSuchKind, match=r"does not serve Pod in apps"):
        found.find("Pod", group="apps")


async def test_the_version_tells_whose_server_it_is(api: Api, server_kind: str) -> None:
    version = await api.version()
    assert version.text.startswith("v1.")
    assert version.is_ours == (server_kind != "kube")


async def test_a_write_under_a_lease_that_moved_on_is_refused_by_ours(
    api: Api, space: str, server_kind: str
) -> None:
    spec = {"holderIdentity": "me", "leaseDurationSeconds": 15, "leaseTransitions": 3}
    await api.create(Lease, {"metadata": {"name": "leader", "namespace": space}, "spec": spec})
    await api.create(ConfigMap, config_map(space), fence=LeadershipFence(space, "leader", 3))
    late = LeadershipFence(space, "leader", 2)
    if server_kind == "kube":
        assert (await api.patch(ConfigMap, "a", space, {"data": {}}, fence=late)).name == "a"
        return
    with pytest.raises(StatusError) as refusal:
        await api.patch(ConfigMap, "a", space, {"data": {"x": "y"}}, fence=late)
    assert (refusal.value.code, refusal.value.reason) == (409, FENCED)
