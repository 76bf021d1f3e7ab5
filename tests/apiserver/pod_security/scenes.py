"""Pods, namespaces and a server to try them on.

plane = Plane(server)
plane.namespace("t", enforce="baseline")
plane.create("t", pod("a", hostNetwork=True)).message
"""

from __future__ import annotations

from typing import Any

from tests.kit.core import Answered, CoreServer

Json = dict[str, Any]
PREFIX = "pod-security.kubernetes.io/"
IMAGE = "registry.example.com/a:1"
RESTRICTED: Json = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
"""A container's security context that keeps to every level."""


def pod(name: str, context: Json | None = None, **spec: Any) -> Json:
    """A pod of one container, with a security context of its own."""
    container = {"name": "a", "image": IMAGE, **({"securityContext": context} if context else {})}
    return {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}


def labels(**modes: str) -> dict[str, str]:
    """``enforce_version`` is the label ``…/enforce-version``."""
    return {f"{PREFIX}{mode.replace('_', '-')}": level for mode, level in modes.items()}


class Plane:
    """A server, and short ways to ask it."""

    def __init__(self, server: CoreServer) -> None:
        self.server = server

    def namespace(self, name: str, **modes: str) -> Answered:
        metadata = {"name": name, "labels": labels(**modes)}
        answer = self.server.send("POST", "/api/v1/namespaces", {"metadata": metadata})
        if answer.status == 201:
            self.account(name)
        return answer

    def account(self, namespace: str) -> None:
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        self.server.send("POST", path, {"metadata": {"name": "default"}}).expect(201, 409)

    def label(self, name: str, query: str = "", **modes: str) -> Answered:
        return self.merge(
            f"/api/v1/namespaces/{name}", {"metadata": {"labels": labels(**modes)}}, query=query
        )

    def create(self, namespace: str, obj: Json, **how: Any) -> Answered:
        return self.server.send("POST", f"/api/v1/namespaces/{namespace}/pods", obj, **how)

    def merge(self, path: str, patch: Json, **how: Any) -> Answered:
        return self.server.send("PATCH", path, patch, type="application/merge-patch+json", **how)

    def stateful_set(self, namespace: str, name: str, of: Json, **how: Any) -> Answered:
        """A set of pods like this one."""
        template = {"metadata": {"labels": {"app": "a"}}, "spec": of["spec"]}
        spec = {"serviceName": "a", "selector": {"matchLabels": {"app": "a"}}, "template": template}
        path = f"/apis/apps/v1/namespaces/{namespace}/statefulsets"
        return self.server.send("POST", path, {"metadata": {"name": name}, "spec": spec}, **how)
