"""Decides what to do for a pod, and why its containers wait.

    decision = decide(pod_state, now)
    decision.actions      # (StartContainer("db"), StopContainer("proxy", ...)): executed concurrently
    decision.waiting      # {"db": ContainerWaiting("CrashLoopBackOff", "back-off 40s restarting ...")}
    decision.wake         # when to decide again, if nothing happens before
    decision.finished     # nothing runs and nothing will start

In a pod that terminates, or whose main containers have all ended for good, containers only stop. Otherwise
init containers start in order, each when those before it are done (a sidecar: when it has started), then the
main containers. Once a main container has run, init containers don't run again.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from pilothouse.api.objects import Object
from pilothouse.node.lifecycle.container_instances import EndedInstance
from pilothouse.node.lifecycle.container_roles import (
    ContainerRole,
    PodContainer,
    containers_of,
    waiting_reason,
)
from pilothouse.node.lifecycle.pod_state import ContainerState, PodEnding, PodState, StartBlocker
from pilothouse.node.lifecycle.restart_policy import backoff_left, should_restart
from pilothouse.node.lifecycle.termination import grace_of, probe_grace, stop_order

DEADLINE = "DeadlineExceeded"
MOST_WHEN_GONE = 300.0
"""The longest grace period, in seconds, of a pod that was force-deleted from the API."""
ENDED = ("Succeeded", "Failed")
_DELETED = "the pod is being deleted"
_LATE = "Pod was active on the node longer than the specified deadline"


class PreparePod(msgspec.Struct, frozen=True):
    """Prepare the pod's volumes and its address."""


class StartContainer(msgspec.Struct, frozen=True):
    name: str


class StopContainer(msgspec.Struct, frozen=True):
    """Stop a container: hook, signal, kill."""

    name: str
    because: str
    since: float
    """When the grace period began."""
    grace: float
    after: tuple[str, ...] = ()
    """The containers that must have ended before the stop signal."""
    own: bool = False
    """Whether only this container stops, not the pod."""


class EndPod(msgspec.Struct, frozen=True):
    """Record that the pod terminates; the next decision stops its containers."""

    ending: PodEnding


PodAction = PreparePod | StartContainer | StopContainer | EndPod


class ContainerWaiting(msgspec.Struct, frozen=True):
    """Why a container waits, as in ``state.waiting`` of its status."""

    reason: str
    message: str = ""


class PodDecision(msgspec.Struct, frozen=True):
    actions: tuple[PodAction, ...] = ()
    waiting: dict[str, ContainerWaiting] = {}
    wake: float | None = None
    finished: bool = False


def decide(pod_state: PodState, now: float) -> PodDecision:
    """The next actions: a function of the state and the time."""
    pod = pod_state.pod
    containers = containers_of(pod.spec)
    must_end = _ending(pod_state, now)
    if must_end is not None:
        if must_end != pod_state.ending:
            return PodDecision((EndPod(must_end),))
        return _stop_all(pod_state, containers, must_end.since, must_end.grace, must_end.message)
    if pod.status.get("phase") in ENDED:
        return _stop_all(pod_state, containers, now, grace_of(pod), "the pod has ended")
    if has_finished(pod_state, containers):
        ends = (state.ended.finished for state in pod_state.containers.values() if state.ended)
        return _stop_all(
            pod_state, containers, max(ends, default=now), grace_of(pod), "the main containers have ended"
        )
    decision = _run_containers(pod_state, containers, now)
    late = _deadline(pod_state)
    if late is not None:
        decision = msgspec.structs.replace(decision, wake=_sooner(decision.wake, late))
    return decision


def has_finished(pod_state: PodState, containers: Sequence[PodContainer]) -> bool:
    """Whether the main containers will not restart, or an init container has failed for good."""
    policy = pod_state.pod.spec.get("restartPolicy") or "Always"
    mains = [container for container in containers if container.role is ContainerRole.MAIN]
    for container in containers:
        state = pod_state.container(container.name)
        failed = _is_finished(state, container, policy) and state.ended and not state.ended.succeeded
        if container.role is ContainerRole.INIT and failed and not has_initialised(pod_state, containers):
            return True
    return all(_is_finished(pod_state.container(container.name), container, policy) for container in mains)


def has_initialised(pod_state: PodState, containers: Sequence[PodContainer]) -> bool:
    """Whether a main container has run since the machine booted."""
    mains = (pod_state.container(each.name) for each in containers if each.role is ContainerRole.MAIN)
    return any(state.alive or (state.ended is not None and not state.ended.lost) for state in mains)


def _is_finished(state: ContainerState, container: PodContainer, policy: str) -> bool:
    return not state.alive and state.ended is not None and not should_restart(container, state.ended, policy)


def _ending(pod_state: PodState, now: float) -> PodEnding | None:
    """Why and by when the pod terminates; None if it doesn't. A later deletion can shorten it."""
    pod, known = pod_state.pod, pod_state.ending
    if pod.deleting or pod_state.gone:
        grace = min(grace_of(pod), MOST_WHEN_GONE) if pod_state.gone else grace_of(pod)
        if known is None:
            return PodEnding("Deleted", _DELETED, now, grace, grace)
        if grace != known.allowed:
            shortened = min(known.grace, now + grace - known.since)
            return msgspec.structs.replace(known, grace=shortened, allowed=grace)
        return known
    late = _deadline(pod_state)
    if known is None and late is not None and now >= late and pod.status.get("phase") not in ENDED:
        return PodEnding(DEADLINE, _LATE, now, grace_of(pod))
    return known


