"""An address or a node port that a service asks for is given, or the refusal says why not."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kit.core import CoreServer

from pilothouse.apiserver.registry.service_addresses import MOST_NODE_PORTS
from pilothouse.apiserver.registry.service_ranges import NODE_PORTS

SERVICES = "/api/v1/namespaces/default/services"


def service(name: str, port: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80, **(port or {})}], **spec}}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"clusterIP": "127.96.0.0/24"}, "spec.clusterIPs[0]"),
        ({"clusterIP": "10.0.0.1"}, "spec.clusterIPs"),
        ({"clusterIP": "::ffff:127.0.0.1"}, "spec.clusterIPs"),
        ({"clusterIP": "::ffff:127.96.0.9"}, "spec.clusterIPs"),
        ({"clusterIP": "::1"}, "spec.clusterIPs"),
        ({"clusterIP": "fe80::1%lo"}, "spec.clusterIPs"),
        ({"clusterIP": "127.96.0.0"}, "spec.clusterIPs"),
        ({"clusterIP": "127.96.255.255"}, "spec.clusterIPs"),
        ({"clusterIP": "127.96.0.7", "clusterIPs": ["127.96.0.8"]}, "spec.clusterIPs"),
        ({"clusterIP": "127.96.0.7", "clusterIPs": ["127.96.0.7", "127.96.0.8"]}, "spec.clusterIPs"),
        ({"type": "NodePort", "port": {"nodePort": 80}}, "spec.ports[0].nodePort"),
        ({"type": "NodePort", "port": {"nodePort": 2**20}}, "spec.ports[0].nodePort"),
    ],
    ids=str,
)
def test_refusals_name_the_field(server: CoreServer, spec: dict[str, Any], field: str) -> None:
    before = server.revision
    status = server.send("POST", SERVICES, service("a", **spec)).expect(422)
    assert field in [cause["field"] for cause in status["details"]["causes"]]
    assert server.revision == before


def test_a_node_port_has_one_service(server: CoreServer) -> None:
    first = service("a", {"nodePort": 30080}, type="NodePort")
    server.send("POST", SERVICES, first).expect(201)
    status = server.send("POST", SERVICES, service("b", {"nodePort": 30080}, type="NodePort")).expect(422)
    assert "already allocated" in status["message"]
    again = {**first, "metadata": {"name": "a", "labels": {"x": "y"}}}
    server.send("PUT", f"{SERVICES}/a", again).expect(200)


def many_ports(name: str, count: int) -> dict[str, Any]:
    ports = [{"name": f"p{number}", "port": number + 1} for number in range(count)]
    return {"metadata": {"name": name}, "spec": {"type": "NodePort", "ports": ports}}


def test_no_namespace_takes_the_node_ports_of_all(server: CoreServer) -> None:
    refused = server.send("POST", SERVICES, many_ports("all", len(NODE_PORTS))).expect(422)
    assert [cause["field"] for cause in refused["details"]["causes"]] == ["spec.ports"]
    server.send("POST", SERVICES, many_ports("share", MOST_NODE_PORTS - 1)).expect(201)
    server.send("POST", SERVICES, many_ports("last", 1)).expect(201)
    asked = service("asked", {"nodePort": 31000}, type="NodePort")
    for more in (many_ports("more", 1), asked):
        refused = server.send("POST", SERVICES, more).expect(422)
        assert f"one may have {MOST_NODE_PORTS} of the cluster's 2768" in refused["message"]
    # What it has can be changed, and other namespaces have theirs.
    label = {"metadata": {"labels": {"a": "b"}}}
    server.send("PATCH", f"{SERVICES}/share", label, type="application/merge-patch+json").expect(200)
    server.send("POST", "/api/v1/namespaces", {"metadata": {"name": "other"}}).expect(201)
    server.send("POST", "/api/v1/namespaces/other/services", many_ports("more", 1)).expect(201)


def test_when_there_is_no_node_port_left_it_is_said(server: CoreServer) -> None:
    for number in range(4):
        namespace = f"n{number}"
        server.send("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}}).expect(201)
        services = f"/api/v1/namespaces/{namespace}/services"
        server.send("POST", services, many_ports("share", MOST_NODE_PORTS)).expect(201)
    refused = server.send("POST", SERVICES, many_ports("more", 1)).expect(422)
    assert "failed to allocate a nodePort: all of 30000-32767 belong to services" in refused["message"]
    assert server.send("GET", f"{SERVICES}/more").status == 404
