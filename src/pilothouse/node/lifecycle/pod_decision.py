"""What is to be done for a pod, and why its containers wait.

    decision = decide(situation, now)
    decision.acts         # (StartContainer("db"), StopContainer("proxy", ...)): carried out side by side
    decision.waits        # {"db": ContainerWaits("CrashLoopBackOff", "back-off 40s restarting ...")}
    decision.wake         # when to look again, if nothing happens before
    decision.over         # nothing runs and nothing ever will

A pod that has to end, or whose main containers have all ended for good, only stops. Otherwise init containers come in their
order, each when those before it are done (a sidecar: once it has come up), then the main ones. Once a main container
has run, init containers are not run again; sidecars are kept running for as long as a main container is.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from pilothouse.api.objects import Object
from pilothouse.node.lifecycle.container_instances import EndedInstance
from pilothouse.node.lifecycle.container_roles import ContainerRole, PodContainer, containers_of, not_begun
from pilothouse.node.lifecycle.pod_state import ContainerState, PodEnding, PodState, StartBlocker
from pilothouse.node.lifecycle.restart_policy import backoff_left, should_restart
from pilothouse.node.lifecycle.termination import grace_of, probe_grace, stop_order

DEADLINE = "DeadlineExceeded"
MOST_WHEN_GONE = 300.0
"""Seconds that a pod has at most whose object was removed by force: what nobody can see any more must not run on."""
ENDED = ("Succeeded", "Failed")
_DELETED = "the pod is being deleted"
_LATE = "Pod was active on the node longer than the specified deadline"


class PreparePod(msgspec.Struct, frozen=True):
    """Have the pod's volumes and its address."""


class StartContainer(msgspec.Struct, frozen=True):
    """Run a container, once more or for the first time."""

    name: str


class StopContainer(msgspec.Struct, frozen=True):
    """EndPod a container: hook, signal, kill."""

    name: str
    because: str
    since: float
    """When its time began to run."""
    grace: float
    after: tuple[str, ...] = ()
    """Those whose end it waits for between its hook and the signal."""
    own: bool = False
    """Whether it is about this container alone, and not about the pod."""


class EndPod(msgspec.Struct, frozen=True):
    """Write down that the pod has to end; what follows from it comes with the next decision."""

    ending: PodEnding


Act = PreparePod | StartContainer | StopContainer | EndPod


class ContainerWaits(msgspec.Struct, frozen=True):
    """Why a container does not run."""

    reason: str
    message: str = ""


class PodDecision(msgspec.Struct, frozen=True):
    """What follows from a situation."""

    acts: tuple[Act, ...] = ()
    waits: dict[str, ContainerWaits] = {}
    wake: float | None = None
    over: bool = False


def decide(situation: PodState, now: float) -> PodDecision:
    """The next acts. They stay the same until something has changed."""
    pod = situation.pod
    all_parts = containers_of(pod.spec)
    must_end = _ending(situation, now)
    if must_end is not None:
        if must_end != situation.ending:
            return PodDecision((EndPod(must_end),))
        return _wind_up(situation, all_parts, must_end.since, must_end.grace, must_end.message)
    if pod.status.get("phase") in ENDED:
        return _wind_up(situation, all_parts, now, grace_of(pod), "the pod has ended")
    if has_finished(situation, all_parts):
        finished = max(
            (seen.ended.finished for seen in situation.containers.values() if seen.ended), default=now
        )
        return _wind_up(situation, all_parts, finished, grace_of(pod), "the main containers have ended")
    decision = _go_on(situation, all_parts, now)
    late = _deadline(situation)
    if late is not None:
        decision = msgspec.structs.replace(decision, wake=_sooner(decision.wake, late))
    return decision


def has_finished(situation: PodState, all_parts: Sequence[PodContainer]) -> bool:
    """Whether the pod's work is over by itself: well, or by a failure that nobody is to mend."""
    policy = situation.pod.spec.get("restartPolicy") or "Always"
    mains = [part for part in all_parts if part.role is ContainerRole.MAIN]
    for part in all_parts:
        seen = situation.seen(part.name)
        failed = seen.ended is not None and not seen.ended.well and _is_done_for(seen, part, policy)
        if part.role is ContainerRole.INIT and failed and not has_initialised(situation, all_parts):
            return True
    return all(_is_done_for(situation.seen(part.name), part, policy) for part in mains)


def has_initialised(situation: PodState, all_parts: Sequence[PodContainer]) -> bool:
    """Whether a main container has ever run, since the machine was started."""
    for part in all_parts:
        seen = situation.seen(part.name)
        if part.role is ContainerRole.MAIN and (
            seen.alive or (seen.ended is not None and not seen.ended.lost)
        ):
            return True
    return False


def _is_done_for(seen: ContainerState, part: PodContainer, policy: str) -> bool:
    return not seen.alive and seen.ended is not None and not should_restart(part, seen.ended, policy)


def _ending(situation: PodState, now: float) -> PodEnding | None:
    """Why and by when the pod has to end, if it has to. A deletion that allows less time than was left shortens it."""
    pod, known = situation.pod, situation.ending
    if pod.deleting or situation.gone:
        grace = min(grace_of(pod), MOST_WHEN_GONE) if situation.gone else grace_of(pod)
        if known is None:
            return PodEnding("Deleted", _DELETED, now, grace, grace)
        if grace != known.allowed:
            return msgspec.structs.replace(
                known, grace=min(known.grace, now + grace - known.since), allowed=grace
            )
        return known
    late = _deadline(situation)
    if known is None and late is not None and now >= late and pod.status.get("phase") not in ENDED:
        return PodEnding(DEADLINE, _LATE, now, grace_of(pod))
    return known


