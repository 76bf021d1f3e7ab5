"""The containers of a pod, by the part that they play.

    for part in containers_of(pod.spec):
        part.name, part.role, part.spec

Init containers run one after the other, and to their end; a sidecar is an init container with ``restartPolicy: Always``, which
goes on running beside the main ones and stops after them.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

import msgspec

from pilothouse.api.objects import Tree


class ContainerRole(Enum):
    """What a container is for."""

    INIT = "init"
    SIDECAR = "sidecar"
    MAIN = "main"


class PodContainer(msgspec.Struct, frozen=True):
    """One container of a pod."""

    name: str
    role: ContainerRole
    spec: Tree

    def probe(self, kind: str) -> Mapping[str, Any] | None:
        """Its ``startupProbe``, ``livenessProbe`` or ``readinessProbe``. An init container has none."""
        return None if self.role is ContainerRole.INIT else self.spec.get(kind)


def not_begun(spec: Mapping[str, Any]) -> str:
    """Why a container waits that was never started and has nothing in its way, in kubelet's word."""
    return "PodInitializing" if spec.get("initContainers") else "ContainerCreating"


def containers_of(spec: Mapping[str, Any]) -> tuple[PodContainer, ...]:
    """All of them, in the order in which they are started."""
    found = []
    for each in spec.get("initContainers") or ():
        role = ContainerRole.SIDECAR if each.get("restartPolicy") == "Always" else ContainerRole.INIT
        found.append(PodContainer(each["name"], role, each))
    found += [PodContainer(each["name"], ContainerRole.MAIN, each) for each in spec.get("containers") or ()]
    return tuple(found)
