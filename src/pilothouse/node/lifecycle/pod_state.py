"""What is known of a pod and its containers at one moment: all that a decision is made of.

    PodState(pod, {"db": ContainerState(running=RunningInstance(attempt=2, since=1000.0))}, prepared=True)

Workers gather it from folders, processes and probes; nothing in here can change.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from pilothouse.api.objects import Object
from pilothouse.node.lifecycle.container_instances import EndedInstance, RunningInstance
from pilothouse.node.lifecycle.probe_results import PASSED, UNKNOWN, ProbeScore
from pilothouse.node.lifecycle.restart_policy import RestartBackoff


class StartBlocker(msgspec.Struct, frozen=True):
    """What keeps something from beginning, and when to try again."""

    reason: str
    message: str
    again: float
    failures: int = 1


class ContainerState(msgspec.Struct, frozen=True):
    """What is known of one container."""

    running: RunningInstance | None = None
    ended: EndedInstance | None = None
    """The last instance that ended."""
    earlier: EndedInstance | None = None
    """The one before that."""
    starting: bool = False
    stopping: bool = False
    hurdle: StartBlocker | None = None
    pause: RestartBackoff | None = None
    startup: ProbeScore = UNKNOWN
    liveness: ProbeScore = PASSED
    readiness: ProbeScore = UNKNOWN
    has_startup: bool = False
    has_readiness: bool = False
    failed_hook: str = ""
    """Why its postStart hook failed."""
    is_image_replaced: bool = False
    """Its image was imported again, and this instance, which has the old files, was never ready."""

    @property
    def alive(self) -> bool:
        return self.running is not None or self.starting

    @property
    def fresh(self) -> bool:
        """True if no instance of it ever began."""
        return self.running is None and self.ended is None

    @property
    def started(self) -> bool:
        """Whether it runs and has come up: its hook is done and its startup probe has passed."""
        if self.running is None or not self.running.hooked:
            return False
        return not self.has_startup or self.startup.verdict is True

    @property
    def ready(self) -> bool:
        return self.started and (not self.has_readiness or self.readiness.verdict is True)


class PodEnding(msgspec.Struct, frozen=True):
    """Why a pod has to end, and by when. Kept on disk: once it is decided it stays so."""

    cause: str
    """``Deleted``, or the reason that a failed pod shows: ``DeadlineExceeded``, ``Evicted``."""
    message: str
    since: float
    grace: float
    """Seconds, from ``since``."""
    allowed: float | None = None
    """The grace of the deletion that is taken into account."""

    @property
    def fails(self) -> bool:
        """Whether the pod has failed, whatever its containers say."""
        return self.cause != "Deleted"


class PodState(msgspec.Struct, frozen=True):
    """What is known of a pod."""

    pod: Object
    containers: Mapping[str, ContainerState]
    prepared: bool = False
    """Whether its volumes and its address are there."""
    hurdle: StartBlocker | None = None
    """What keeps them from being there."""
    ending: PodEnding | None = None
    gone: bool = False
    """Whether the API knows nothing of the pod any more."""
    begun: float = 0.0
    """When this node took the pod on."""

    def seen(self, name: str) -> ContainerState:
        return self.containers.get(name) or ContainerState()
