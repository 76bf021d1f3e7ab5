"""Where the containers of this node's pods are: for logs, exec and attach.

    found = whereabouts.find("default", "web-0", "nginx")
    found.folder, found.log                     # of the running instance, or of the last
    found.container                             # None unless it runs
    whereabouts.find("default", "web-0", "nginx", previous=True)

Workers keep it up to date; whoever serves people reads it. A pod of the same name that came later is another one: the latest
is found. What is not here raises ``ContainerNotFound`` with a sentence for the person who asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from pilothouse.api.objects import Object
from pilothouse.node.interfaces import RunningContainer
from pilothouse.node.lifecycle.container_roles import not_begun

LOG = "log"
"""The name of a container's log in its folder; rotated ones have a number after it."""


class ContainerNotFound(Exception):
    """There is no such pod, container or instance on this node."""


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
    """What is known of a container: the folder of its latest instance, and of the one before."""

    folder: Path | None = None
    container: RunningContainer | None = None
    previous: Path | None = None
    waiting: str = ""
    """Why there is no instance yet."""


class ContainerIndex:
    """The pods of this node."""

    def __init__(self) -> None:
        self._pods: dict[str, tuple[Object, dict[str, InstanceSource]]] = {}

    def pods(self) -> Sequence[Object]:
        """All that this node has something of."""
        return [pod for pod, _ in self._pods.values()]

    def running(self) -> Iterator[tuple[Object, str, RunningContainer]]:
        """Every container that runs: its pod, its name, itself."""
        for pod, containers in self._pods.values():
            for name, instances in containers.items():
                if instances.container is not None:
                    yield pod, name, instances.container

    def find(self, namespace: str, pod: str, container: str, *, previous: bool = False) -> ContainerLocation:
        """Raises ``ContainerNotFound``."""
        there = [known for known in self._pods.values() if known[0].key == (namespace, pod)]
        if not there:
            raise ContainerNotFound(f'pod "{pod}" in namespace "{namespace}" is not on this node')
        obj, containers = max(there, key=lambda known: known[0].created)
        instances = containers.get(container)
        if instances is None:
            raise ContainerNotFound(
                f'container "{container}" is not one of pod "{pod}"; it has: {", ".join(containers)}'
            )
        if previous:
            if instances.previous is None:
                raise ContainerNotFound(
                    f'previous terminated container "{container}" in pod "{pod}" not found'
                )
            return ContainerLocation(obj, instances.previous, None)
        if instances.folder is None:
            why = instances.waiting or not_begun(obj.spec)
            raise ContainerNotFound(f'container "{container}" in pod "{pod}" is waiting to start: {why}')
        return ContainerLocation(obj, instances.folder, instances.container)

    def put(self, pod: Object, container: str, instances: InstanceSource) -> None:
        """For the pod's worker: what there is of one container."""
        _, containers = self._pods.get(pod.uid, (pod, {}))
        self._pods[pod.uid] = (pod, {**containers, container: instances})

    def saw(self, pod: Object) -> None:
        """For the pod's worker: a newer version of it has come."""
        if pod.uid in self._pods:
            self._pods[pod.uid] = (pod, self._pods[pod.uid][1])

    def drop(self, pod_uid: str) -> None:
        """For the pod's worker: nothing is left of it."""
        self._pods.pop(pod_uid, None)
