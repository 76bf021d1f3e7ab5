"""Manifests of small programs."""

from __future__ import annotations

import json
from typing import Any


def stateful_set(name: str = "web", replicas: int = 1, script: str = "", grace: int = 5, **spec: Any) -> str:
    """A set of shells, which end when they are told to."""
    command = script or "trap 'exit 0' TERM; echo began; while :; do sleep 0.1; done"
    container = {"name": "sh", "image": "host/sh", "command": ["sh", "-c", command], **spec}
    tree = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "serviceName": name,
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"terminationGracePeriodSeconds": grace, "containers": [container]},
            },
        },
    }
    return json.dumps(tree)
