"""The nodes, each with the pods that are bound or nominated to it.

    found = node_infos(world, pod)        # in the order of the nodes' names
    found[0].free()["cpu"]

A pod counts on its node until it has ended. One whose volumes are being provisioned on a node counts there
too: its place is reserved. The pod that is being scheduled never counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pilothouse.api.kind_names import Node, PersistentVolumeClaim, Pod
from pilothouse.api.objects import Object
from pilothouse.api.pod_health import WAITING_FOR_VOLUMES, ended
from pilothouse.controllers.scheduling.resource_requests import Amounts, allocatable, requested
from pilothouse.controllers.storage.volume_matching import SELECTED_NODE
from pilothouse.runtime.snapshot import Snapshot

AWAITING: Final = WAITING_FOR_VOLUMES
"""The reason in the condition of a pod with a reserved place."""


@dataclass(frozen=True)
class NodeInfo:
    node: Object
    pods: tuple[Object, ...]
    asked: tuple[Amounts, ...]
    """The requests of its pods."""

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def labels(self) -> Mapping[str, str]:
        return self.node.labels

    def free(self) -> Amounts:
        """What is left; negative if the node is overcommitted."""
        return {
            name: amount - sum(one.get(name, 0) for one in self.asked)
            for name, amount in allocatable(self.node).items()
        }


def node_infos(world: Snapshot, placed: Object) -> list[NodeInfo]:
    """Every node, with its pods except this one."""
    pods: dict[str, list[Object]] = {}
    for pod in world.all(Pod):
        if ended(pod) or pod.key == placed.key:
            continue
        where = pod.spec.get("nodeName") or kept_for(pod, world)
        if where:
            pods.setdefault(where, []).append(pod)
    return [
        NodeInfo(node, tuple(here), tuple(map(requested, here)))
        for node in world.all(Node)
        for here in (pods.get(node.name, []),)
    ]


def kept_for(pod: Object, world: Snapshot) -> str:
    """The node with a reserved place for a pod whose volumes are being provisioned; empty if none."""
    scheduled = pod.condition("PodScheduled") or {}
    if scheduled.get("reason") != AWAITING or pod.deleting:
        return ""
    for name in claims_of(pod):
        claim = world.find(PersistentVolumeClaim, pod.namespace, name)
        if claim is not None and (selected := claim.annotations.get(SELECTED_NODE)):
            return selected
    return ""


def claims_of(pod: Object) -> list[str]:
    """The names of the claims that a pod uses."""
    found = []
    for volume in pod.spec.get("volumes") or ():
        if source := volume.get("persistentVolumeClaim"):
            found.append(str(source.get("claimName", "")))
        elif volume.get("ephemeral"):
            found.append(f"{pod.name}-{volume.get('name', '')}")
    return found
