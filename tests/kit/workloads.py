"""Workloads as users write them, with the defaults that the server would fill in.

web = stateful_set("web", replicas=3, claims=["data"])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pilothouse.api.objects import Tree


def pod_template(image: str = "app:1") -> Tree:
    return {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "app", "image": image}], "restartPolicy": "Always"},
    }


def stateful_set(
    name: str = "web",
    *,
    image: str = "app:1",
    claims: Sequence[str] = (),
    namespace: str = "default",
    **spec: Any,
) -> Tree:
    """A StatefulSet, ordered and with rolling updates unless the spec says otherwise."""
    templates = [
        {
            "metadata": {"name": claim},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        }
        for claim in claims
    ]
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": 3,
            "serviceName": name,
            "selector": {"matchLabels": {"app": "web"}},
            "template": pod_template(image),
            "podManagementPolicy": "OrderedReady",
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
            "revisionHistoryLimit": 10,
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
            **({"volumeClaimTemplates": templates} if templates else {}),
            **spec,
        },
        "status": {"replicas": 0, "availableReplicas": 0},
    }


def rolling(**fields: Any) -> Tree:
    """The update strategy of that name."""
    return {"type": "RollingUpdate", "rollingUpdate": {"partition": 0, **fields}}


def disruption_budget(name: str = "web", *, namespace: str = "default", **spec: Any) -> Tree:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec},
        "status": {"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0},
    }
