"""Services, slices, pods and nodes, as few words as they can be said in."""

from __future__ import annotations

from typing import Any

from pilothouse.api.objects import Object


def service(name: str, *, namespace: str = "shop", address: str = "127.96.0.7", **spec: Any) -> Object:
    ports = spec.pop("ports", [{"name": "sql", "port": 5432, "protocol": "TCP"}])
    return Object.of(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"clusterIP": address, "type": "ClusterIP", "ports": ports, **spec},
        }
    )


def endpoint(address: str, **more: Any) -> dict[str, Any]:
    conditions = {key: more.pop(key) for key in ("ready", "serving", "terminating") if key in more}
    return {"addresses": [address], "conditions": {"ready": True, **conditions}, **more}


def slice_of(
    service: str, *endpoints: dict[str, Any], namespace: str = "shop", number: int = 0, **more: Any
) -> Object:
    return Object.of(
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": f"{service}-{number}",
                "namespace": namespace,
                "labels": {"kubernetes.io/service-name": service},
            },
            "addressType": "IPv4",
            "ports": [{"name": "sql", "port": 5433, "protocol": "TCP"}],
            "endpoints": list(endpoints),
            **more,
        }
    )


def pod(name: str, *, namespace: str = "shop", ports: Any = (), **spec: Any) -> Object:
    return Object.of(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}"},
            "spec": {"containers": [{"name": "main", "ports": list(ports)}], **spec},
        }
    )


def node(name: str, address: str, *ranges: str, created: str = "2026-01-01T00:00:00Z") -> Object:
    return Object.of(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "creationTimestamp": created},
            "spec": {"podCIDR": ranges[0], "podCIDRs": list(ranges)} if ranges else {},
            "status": {"addresses": [{"type": "InternalIP", "address": address}] if address else []},
        }
    )
