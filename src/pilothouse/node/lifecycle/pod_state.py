"""The state of a pod and its containers at one moment: the input of a decision.

    PodState(pod, {"db": ContainerState(running=RunningInstance(attempt=2, since=1000.0))}, prepared=True)

The workers read it from directories, processes and probes. It is immutable.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from pilothouse.api.objects import Object
from pilothouse.node.lifecycle.container_instances import EndedInstance, RunningInstance
from pilothouse.node.lifecycle.probe_results import PASSED, UNKNOWN, ProbeScore
from pilothouse.node.lifecycle.restart_policy import RestartBackoff


class StartBlocker(msgspec.Struct, frozen=True):
    """Why a pod or a container can't start yet, and when to retry."""

    reason: str
    message: str
    again: float
    failures: int = 1


class ContainerState(msgspec.Struct, frozen=True):
    running: RunningInstance | None = None
    ended: EndedInstance | None = None
    """The last instance that ended."""
    earlier: EndedInstance | None = None
    """The one before that."""
    starting: bool = False
    stopping: bool = False
    blocker: StartBlocker | None = None
    backoff: RestartBackoff | None = None
    startup: ProbeScore = UNKNOWN
    liveness: ProbeScore = PASSED
    readiness: ProbeScore = UNKNOWN
    has_startup: bool = False
    has_readiness: bool = False
    failed_hook: str = ""
    """Why its postStart hook failed."""
    is_image_replaced: bool = False
    """Whether its image was imported again while this instance, with the earlier files, was never ready."""

    @property
    def alive(self) -> bool:
        return self.running is not None or self.starting

    @property
    def fresh(self) -> bool:
        """Whether no instance has ever started."""
        return self.running is None and self.ended is None

    @property
    def started(self) -> bool:
        """Whether it runs, its postStart hook is done and its startup probe has passed."""
        if self.running is None or not self.running.post_start_done:
            return False
        return not self.has_startup or self.startup.verdict is True

    @property
    def ready(self) -> bool:
        return self.started and (not self.has_readiness or self.readiness.verdict is True)


class PodEnding(msgspec.Struct, frozen=True):
    """Why a pod terminates, and by when. Stored in the pod's directory: termination is never revoked."""

    cause: str
    """``Deleted``, or the ``status.reason`` of a failed pod: ``DeadlineExceeded``, ``Evicted``."""
    message: str
    since: float
    grace: float
    """Seconds, from ``since``."""
    allowed: float | None = None
    """The grace period of the deletion that ``grace`` accounts for."""

    @property
    def fails(self) -> bool:
        """Whether the pod fails, whatever its containers' exit codes are."""
        return self.cause != "Deleted"


class PodState(msgspec.Struct, frozen=True):
    pod: Object
    containers: Mapping[str, ContainerState]
    prepared: bool = False
    """Whether its volumes and its address are ready."""
    blocker: StartBlocker | None = None
    """Why they are not."""
    ending: PodEnding | None = None
    gone: bool = False
    """Whether the pod is gone from the API."""
    start_time: float = 0.0
    """``status.startTime``."""

    def container(self, name: str) -> ContainerState:
        return self.containers.get(name) or ContainerState()
