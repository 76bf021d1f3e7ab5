"""An address or a node port that a service asks for is given, or the refusal says why not."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kit.core import CoreServer

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
