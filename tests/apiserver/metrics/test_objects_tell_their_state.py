"""Object-state metrics of what is in the cache of a core without a network."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator

import pytest
from tests.apiserver.metrics.scraped import Scraped
from tests.kit.core import CoreServer

from pilothouse.api.registry import own_resources, resources
from pilothouse.apiserver.metrics.object_metrics import PATH, ObjectMetrics, views
from pilothouse.apiserver.metrics.object_states import Sample
from pilothouse.apiserver.server.messages import Request, Response
from pilothouse.meta.kind import Object, Resource

NAVIGATOR = "/apis/navigator.jetstack.io/v1beta1/namespaces/default"
PODS = "/api/v1/namespaces/default/pods"
MERGE = "application/merge-patch+json"


def pilot(name: str) -> dict[str, object]:
    return {
        "apiVersion": "navigator.jetstack.io/v1beta1",
        "kind": "Pilot",
        "metadata": {"name": name},
        "spec": {},
    }


class Stage(CoreServer):
    """A core with the page that is under test."""

    def __init__(self) -> None:
        super().__init__()
        self.page = ObjectMetrics(self.core.cache, views(resources()))
        self.core.serve(PATH, self.page.answer)

    def scrape(self) -> Scraped:
        self.settle()
        answer = self.send("GET", PATH)
        assert answer.status == 200
        return Scraped.read(answer.body)

    def make(self, collection: str, obj: dict[str, object], status: dict[str, object] | None = None) -> None:
        made = self.send("POST", collection, obj).expect(201)
        if status is not None:
            place = f"{collection}/{made['metadata']['name']}/status"
            self.send("PATCH", place, {"status": status}, type=MERGE).expect(200)


@pytest.fixture
def stage() -> Iterator[Stage]:
    with Stage() as stage:
        yield stage


def test_a_cluster(stage: Stage) -> None:
    stage.make(
        f"{NAVIGATOR}/elasticsearchclusters",
        {
            "apiVersion": "navigator.jetstack.io/v1beta1",
            "kind": "ElasticsearchCluster",
            "metadata": {"name": "logs"},
            "spec": {
                "version": "8.17.0",
                "nodePools": [
                    {"name": "masters", "roles": ["master"], "replicas": 3},
                    {"name": "data", "roles": ["data"], "replicas": 5},
                ],
            },
        },
        {
            "observedGeneration": 1,
            "health": "Yellow",
            "replicas": 8,
            "readyReplicas": 6,
            "nodePools": {
                "masters": {"replicas": 3, "readyReplicas": 3, "currentReplicas": 0, "updatedReplicas": 3},
                "data": {"replicas": 5, "readyReplicas": 3, "currentReplicas": 4, "updatedReplicas": 1},
            },
            "conditions": [
                {"type": "Available", "status": "True"},
                {"type": "Degraded", "status": "Unknown"},
            ],
        },
    )
    page = stage.scrape()
    logs = {
        "group": "navigator.jetstack.io",
        "kind": "ElasticsearchCluster",
        "namespace": "default",
        "name": "logs",
    }
    info = page.labels("pilothouse_object_info", **logs)
    assert (info["version"], len(info["uid"])) == ("8.17.0", 36)
    assert page.value("pilothouse_object_created", **logs) > 1.6e9
    assert page.value("pilothouse_object_generation", **logs) == 1
    assert page.value("pilothouse_object_observed_generation", **logs) == 1
    assert page.value("pilothouse_object_status_health", health="Yellow", **logs) == 1
    assert page.value("pilothouse_object_status_health", health="Green", **logs) == 0
    conditions = {
        (condition, status): page.value(
            "pilothouse_object_status_condition", condition=condition, status=status, **logs
        )
        for condition in ("Available", "Degraded")
        for status in ("true", "false", "unknown")
    }
    assert {key for key, value in conditions.items() if value} == {
        ("Available", "true"),
        ("Degraded", "unknown"),
    }
    for name, expected in {
        "spec_replicas": (3, 5),
        "status_replicas": (3, 5),
        "status_replicas_ready": (3, 3),
        "status_replicas_current": (0, 4),
        "status_replicas_updated": (3, 1),
    }.items():
        pools = [page.value(f"pilothouse_object_{name}", pool=pool, **logs) for pool in ("masters", "data")]
        assert tuple(pools) == expected, name


def test_a_pilot(stage: Stage) -> None:
    stage.make(
        f"{NAVIGATOR}/pilots",
        pilot("logs-data-0"),
        {"phase": "Running"},
    )
    page = stage.scrape()
    phases = ("Waiting", "PreStart", "Running", "PreStop", "Stopped")
    found = {each: page.value("pilothouse_object_status_phase", kind="Pilot", phase=each) for each in phases}
    assert found == {**dict.fromkeys(phases, 0), "Running": 1}


@pytest.mark.parametrize("resource", own_resources(), ids=lambda resource: resource.plural)
def test_every_kind_of_ours_is_told_of(resource: Resource) -> None:
    kind = resource.stored
    view = views([resource])[resource.path]
    obj = {
        "metadata": {"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z", "generation": 2, "uid": "u"}
    }
    page = Scraped.read(
        "".join(
            [m.header + line for m, line in zip(view.measures, view.lines(obj), strict=True) if line]
        ).encode()
    )
    assert page.labels("pilothouse_object_info", kind=kind.name, group=kind.group)["name"] == "a"
    assert page.value("pilothouse_object_generation") == 2
    assert page.value("pilothouse_object_created") == 1767225600


def test_what_kube_state_metrics_tells(stage: Stage) -> None:
    stage.make(
        PODS,
        {
            "metadata": {
                "name": "db-0",
                "ownerReferences": [
                    {
                        "apiVersion": "apps/v1",
                        "kind": "StatefulSet",
                        "name": "db",
                        "uid": "s",
                        "controller": True,
                    }
                ],
            },
            "spec": {"nodeName": "m-1", "containers": [{"name": "db", "image": "db:1"}]},
        },
        {
            "phase": "Running",
            "podIP": "127.1.0.1",
            "conditions": [{"type": "Ready", "status": "False"}],
            "containerStatuses": [
                {
                    "name": "db",
                    "ready": False,
                    "restartCount": 3,
                    "image": "db:1",
                    "imageID": "",
                    "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                }
            ],
        },
    )
    stage.make(
        "/apis/apps/v1/namespaces/default/statefulsets",
        {
            "metadata": {"name": "db"},
            "spec": {
                "replicas": 3,
                "serviceName": "db",
                "selector": {"matchLabels": {"a": "b"}},
                "template": {
                    "metadata": {"labels": {"a": "b"}},
                    "spec": {"containers": [{"name": "db", "image": "db:1"}]},
                },
            },
        },
        {
            "replicas": 3,
            "readyReplicas": 2,
            "currentReplicas": 1,
            "updatedReplicas": 2,
            "observedGeneration": 1,
        },
    )
    stage.make(
        "/api/v1/namespaces/default/persistentvolumeclaims",
        {
            "metadata": {"name": "data-db-0"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "fast",
                "resources": {"requests": {"storage": "2Gi"}},
            },
        },
        {"phase": "Bound"},
    )
    stage.make(
        "/api/v1/nodes",
        {"metadata": {"name": "m-1"}, "spec": {"unschedulable": True}},
        {
            "capacity": {"cpu": "1500m", "memory": "1Ki"},
            "conditions": [{"type": "Ready", "status": "True"}, {"type": "Ready", "status": "False"}],
        },
    )
    page = stage.scrape()
    pod = {"namespace": "default", "pod": "db-0"}
    info = page.labels("kube_pod_info", **pod)
    assert (info["node"], info["pod_ip"], info["created_by_kind"], info["created_by_name"]) == (
        "m-1",
        "127.1.0.1",
        "StatefulSet",
        "db",
    )
    assert page.value("kube_pod_status_phase", phase="Running", **pod) == 1
    assert page.value("kube_pod_status_phase", phase="Failed", **pod) == 0
    assert page.value("kube_pod_status_ready", condition="false", **pod) == 1
    assert page.value("kube_pod_container_status_restarts_total", container="db", **pod) == 3
    assert page.types["kube_pod_container_status_restarts"] == "counter"
    assert page.value("kube_pod_container_status_waiting_reason", reason="CrashLoopBackOff", **pod) == 1
    for name, expected in {
        "kube_statefulset_replicas": 3,
        "kube_statefulset_status_replicas_ready": 2,
        "kube_statefulset_status_replicas_current": 1,
        "kube_statefulset_status_replicas_updated": 2,
        "kube_statefulset_metadata_generation": 1,
        "kube_statefulset_status_observed_generation": 1,
    }.items():
        assert page.value(name, statefulset="db", namespace="default") == expected, name
    claim = {"namespace": "default", "persistentvolumeclaim": "data-db-0"}
    assert page.value("kube_persistentvolumeclaim_resource_requests_storage_bytes", **claim) == 2 * 1024**3
    assert page.value("kube_persistentvolumeclaim_status_phase", phase="Bound", **claim) == 1
    assert page.value("kube_node_spec_unschedulable", node="m-1") == 1
    assert page.value("kube_node_status_capacity", node="m-1", resource="cpu", unit="core") == 1.5
    assert page.value("kube_node_status_capacity", node="m-1", resource="memory", unit="byte") == 1024
    assert page.value("kube_node_status_condition", node="m-1", condition="Ready", status="false") == 1
    assert page.value("kube_namespace_status_phase", namespace="default", phase="Active") == 1


def test_changes_and_deletions_show(stage: Stage) -> None:
    place = f"{NAVIGATOR}/pilots"
    for name in ("a", "b"):
        stage.make(place, pilot(name))
    assert len(stage.scrape().values("pilothouse_object_info", kind="Pilot")) == 2
    stage.send("DELETE", f"{place}/a").expect(200)
    stage.send("PATCH", f"{place}/b/status", {"status": {"phase": "Stopped"}}, type=MERGE).expect(200)
    page = stage.scrape()
    assert page.labels("pilothouse_object_info", kind="Pilot")["name"] == "b"
    assert page.value("pilothouse_object_status_phase", name="b", phase="Stopped") == 1


def test_text_in_objects_can_not_break_the_page(stage: Stage) -> None:
    nasty = 'x" 1\nup{evil="\\'
    stage.make(
        f"{NAVIGATOR}/pilots",
        pilot("a"),
        {"conditions": [{"type": nasty, "status": "True"}]},
    )
    page = stage.scrape()
    assert page.value("pilothouse_object_status_condition", condition=nasty, status="true") == 1
    assert "up" not in page.names()


def test_only_what_has_changed_is_worked_out_again(stage: Stage) -> None:
    for name in ("a", "b", "c"):
        stage.send(
            "POST",
            PODS,
            {"metadata": {"name": name}, "spec": {"containers": [{"name": "x", "image": "x:1"}]}},
        ).expect(201)
    stage.settle()
    read: list[str] = []
    view = views(resources())["pods"]
    first = view.measures[0]

    def counting(obj: Object) -> Iterable[Sample]:
        read.append(obj["metadata"]["name"])
        return first.read(obj)

    measure = type(first)(first.name, first.help, counting)
    page = ObjectMetrics(stage.core.cache, {"pods": type(view)(view.name, (measure,))})

    stage.core.serve("/counted", page.answer)

    def scrape() -> list[str]:
        read.clear()
        answer = stage.send("GET", "/counted")
        assert len(Scraped.read(answer.body).values("kube_pod_info")) == 3
        return sorted(read)

    assert scrape() == ["a", "b", "c"]
    assert scrape() == []
    stage.send("PATCH", f"{PODS}/b", {"metadata": {"labels": {"x": "y"}}}, type=MERGE).expect(200)
    stage.settle()
    assert scrape() == ["b"]


def test_scrapes_at_the_same_time_show_the_same(stage: Stage) -> None:
    async def both(request: Request) -> Response:
        first, second = await asyncio.gather(stage.page.answer(request), stage.page.answer(request))
        return Response(200 if first.body == second.body else 500, first.body)

    stage.core.serve("/both", both)
    assert stage.send("GET", "/both").status == 200


def test_the_page_is_only_read(stage: Stage) -> None:
    assert stage.send("POST", PATH, {}).status == 405
