"""The containers of this node by namespace, pod and name, for logs, exec and attach.

    found = container_index.find("default", "web-0", "nginx")
    found.folder, found.log                     # of the running instance, or of the last one
    found.container                             # None unless it runs
    container_index.find("default", "web-0", "nginx", previous=True)

The workers write it, the node's server reads it. Of several pods with one name the latest is found.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from pilothouse.api.objects import Object
from pilothouse.node.interfaces import RunningContainer
from pilothouse.node.lifecycle.container_roles import waiting_reason

LOG = "log"
"""The name of a container's log in its folder; rotated ones have a number after it."""


class ContainerNotFound(Exception):
    """No such pod, container or instance on this node. The message is for the user who asked."""


class ContainerLocation(msgspec.Struct, frozen=True):
    """One instance of a container."""

    pod: Object
    folder: Path
    container: RunningContainer | None
    """None unless it runs."""

    @property
    def log(self) -> Path:
        return self.folder / LOG


class InstanceSource(msgspec.Struct, frozen=True):
    """The directories of a container's latest instance and of the one before."""

    folder: Path | None = None
    container: RunningContainer | None = None
    previous: Path | None = None
    waiting: str = ""
    """Why there is no instance yet."""


class ContainerIndex:
    def __init__(self) -> None:
        self._pods: dict[str, tuple[Object, dict[str, InstanceSource]]] = {}

    def pods(self) -> Sequence[Object]:
        """The pods that are not cleaned up yet."""
        return [pod for pod, _ in self._pods.values()]

    def running(self) -> Iterator[tuple[Object, str, RunningContainer]]:
        """Every running container, with its pod and its name."""
        for pod, containers in self._pods.values():
            for name, instances in containers.items():
                if instances.container is not None:
                    yield pod, name, instances.container

    def instances(self, pod_uid: str) -> list[tuple[str, Path, RunningContainer | None]]:
        """The directories of a pod's latest instances, the earlier first, with the names of containers."""
        found: list[tuple[str, Path, RunningContainer | None]] = []
        _, containers = self._pods.get(pod_uid, (None, {}))
        for name, source in containers.items():
            if source.previous is not None:
                found.append((name, source.previous, None))
            if source.folder is not None:
                found.append((name, source.folder, source.container))
        return found

    def find(self, namespace: str, pod: str, container: str, *, previous: bool = False) -> ContainerLocation:
        """Raises ``ContainerNotFound``."""
        there = [known for known in self._pods.values() if known[0].key == (namespace, pod)]
        if not there:
            raise ContainerNotFound(f'pod "{pod}" in namespace "{namespace}" is not on this node')
        obj, containers = max(there, key=lambda known: known[0].created)
        instances = containers.get(container)
        if instances is None:
            raise ContainerNotFound(
                f'container "{container}" not found in pod "{pod}"; it has: {", ".join(containers)}'
            )
        if previous:
            if instances.previous is None:
                raise ContainerNotFound(
                    f'previous terminated container "{container}" in pod "{pod}" not found'
                )
            return ContainerLocation(obj, instances.previous, None)
        if instances.folder is None:
            why = instances.waiting or waiting_reason(obj.spec)
            raise ContainerNotFound(f'container "{container}" in pod "{pod}" is waiting to start: {why}')
        return ContainerLocation(obj, instances.folder, instances.container)

    def put(self, pod: Object, container: str, instances: InstanceSource) -> None:
        _, containers = self._pods.get(pod.uid, (pod, {}))
        self._pods[pod.uid] = (pod, {**containers, container: instances})

    def update(self, pod: Object) -> None:
        """Replace the object of a known pod."""
        if pod.uid in self._pods:
            self._pods[pod.uid] = (pod, self._pods[pod.uid][1])

    def drop(self, pod_uid: str) -> None:
        self._pods.pop(pod_uid, None)
