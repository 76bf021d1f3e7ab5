"""What a cluster needs besides its nodes: a service account, a role, services, a disruption budget.

    supporting_objects(cluster, pools, spare=1)

On our own API server pilots need no role: their scope follows from their Pilot. The role is for Kubernetes.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from pilothouse.api.kind_names import (
    KindName,
    PodDisruptionBudget,
    Role,
    RoleBinding,
    Service,
    ServiceAccount,
)
from pilothouse.api.navigator.clusters import GROUP
from pilothouse.api.navigator.labels import ROLE
from pilothouse.api.objects import Object, Tree
from pilothouse.controllers.elasticsearch.desired.pools import (
    Pool,
    base_name,
    cluster_labels,
    discovery_name,
    metadata,
)

_HTTP: Final = {"name": "http", "port": 9200, "protocol": "TCP", "targetPort": 9200}
_TRANSPORT: Final = {"name": "transport", "port": 9300, "protocol": "TCP", "targetPort": 9300}


def supporting_objects(cluster: Object, pools: Collection[Pool], *, spare: int) -> tuple[Tree, ...]:
    """All of them, in the order of creation. ``spare`` is how many nodes may be evicted at this moment."""
    name = base_name(cluster)
    subject = {"kind": "ServiceAccount", "name": name, "namespace": cluster.namespace}
    return (
        _object(cluster, ServiceAccount, name),
        _object(cluster, Service, discovery_name(cluster), spec=_discovery(cluster)),
        _object(cluster, Service, name, spec=_clients(cluster, pools)),
        _object(cluster, Role, name, rules=_rules()),
        _object(
            cluster,
            RoleBinding,
            name,
            roleRef={"apiGroup": Role.group, "kind": Role.kind, "name": name},
            subjects=[subject],
        ),
        _object(
            cluster,
            PodDisruptionBudget,
            name,
            spec={
                "maxUnavailable": spare,
                "selector": {"matchLabels": cluster_labels(cluster)},
                # Not AlwaysAllow: a database may have joined the others before its pod is ready.
                "unhealthyPodEvictionPolicy": "IfHealthyBudget",
            },
        ),
    )


def serving_role(pools: Collection[Pool]) -> str:
    """The role of the nodes that clients reach: ``ingest``, else ``data``; empty for all nodes."""
    roles = (role for role in ("ingest", "data") if any(role in pool.roles for pool in pools))
    return next(roles, "")


def _object(cluster: Object, noun: KindName, name: str, **parts: object) -> Tree:
    return {
        "apiVersion": noun.api_version,
        "kind": noun.kind,
        "metadata": metadata(cluster, name, cluster_labels(cluster)),
        **parts,
    }


def _discovery(cluster: Object) -> Tree:
    """Nodes have to discover each other before they are ready, each by its own address."""
    return {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "ports": [_TRANSPORT],
        "selector": cluster_labels(cluster),
    }


def _clients(cluster: Object, pools: Collection[Pool]) -> Tree:
    role = serving_role(pools)
    chosen = {f"{ROLE}{role}": "true"} if role else {}
    return {"ports": [_HTTP, _TRANSPORT], "selector": {**cluster_labels(cluster), **chosen}}


def _rules() -> list[Tree]:
    looks, writes = ["get", "list", "watch"], ["patch", "update"]
    return [
        {"apiGroups": [GROUP], "resources": ["pilots", "elasticsearchclusters"], "verbs": looks},
        {"apiGroups": [GROUP], "resources": ["pilots/status"], "verbs": writes},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create", *looks]},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": writes},
        {"apiGroups": [""], "resources": ["pods"], "verbs": looks},
        {"apiGroups": ["", "events.k8s.io"], "resources": ["events"], "verbs": ["create", *writes]},
    ]