def _deadline(situation: PodState) -> float | None:
    seconds = situation.pod.spec.get("activeDeadlineSeconds")
    return situation.begun + float(seconds) if seconds is not None else None


def _wind_up(
    situation: PodState, all_parts: Sequence[PodContainer], since: float, grace: float, because: str
) -> PodDecision:
    """StopContainer what runs."""
    order = stop_order(all_parts)
    acts = tuple(
        StopContainer(part.name, because, since, grace, order[part.name])
        for part in all_parts
        if (seen := situation.seen(part.name)).alive and not seen.stopping
    )
    alive = any(situation.seen(part.name).alive for part in all_parts)
    return PodDecision(acts, {}, None, over=not alive)


def _go_on(situation: PodState, all_parts: Sequence[PodContainer], now: float) -> PodDecision:
    """StartContainer what is to run, and stop what is condemned."""
    draft = _Draft(situation, now)
    if not situation.prepared and draft.may(situation.hurdle):
        draft.acts.append(PreparePod())
    initialised = has_initialised(situation, all_parts)
    blocked = False
    for part in all_parts:
        seen = situation.seen(part.name)
        draft.condemn(part)
        if part.role is ContainerRole.INIT and initialised:
            continue
        if blocked and part.role is not ContainerRole.SIDECAR:
            if not seen.alive:
                draft.waits[part.name] = ContainerWaits("PodInitializing")
            continue
        if blocked and seen.fresh:
            draft.waits[part.name] = ContainerWaits("PodInitializing")
            continue
        draft.run(part)
        if part.role is ContainerRole.INIT and not (
            seen.ended is not None and seen.ended.well and not seen.ended.lost and not seen.alive
        ):
            blocked = True
        if part.role is ContainerRole.SIDECAR and not seen.started and not initialised:
            blocked = True
    return draft.decision()


def _sooner(one: float | None, other: float) -> float:
    return other if one is None else min(one, other)


class _Draft:
    """A decision in the making."""

    def __init__(self, situation: PodState, now: float) -> None:
        self._situation = situation
        self._now = now
        self.acts: list[Act] = []
        self.waits: dict[str, ContainerWaits] = {}
        self.wake: float | None = None

    def decision(self) -> PodDecision:
        return PodDecision(tuple(self.acts), self.waits, self.wake)

    def may(self, hurdle: StartBlocker | None) -> bool:
        """Whether it is time to try; else it will be looked at again then."""
        if hurdle is None or self._now >= hurdle.again:
            return True
        self.wake = _sooner(self.wake, hurdle.again)
        return False

    def condemn(self, part: PodContainer) -> None:
        """StopContainer a container that has failed its probe or its hook, or never got ready with an image that is another by now."""
        seen = self._situation.seen(part.name)
        if seen.running is None or seen.stopping:
            return
        if seen.failed_hook:
            self._stop(part, f"Container {part.name} failed its postStart hook: {seen.failed_hook}", None)
        elif seen.has_startup and seen.startup.verdict is False:
            self._stop(part, f"Container {part.name} failed startup probe, will be restarted", "startupProbe")
        elif seen.liveness.verdict is False:
            self._stop(
                part, f"Container {part.name} failed liveness probe, will be restarted", "livenessProbe"
            )
        elif seen.is_image_replaced:
            image = part.spec.get("image", "")
            self._stop(
                part,
                f"Container {part.name} was never ready, and its image {image} was imported again; it will be restarted",
                None,
            )

    def _stop(self, part: PodContainer, because: str, probe: str | None) -> None:
        pod = self._situation.pod
        grace = probe_grace(part.probe(probe) if probe else None, pod)
        self.acts.append(StopContainer(part.name, because, self._now, grace, own=True))

    def run(self, part: PodContainer) -> None:
        """StartContainer a container that should run and doesn't, when its time has come."""
        pod, seen = self._situation.pod, self._situation.seen(part.name)
        if seen.alive:
            return
        ended = seen.ended
        if ended is not None:
            if not should_restart(part, ended, pod.spec.get("restartPolicy") or "Always"):
                return
            if self._backs_off(part, seen, ended, pod):
                return
        hurdle = seen.hurdle or (None if self._situation.prepared else self._situation.hurdle)
        if hurdle is not None:
            self.waits[part.name] = ContainerWaits(hurdle.reason, hurdle.message)
        elif ended is None:
            self.waits[part.name] = ContainerWaits(not_begun(pod.spec))
        if self._situation.prepared and self.may(seen.hurdle):
            self.acts.append(StartContainer(part.name))

    def _backs_off(self, part: PodContainer, seen: ContainerState, ended: EndedInstance, pod: Object) -> bool:
        wait = backoff_left(seen.pause, ended.finished, self._now)
        if wait <= 0 or seen.pause is None:
            return False
        message = (
            f"back-off {seen.pause.seconds:g}s restarting failed container={part.name} "
            f"pod={pod.name}_{pod.namespace}({pod.uid})"
        )
        self.waits[part.name] = ContainerWaits("CrashLoopBackOff", message)
        self.wake = _sooner(self.wake, ended.finished + seen.pause.seconds)
        return True