def _deadline(pod_state: PodState) -> float | None:
    seconds = pod_state.pod.spec.get("activeDeadlineSeconds")
    return pod_state.start_time + float(seconds) if seconds is not None else None


def _stop_all(
    pod_state: PodState, containers: Sequence[PodContainer], since: float, grace: float, because: str
) -> PodDecision:
    order = stop_order(containers)
    alive = [one.name for one in containers if pod_state.container(one.name).alive]
    actions = tuple(
        StopContainer(name, because, since, grace, order[name])
        for name in alive
        if not pod_state.container(name).stopping
    )
    return PodDecision(actions, {}, None, finished=not alive)


def _run_containers(pod_state: PodState, containers: Sequence[PodContainer], now: float) -> PodDecision:
    """Start the containers that should run, and stop those that fail their probes."""
    builder = _DecisionBuilder(pod_state, now)
    if not pod_state.prepared and builder.is_due(pod_state.blocker):
        builder.actions.append(PreparePod())
    initialised = has_initialised(pod_state, containers)
    blocked = False
    for container in containers:
        state = pod_state.container(container.name)
        builder.stop_if_unhealthy(container)
        if container.role is ContainerRole.INIT and initialised:
            continue
        if blocked and container.role is not ContainerRole.SIDECAR:
            if not state.alive:
                builder.waiting[container.name] = ContainerWaiting("PodInitializing")
            continue
        if blocked and state.fresh:
            builder.waiting[container.name] = ContainerWaiting("PodInitializing")
            continue
        builder.run(container)
        if container.role is ContainerRole.INIT and not (
            state.ended is not None and state.ended.succeeded and not state.ended.lost and not state.alive
        ):
            blocked = True
        if container.role is ContainerRole.SIDECAR and not state.started and not initialised:
            blocked = True
    return builder.decision()


def _sooner(one: float | None, other: float) -> float:
    return other if one is None else min(one, other)


class _DecisionBuilder:
    """Collects the actions and waiting reasons of a decision."""

    def __init__(self, pod_state: PodState, now: float) -> None:
        self._pod_state = pod_state
        self._now = now
        self.actions: list[PodAction] = []
        self.waiting: dict[str, ContainerWaiting] = {}
        self.wake: float | None = None

    def decision(self) -> PodDecision:
        return PodDecision(tuple(self.actions), self.waiting, self.wake)

    def is_due(self, blocker: StartBlocker | None) -> bool:
        """Whether it is time to retry; if not, wake at that time."""
        if blocker is None or self._now >= blocker.again:
            return True
        self.wake = _sooner(self.wake, blocker.again)
        return False

    def stop_if_unhealthy(self, container: PodContainer) -> None:
        """Stop a container that failed a probe or hook, or was never ready with a replaced image."""
        state = self._pod_state.container(container.name)
        if state.running is None or state.stopping:
            return
        name = f"Container {container.name}"
        if state.failed_hook:
            self._stop(container, f"{name} failed its postStart hook: {state.failed_hook}")
        elif state.has_startup and state.startup.verdict is False:
            self._stop(container, f"{name} failed startup probe, will be restarted", "startupProbe")
        elif state.liveness.verdict is False:
            self._stop(container, f"{name} failed liveness probe, will be restarted", "livenessProbe")
        elif state.is_image_replaced:
            image = f"its image {container.spec.get('image', '')} was imported again"
            self._stop(container, f"{name} was never ready, and {image}; it will be restarted")

    def _stop(self, container: PodContainer, because: str, probe: str = "") -> None:
        grace = probe_grace(container.probe(probe) if probe else None, self._pod_state.pod)
        self.actions.append(StopContainer(container.name, because, self._now, grace, own=True))

    def run(self, container: PodContainer) -> None:
        """Start a container that should run and doesn't, unless its back-off or a blocker delays it."""
        pod, state = self._pod_state.pod, self._pod_state.container(container.name)
        if state.alive:
            return
        ended = state.ended
        if ended is not None:
            if not should_restart(container, ended, pod.spec.get("restartPolicy") or "Always"):
                return
            if self._backs_off(container, state, ended, pod):
                return
        blocker = state.blocker or (None if self._pod_state.prepared else self._pod_state.blocker)
        if blocker is not None:
            self.waiting[container.name] = ContainerWaiting(blocker.reason, blocker.message)
        elif ended is None:
            self.waiting[container.name] = ContainerWaiting(waiting_reason(pod.spec))
        if self._pod_state.prepared and self.is_due(state.blocker):
            self.actions.append(StartContainer(container.name))

    def _backs_off(
        self, container: PodContainer, state: ContainerState, ended: EndedInstance, pod: Object
    ) -> bool:
        wait = backoff_left(state.backoff, ended.finished, self._now)
        if wait <= 0 or state.backoff is None:
            return False
        message = (
            f"back-off {state.backoff.seconds:g}s restarting failed container={container.name} "
            f"pod={pod.name}_{pod.namespace}({pod.uid})"
        )
        self.waiting[container.name] = ContainerWaiting("CrashLoopBackOff", message)
        self.wake = _sooner(self.wake, ended.finished + state.backoff.seconds)
        return True
