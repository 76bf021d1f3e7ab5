"""Lists the pods that run on a node, from its data directory. It only reads, so it is safe beside an agent.

running_pods(Path("/var/lib/pilothouse/node"))        # [RunningPod("shop/db-0", grace=1800.0)]
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

from pilothouse.node.lifecycle.termination import grace_of
from pilothouse.node.pods.pod_directories import PodDirectory, list_pod_directories
from pilothouse.supervise import container_records
from pilothouse.supervise.process_identity import ProcessGone, ProcessHandle


@dataclass(frozen=True)
class RunningPod:
    name: str
    """``namespace/name``."""
    grace: float
    """Its grace period in seconds."""


def running_pods(node: Path) -> list[RunningPod]:
    found = []
    for folder in list_pod_directories(node / "pods"):
        # A pod may be removed while it is read.
        with contextlib.suppress(FileNotFoundError):
            pod = folder.read_pod()
            if pod is not None and _is_running(folder):
                found.append(RunningPod("/".join(pod.key), grace_of(pod)))
    return sorted(found, key=lambda each: each.name)


def _is_running(folder: PodDirectory) -> bool:
    containers = (folder.container(name) for name in folder.containers())
    return any(_lives(each.attempt(number)) for each in containers for number in each.attempts()[-1:])


def _lives(attempt: Path) -> bool:
    state = container_records.read_state(attempt)
    if state is None or container_records.read_exit(attempt) is not None:
        return False
    try:
        with contextlib.closing(ProcessHandle.open(state.program)) as handle:
            return not handle.ended
    except ProcessGone:
        return False
