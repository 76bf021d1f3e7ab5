"""Case 70: the official Python client: typed, custom, dynamic, watching, applying, electing."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import kubernetes
import pytest
from kubernetes.client.exceptions import ApiException
from kubernetes.dynamic import DynamicClient
from kubernetes.leaderelection.electionconfig import Config
from kubernetes.leaderelection.leaderelection import LeaderElection
from kubernetes.leaderelection.resourcelock.leaselock import LeaseLock
from tests.kit.databases import GROUP, V1, database
from tests.kit.servers import Target

pytestmark = [pytest.mark.conformance, pytest.mark.clients]


@pytest.fixture
def api(target: Target, kinds: None) -> Iterator[Any]:
    with kubernetes.config.new_client_from_config(str(target.kubeconfig)) as client:
        yield client


@pytest.fixture
def databases(api: Any, tmp_path: Any) -> Any:
    client = DynamicClient(api, cache_file=str(tmp_path / "discovery.json"))
    return client.resources.get(api_version=V1, kind="Database")


def test_case_70_typed_objects_are_created_read_patched_and_deleted(api: Any, ns: str) -> None:
    core = kubernetes.client.CoreV1Api(api)
    metadata = kubernetes.client.V1ObjectMeta(name="cm", labels={"a": "1"})
    core.create_namespaced_config_map(ns, kubernetes.client.V1ConfigMap(metadata=metadata, data={"k": "v"}))

    assert core.read_namespaced_config_map("cm", ns).data == {"k": "v"}
    core.patch_namespaced_config_map("cm", ns, {"data": {"l": "w"}})
    core.patch_namespaced_config_map("cm", ns, [{"op": "remove", "path": "/data/k"}])
    replaced = core.read_namespaced_config_map("cm", ns)
    assert replaced.data == {"l": "w"}
    replaced.data = {"m": "x"}
    assert core.replace_namespaced_config_map("cm", ns, replaced).data == {"m": "x"}
    assert [cm.metadata.name for cm in core.list_namespaced_config_map(ns, label_selector="a=1").items] == [
        "cm"
    ]
    core.delete_namespaced_config_map("cm", ns)
    with pytest.raises(ApiException) as missing:
        core.read_namespaced_config_map("cm", ns)
    assert missing.value.status == 404


def test_case_70_custom_objects(api: Any, ns: str) -> None:
    custom = kubernetes.client.CustomObjectsApi(api)
    place = {"group": GROUP, "version": "v1", "namespace": ns, "plural": "databases"}

    created = custom.create_namespaced_custom_object(**place, body=database("a"))
    assert created["spec"]["replicas"] == 1
    custom.patch_namespaced_custom_object(**place, name="a", body={"spec": {"replicas": 2}})
    custom.patch_namespaced_custom_object_status(**place, name="a", body={"status": {"phase": "Running"}})
    scale = custom.get_namespaced_custom_object_scale(**place, name="a")
    assert scale["spec"]["replicas"] == 2
    live = custom.get_namespaced_custom_object(**place, name="a")
    assert (live["spec"]["replicas"], live["status"]["phase"]) == (2, "Running")
    assert len(custom.list_namespaced_custom_object(**place)["items"]) == 1
    custom.delete_namespaced_custom_object(**place, name="a")
    assert custom.list_namespaced_custom_object(**place)["items"] == []


def test_case_70_the_dynamic_client_finds_changes_and_watches(databases: Any, ns: str) -> None:
    databases.create(body=database("a"), namespace=ns)
    databases.patch(
        name="a", namespace=ns, body={"spec": {"replicas": 2}}, content_type="application/merge-patch+json"
    )
    live = databases.get(name="a", namespace=ns)
    assert live.spec.replicas == 2
    live.spec.owner = "o"
    assert databases.replace(body=live.to_dict(), namespace=ns).spec.owner == "o"
    assert databases.subresources["scale"].get(name="a", namespace=ns).spec.replicas == 2

    version = databases.get(namespace=ns).metadata.resourceVersion
    databases.create(body=database("b"), namespace=ns)
    databases.delete(name="a", namespace=ns)
    seen = []
    for event in databases.watch(namespace=ns, resource_version=version, timeout=30):
        seen.append((event["type"], event["object"].metadata.name))
        if len(seen) == 2:
            break
    assert seen == [("ADDED", "b"), ("DELETED", "a")]


def test_case_70_the_dynamic_client_applies(databases: Any, ns: str) -> None:
    first = databases.server_side_apply(body=database("a", replicas=2), namespace=ns, field_manager="m1")
    assert first.spec.replicas == 2
    with pytest.raises(ApiException) as conflict:
        databases.server_side_apply(body=database("a", replicas=3), namespace=ns, field_manager="m2")
    assert conflict.value.status == 409
    forced = databases.server_side_apply(
        body=database("a", replicas=3), namespace=ns, field_manager="m2", force_conflicts=True
    )
    assert forced.spec.replicas == 3


def test_case_70_the_watch_class_ends_with_its_time_and_resumes(api: Any, ns: str) -> None:
    core = kubernetes.client.CoreV1Api(api)
    body = kubernetes.client.V1ConfigMap(metadata=kubernetes.client.V1ObjectMeta(name="one"))
    core.create_namespaced_config_map(ns, body)
    watch = kubernetes.watch.Watch()

    first = [
        (event["type"], event["object"].metadata.name)
        for event in watch.stream(core.list_namespaced_config_map, ns, timeout_seconds=1)
    ]
    body.metadata.name = "two"
    core.create_namespaced_config_map(ns, body)
    later = []
    for event in watch.stream(
        core.list_namespaced_config_map, ns, resource_version=watch.resource_version, timeout_seconds=20
    ):
        later.append((event["type"], event["object"].metadata.name))
        watch.stop()

    assert first == [("ADDED", "one")]
    assert later == [("ADDED", "two")]


def test_case_70_leadership_passes_on_when_the_leader_stops(
    api: Any, ns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The lock builds its own client, from the process's default configuration.
    monkeypatch.setattr(kubernetes.client.Configuration, "_default", api.configuration)
    led: list[str] = []
    leads = {name: threading.Event() for name in ("first", "second")}

    class Resign(Exception):
        pass

    def candidate(name: str, may_resign: threading.Event) -> threading.Thread:
        def lead() -> None:
            led.append(name)
            leads[name].set()
            may_resign.wait(60)
            raise Resign

        config = Config(
            LeaseLock("leader", ns, name),
            lease_duration=3,
            renew_deadline=2,
            retry_period=1,
            onstarted_leading=lead,
            onstopped_leading=lambda: None,
        )
        thread = threading.Thread(target=LeaderElection(config).run, daemon=True)
        thread.start()
        return thread

    resign, at_once = threading.Event(), threading.Event()
    at_once.set()
    first = candidate("first", resign)
    assert leads["first"].wait(30)
    second = candidate("second", at_once)
    lease = kubernetes.client.CoordinationV1Api(api).read_namespaced_lease("leader", ns)
    assert lease.spec.holder_identity == "first"
    assert led == ["first"]
    resign.set()
    assert leads["second"].wait(60)
    assert led == ["first", "second"]
    first.join(30)
    second.join(30)
    assert not first.is_alive()
    assert not second.is_alive()
