"""Filters: why a pod can't run on a node, and what would help.

    list(obstacles(pod, place, neighbours, spread, volumes))      # empty if the pod can run there
    remedy(TOO_MANY, [node])                                      # "add a node, or delete pods"

The messages are those of Kubernetes. The first kind of obstacle is reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from pilothouse.api.objects import Object
from pilothouse.api.tolerations import CONDITION_TAINTS, UNSCHEDULABLE, forbidding, tolerates
from pilothouse.controllers.scheduling import pod_affinity, topology_spread, volume_binding
from pilothouse.controllers.scheduling.node_affinity import admits
from pilothouse.controllers.scheduling.node_info import NodeInfo
from pilothouse.controllers.scheduling.resource_requests import PODS, collide, host_ports, requested

CORDONED: Final = "node(s) were unschedulable"
TAINTED: Final = "node(s) had untolerated taint "
UNSELECTED: Final = "node(s) didn't match Pod's node affinity/selector"
NO_PORTS: Final = "node(s) didn't have free ports for the requested pod ports"
TOO_MANY: Final = "Too many pods"
SCARCE: Final = "Insufficient "
_MOST_NAMED: Final = 3

_REMEDIES: Final = {
    CORDONED: "kubectl uncordon a node",
    TAINTED: "add a toleration to the pod, or remove the taint",
    UNSELECTED: "label a node as the pod's nodeSelector and affinity ask, or relax these",
    NO_PORTS: "free the host port, or add a node",
    TOO_MANY: "add a node, or delete pods",
    SCARCE: "add a node, delete pods, or lower the pod's resource requests",
    pod_affinity.UNLIKE: "start the pods that it wants to be near, or relax its podAffinity",
    pod_affinity.APART: "add a node in another topology domain, or relax its podAntiAffinity",
    pod_affinity.UNWANTED: "add a node in another topology domain: running pods have an anti-affinity to it",
    topology_spread.UNLABELLED: "label the nodes with the topologyKey of its spread constraints",
    topology_spread.UNEVEN: "add a node in the emptiest topology domain, or raise maxSkew",
    volume_binding.CONFLICT: "bring back a node that its volumes can be reached from",
    volume_binding.NONE_FOUND: "create a volume that fits its claim on a node that fits the pod",
}


def obstacles(
    pod: Object,
    place: NodeInfo,
    near: pod_affinity.PodAffinityState,
    spread: topology_spread.TopologySpread,
    storage: volume_binding.PodVolumeBinding,
) -> Iterator[str]:
    """Why the pod can't run there. Raises ValueError for an unreadable quantity."""
    node = place.node
    if node.spec.get("unschedulable") and not tolerates(pod, UNSCHEDULABLE):
        yield CORDONED
    elif taint := next(forbidding(pod, node), None):
        yield f"{TAINTED}{{{taint.get('key', '')}: {taint.get('value') or ''}}}"
    elif not admits(pod, node):
        yield UNSELECTED
    elif (wanted := host_ports(pod)) and any(collide(wanted, host_ports(other)) for other in place.pods):
        yield NO_PORTS
    elif scarce := list(_scarce(pod, place)):
        yield from scarce
    else:
        found = list(storage.obstacles(place)) or list(spread.obstacles(place))
        yield from found or near.obstacles(place)


def remedy(obstacle: str, nodes: Sequence[Object]) -> str:
    """What would help, if the obstacle is in the way on these nodes."""
    if obstacle in _REMEDIES:
        return _REMEDIES[obstacle]
    if condition := CONDITION_TAINTS.get(_taint_key(obstacle)):
        named = [_node_remedy(node, condition) for node in nodes[:_MOST_NAMED]]
        return "; ".join([*named, *(["and so do others"] if len(nodes) > _MOST_NAMED else [])])
    return next(
        advice
        for start, advice in _REMEDIES.items()
        if start in (TAINTED, SCARCE) and obstacle.startswith(start)
    )


def _taint_key(obstacle: str) -> str:
    """The key of the taint that is in the way; empty if none is."""
    if not obstacle.startswith(TAINTED):
        return ""
    return obstacle.removeprefix(TAINTED).removeprefix("{").partition(":")[0]


def _node_remedy(node: Object, kind: str) -> str:
    """What has to change on a node whose taint follows from this condition, in the words of the condition."""
    message = str((node.condition(kind) or {}).get("message") or "")
    change = "become ready" if kind == "Ready" else f"be rid of its {kind}"
    return f"node {node.name} has to {change}{message and f': {message}'}"


def _scarce(pod: Object, place: NodeInfo) -> Iterator[str]:
    free = place.free()
    for name, amount in sorted(requested(pod).items()):
        if amount and amount > free.get(name, 0):
            yield TOO_MANY if name == PODS else f"{SCARCE}{name}"
