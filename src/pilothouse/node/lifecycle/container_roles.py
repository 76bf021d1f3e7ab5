"""The containers of a pod and their roles.

    for container in containers_of(pod.spec):
        container.name, container.role, container.spec

A sidecar is an init container with ``restartPolicy: Always``: it keeps running beside the main containers,
and stops after them.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

import msgspec

from pilothouse.api.objects import Tree


class ContainerRole(Enum):
    INIT = "init"
    SIDECAR = "sidecar"
    MAIN = "main"


class PodContainer(msgspec.Struct, frozen=True):
    name: str
    role: ContainerRole
    spec: Tree

    def probe(self, kind: str) -> Mapping[str, Any] | None:
        """Its ``startupProbe``, ``livenessProbe`` or ``readinessProbe``. An init container has none."""
        return None if self.role is ContainerRole.INIT else self.spec.get(kind)


def waiting_reason(spec: Mapping[str, Any]) -> str:
    """Kubelet's waiting reason of a container that has not started yet and that nothing blocks."""
    return "PodInitializing" if spec.get("initContainers") else "ContainerCreating"


def containers_of(spec: Mapping[str, Any]) -> tuple[PodContainer, ...]:
    """All containers of a pod, in start order."""
    found = []
    for each in spec.get("initContainers") or ():
        role = ContainerRole.SIDECAR if each.get("restartPolicy") == "Always" else ContainerRole.INIT
        found.append(PodContainer(each["name"], role, each))
    found += [PodContainer(each["name"], ContainerRole.MAIN, each) for each in spec.get("containers") or ()]
    return tuple(found)
