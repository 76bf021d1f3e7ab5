"""A control plane that starts before its node serves nothing of what that node, and who relied on it, said before."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.kit.core import CoreServer

from pilothouse.apiserver.registry.node_status_reset import withdraw_reports

PODS = "/api/v1/namespaces/default/pods"
SETS = "/apis/apps/v1/namespaces/default/statefulsets"
NAVIGATOR = "/apis/navigator.jetstack.io/v1beta1/namespaces/default"
CLUSTERS, PILOTS = f"{NAVIGATOR}/elasticsearchclusters", f"{NAVIGATOR}/pilots"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


@pytest.fixture
def server() -> Iterator[CoreServer]:
    with CoreServer() as server:
        for name in ("here", "there"):
            make(server, "/api/v1/nodes", {"metadata": {"name": name}}, {"conditions": [condition("Ready")]})
        yield server


def condition(kind: str, status: str = "True") -> dict[str, str]:
    return {
        "type": kind,
        "status": status,
        "reason": "Fine",
        "message": "",
        "lastTransitionTime": "2024-01-01T00:00:00Z",
    }


def make(server: CoreServer, path: str, body: dict[str, Any], status: dict[str, Any]) -> dict[str, Any]:
    kind = {CLUSTERS: "ElasticsearchCluster", PILOTS: "Pilot"}.get(path)
    version = {"apiVersion": "navigator.jetstack.io/v1beta1", "kind": kind} if kind else {}
    made = server.send("POST", path, {**version, **body}).expect(201)
    made["status"] = {**made.get("status", {}), **status}
    written = server.send("PUT", f"{path}/{made['metadata']['name']}/status", made).expect(200)
    return dict(written)


def owned_by(owner: dict[str, Any]) -> list[dict[str, Any]]:
    reference = {key: owner[key] for key in ("apiVersion", "kind")}
    metadata = {key: owner["metadata"][key] for key in ("name", "uid")}
    return [{**reference, **metadata, "controller": True}]


def cluster(server: CoreServer, nodes: dict[str, str]) -> None:
    """A cluster ``demo`` of one pool, all well, whose pods run on these nodes, by name."""
    count = len(nodes)
    spec = {"version": "8.17.0", "nodePools": [{"name": "data", "replicas": count, "roles": ["master"]}]}
    told = [condition("Available"), condition("Degraded", "False"), condition("Progressing", "False")]
    esc = make(
        server,
        CLUSTERS,
        {"metadata": {"name": "demo"}, "spec": spec},
        {
            "replicas": count,
            "readyReplicas": count,
            "health": "Green",
            "nodePools": {"data": {"replicas": count, "readyReplicas": count}},
            "conditions": told,
        },
    )
    labels = {"app": "demo", "navigator.jetstack.io/elasticsearch-node-pool-name": "data"}
    container = {"name": "c", "image": "host/sh"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    owned = make(
        server,
        SETS,
        {
            "metadata": {"name": "demo-data", "labels": labels, "ownerReferences": owned_by(esc)},
            "spec": {"selector": {"matchLabels": labels}, "serviceName": "demo", "template": template},
        },
        {"replicas": count, "readyReplicas": count, "availableReplicas": count, "updatedReplicas": count},
    )
    for name, node in nodes.items():
        pod = {
            "metadata": {"name": name, "labels": labels, "ownerReferences": owned_by(owned)},
            "spec": {"nodeName": node, "containers": [container]},
        }
        statuses = [
            {
                "name": "c",
                "ready": True,
                "started": True,
                "restartCount": 0,
                "image": "host/sh",
                "imageID": "",
            }
        ]
        ready = {"conditions": [condition("ContainersReady"), condition("Ready")]}
        make(server, PODS, pod, {"phase": "Running", "containerStatuses": statuses, **ready})
        make(
            server,
            PILOTS,
            {"metadata": {"name": name, "ownerReferences": owned_by(esc)}, "spec": {"elasticsearch": {}}},
            {"conditions": [condition("Ready")]},
        )
    budget = {"metadata": {"name": "demo"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": labels}}}
    healthy = {"currentHealthy": count, "desiredHealthy": 1, "disruptionsAllowed": count - 1}
    make(server, BUDGETS, budget, {**healthy, "expectedPods": count, "observedGeneration": 1})


def withdraw(server: CoreServer, node: str) -> None:
    server.run(withdraw_reports(server.core, node, server.clock))


def status(server: CoreServer, path: str) -> dict[str, Any]:
    return dict(server.send("GET", path).expect(200)["status"])


def conditions(server: CoreServer, path: str) -> dict[str, str]:
    return {each["type"]: each["status"] for each in status(server, path)["conditions"]}


def test_nothing_that_ran_on_it_counts_as_ready(server: CoreServer) -> None:
    cluster(server, {"demo-data-0": "here", "demo-data-1": "here"})
    withdraw(server, "here")
    assert conditions(server, "/api/v1/nodes/here") == {"Ready": "Unknown"}
    assert conditions(server, "/api/v1/nodes/there") == {"Ready": "True"}
    for name in ("demo-data-0", "demo-data-1"):
        pod = status(server, f"{PODS}/{name}")
        assert conditions(server, f"{PODS}/{name}") == {"ContainersReady": "False", "Ready": "False"}
        assert pod["phase"] == "Running"
        assert [each["ready"] for each in pod["containerStatuses"]] == [False]
        assert conditions(server, f"{PILOTS}/{name}") == {"Ready": "Unknown"}
    owned = status(server, f"{SETS}/demo-data")
    assert (owned.get("readyReplicas", 0), owned.get("availableReplicas", 0)) == (0, 0)
    assert owned["replicas"] == owned["updatedReplicas"] == 2
    esc = status(server, f"{CLUSTERS}/demo")
    assert esc["readyReplicas"] == esc["nodePools"]["data"]["readyReplicas"] == 0
    assert "health" not in esc
    unknown = {"Available": "Unknown", "Degraded": "Unknown", "Progressing": "Unknown"}
    assert conditions(server, f"{CLUSTERS}/demo") == unknown
    budget = status(server, f"{BUDGETS}/demo")
    assert (budget["currentHealthy"], budget["disruptionsAllowed"]) == (0, 0)


def test_what_runs_elsewhere_goes_on_counting(server: CoreServer) -> None:
    cluster(server, {"demo-data-0": "here", "demo-data-1": "there", "demo-data-2": "there"})
    withdraw(server, "here")
    assert conditions(server, f"{PODS}/demo-data-1")["Ready"] == "True"
    assert conditions(server, f"{PILOTS}/demo-data-1")["Ready"] == "True"
    assert status(server, f"{SETS}/demo-data")["readyReplicas"] == 2
    assert status(server, f"{CLUSTERS}/demo")["nodePools"]["data"]["readyReplicas"] == 2
    budget = status(server, f"{BUDGETS}/demo")
    assert (budget["currentHealthy"], budget["disruptionsAllowed"]) == (2, 1)


def test_what_does_not_depend_on_it_is_not_written(server: CoreServer) -> None:
    cluster(server, {"demo-data-0": "there"})
    withdraw(server, "here")
    before = server.revision
    withdraw(server, "here")
    withdraw(server, "nowhere")
    assert server.revision == before
    assert conditions(server, f"{CLUSTERS}/demo")["Available"] == "True"


@pytest.mark.parametrize("everybody", [False, True])
def test_its_addresses_are_passed_by(server: CoreServer, everybody: bool) -> None:
    cluster(server, {"demo-data-0": "here", "demo-data-1": "there"})
    uids = {
        name: server.send("GET", f"{PODS}/{name}").expect(200)["metadata"]["uid"]
        for name in ("demo-data-0", "demo-data-1")
    }
    ports = [{"port": 80, "name": "http", "protocol": "TCP"}]
    spec = {"ports": ports, "publishNotReadyAddresses": everybody}
    server.send("POST", "/api/v1/namespaces/default/services", {"metadata": {"name": "demo"}, "spec": spec})
    targets = [
        (f"10.44.0.{number}", {"kind": "Pod", "namespace": "default", "name": name, "uid": uid})
        for number, (name, uid) in enumerate(uids.items(), 1)
    ]
    addresses = [{"ip": address, "targetRef": target} for address, target in targets]
    subsets = [{"addresses": addresses, "ports": ports}]
    old, new = (
        "/api/v1/namespaces/default/endpoints",
        "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
    )
    server.send("POST", old, {"metadata": {"name": "demo"}, "subsets": subsets}).expect(201)
    well = {"ready": True, "serving": True, "terminating": False}
    endpoints = [
        {"addresses": [address], "conditions": well, "targetRef": target} for address, target in targets
    ]
    metadata = {"name": "demo-1", "labels": {"kubernetes.io/service-name": "demo"}}
    body = {"metadata": metadata, "addressType": "IPv4", "endpoints": endpoints, "ports": ports}
    server.send("POST", new, body).expect(201)
    withdraw(server, "here")
    ready = [each["conditions"]["ready"] for each in server.send("GET", f"{new}/demo-1").json["endpoints"]]
    assert ready == [everybody, True]
    [subset] = server.send("GET", f"{old}/demo").json["subsets"]
    served = ["10.44.0.1", "10.44.0.2"] if everybody else ["10.44.0.2"]
    assert [each["ip"] for each in subset["addresses"]] == served
    assert len(subset.get("notReadyAddresses", ())) == 2 - len(served)


def test_bad_news_stays(server: CoreServer) -> None:
    cluster(server, {"demo-data-0": "here"})
    esc = server.send("GET", f"{CLUSTERS}/demo").expect(200)
    esc["status"]["conditions"] = [condition("Available", "False"), condition("Degraded", "True")]
    server.send("PUT", f"{CLUSTERS}/demo/status", esc).expect(200)
    withdraw(server, "here")
    assert conditions(server, f"{CLUSTERS}/demo") == {"Available": "False", "Degraded": "True"}


@pytest.mark.parametrize(
    "owner",
    [
        {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "a/b"},
        {"apiVersion": "v1", "kind": "pods/odd/log?follow=true#", "name": "x"},
        {"apiVersion": "nowhere.example/v1", "kind": "Nothing", "name": "x"},
    ],
    ids=lambda owner: str(owner["kind"]),
)
def test_an_owner_that_can_not_be_keeps_no_server_from_starting(
    server: CoreServer, owner: dict[str, Any]
) -> None:
    references = [{**owner, "uid": "u", "controller": True}]
    pod = {
        "metadata": {"name": "odd", "ownerReferences": references},
        "spec": {"containers": [{"name": "c", "image": "host/sh"}], "nodeName": "here"},
    }
    make(server, PODS, pod, {"phase": "Running", "conditions": [condition("Ready")]})
    withdraw(server, "here")
    assert conditions(server, f"{PODS}/odd") == {"Ready": "False"}


def test_owners_in_a_ring_are_left_after_one_round(server: CoreServer) -> None:
    container = {"containers": [{"name": "c", "image": "host/sh"}], "nodeName": "here"}
    made = make(
        server,
        PODS,
        {"metadata": {"name": "ring"}, "spec": container},
        {"phase": "Running", "conditions": [condition("Ready")]},
    )
    made["metadata"]["ownerReferences"] = owned_by(made)
    server.send("PUT", f"{PODS}/ring", made).expect(200)
    withdraw(server, "here")
    assert conditions(server, f"{PODS}/ring") == {"Ready": "False"}
