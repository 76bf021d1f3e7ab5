"""Endpoints and EndpointSlices, as a decision."""

from __future__ import annotations

from typing import Any

from pilothouse.api.kind_names import Endpoints, EndpointSlice, Pod, Service
from pilothouse.api.objects import Object, Tree
from pilothouse.controllers.endpoints import endpoints, services_of_pod
from pilothouse.runtime.intents import Create, Delete, Intent, Update
from pilothouse.runtime.snapshot import Snapshot, StaticView


def a_service(**spec: Any) -> Object:
    return Object.of(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "db", "namespace": "default", "uid": "s1", "resourceVersion": "5"},
            "spec": {"selector": {"app": "db"}, "ports": [{"name": "sql", "port": 5432}], **spec},
        }
    )


def a_pod(number: int, *, ready: bool = True, deleting: bool = False, **spec: Any) -> Object:
    meta: Tree = {
        "name": f"db-{number}",
        "namespace": "default",
        "labels": {"app": "db"},
        "uid": f"p{number}",
        "resourceVersion": "7",
    }
    if deleting:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return Object.of(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": meta,
            "spec": {"containers": [{"name": "c"}], "nodeName": "n1", **spec},
            "status": {
                "phase": "Running",
                "podIP": f"127.1.{number // 256}.{number % 256}",
                "conditions": [{"type": "Ready", "status": str(ready)}],
            },
        }
    )


def a_world(service: Object, pods: list[Object], *others: Object) -> Snapshot:
    views = {
        Service: StaticView([service]),
        Pod: StaticView(pods),
        Endpoints: StaticView(one for one in others if one.noun == Endpoints),
        EndpointSlice: StaticView(one for one in others if one.noun == EndpointSlice),
    }
    return Snapshot(views, now=0)


def made(intents: list[Intent]) -> dict[str, Tree]:
    """What the intents have the world be, by kind and name."""
    return {
        f"{one.object['kind']} {one.object['metadata']['name']}": one.object
        for one in intents
        if isinstance(one, Create | Update)
    }


def stored(trees: dict[str, Tree]) -> list[Object]:
    return [
        Object.of({**tree, "metadata": {**tree["metadata"], "uid": name, "resourceVersion": "9"}})
        for name, tree in trees.items()
    ]


def test_ready_pods_are_addresses_and_the_others_are_told_apart() -> None:
    service = a_service()
    pods = [a_pod(1), a_pod(2, ready=False), a_pod(3, deleting=True)]
    trees = made(endpoints(service, a_world(service, pods)))
    (subset,) = trees["Endpoints db"]["subsets"]
    assert [one["ip"] for one in subset["addresses"]] == ["127.1.0.1"]
    assert [one["ip"] for one in subset["notReadyAddresses"]] == ["127.1.0.2"]
    assert subset["ports"] == [{"name": "sql", "port": 5432, "protocol": "TCP"}]
    slice_ = trees["EndpointSlice db-0"]
    assert slice_["metadata"]["labels"]["kubernetes.io/service-name"] == "db"
    assert [(one["targetRef"]["name"], one["conditions"]) for one in slice_["endpoints"]] == [
        ("db-1", {"ready": True, "serving": True, "terminating": False}),
        ("db-2", {"ready": False, "serving": False, "terminating": False}),
        ("db-3", {"ready": False, "serving": True, "terminating": True}),
    ]


def test_names_that_must_resolve_early_are_published_ready_or_not() -> None:
    service = a_service(publishNotReadyAddresses=True, clusterIP="None")
    pods = [a_pod(1, ready=False, hostname="db-1", subdomain="db"), a_pod(2, hostname="x", subdomain="other")]
    trees = made(endpoints(service, a_world(service, pods)))
    (subset,) = trees["Endpoints db"]["subsets"]
    assert [(one["ip"], one.get("hostname")) for one in subset["addresses"]] == [
        ("127.1.0.1", "db-1"),
        ("127.1.0.2", None),
    ]
    assert "service.kubernetes.io/headless" in trees["EndpointSlice db-0"]["metadata"]["labels"]


def test_a_named_target_port_is_looked_up_in_each_pod() -> None:
    service = a_service(ports=[{"name": "sql", "port": 1, "targetPort": "pg"}])
    pods = [
        a_pod(number, containers=[{"name": "c", "ports": [{"name": "pg", "containerPort": port}]}])
        for number, port in ((1, 5432), (2, 5433))
    ]
    trees = made(endpoints(service, a_world(service, pods)))
    assert sorted(
        (tree["ports"][0]["port"], tree["endpoints"][0]["targetRef"]["name"])
        for name, tree in trees.items()
        if name.startswith("EndpointSlice")
    ) == [(5432, "db-1"), (5433, "db-2")]


def test_a_hundred_go_into_a_slice_and_one_that_is_not_needed_goes() -> None:
    service = a_service()
    many = [a_pod(number) for number in range(1, 251)]
    trees = made(endpoints(service, a_world(service, many)))
    sizes = [len(tree["endpoints"]) for name, tree in trees.items() if name.startswith("EndpointSlice")]
    assert sizes == [100, 100, 50]
    fewer = endpoints(service, a_world(service, many[:120], *stored(trees)))
    assert [one.seen.name for one in fewer if isinstance(one, Delete)] == ["db-2"]


def test_what_is_as_it_should_be_is_left_alone() -> None:
    service, pods = a_service(), [a_pod(1), a_pod(2, ready=False)]
    trees = made(endpoints(service, a_world(service, pods)))
    assert endpoints(service, a_world(service, pods, *stored(trees))) == []


def test_pods_without_an_address_or_that_have_ended_are_none() -> None:
    service = a_service()
    ended = Object.of({**a_pod(1).tree, "status": {"phase": "Succeeded", "podIP": "127.1.0.1"}})
    nowhere = Object.of({**a_pod(2).tree, "status": {"phase": "Pending"}})
    trees = made(endpoints(service, a_world(service, [ended, nowhere])))
    assert trees == {"Endpoints db": trees["Endpoints db"]}
    assert trees["Endpoints db"]["subsets"] == []


def test_a_service_without_a_selector_is_left_to_whoever_keeps_it() -> None:
    service = a_service(selector=None)
    assert endpoints(service, a_world(service, [a_pod(1)])) == []


def test_a_pod_concerns_the_services_that_select_it() -> None:
    service = a_service()
    world = a_world(service, [])
    assert list(services_of_pod(a_pod(1), world)) == [("default", "db")]
    stranger = Object.of({**a_pod(1).tree, "metadata": {"name": "x", "namespace": "default"}})
    assert list(services_of_pod(stranger, world)) == []
