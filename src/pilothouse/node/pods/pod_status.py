"""What a pod's status says: phase, conditions, container statuses, addresses.

    status(situation, decision, StatusInputs(host="10.0.0.7", address="127.8.1.2"), before, now)

The words are kubelet's, so that kubectl and controllers read them as they always do. Conditions of others (readiness gates,
disruption) stay as they are. A condition's ``lastTransitionTime`` moves with its status alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from pilothouse.api.objects import Object, Tree
from pilothouse.base.rfc3339 import format_time
from pilothouse.meta.conditions import Condition, find_condition, with_condition
from pilothouse.node.lifecycle.container_instances import EndedInstance
from pilothouse.node.lifecycle.container_roles import ContainerRole, PodContainer, containers_of, not_begun
from pilothouse.node.lifecycle.pod_decision import ENDED, ContainerWaits, PodDecision, has_initialised
from pilothouse.node.lifecycle.pod_state import ContainerState, PodState

LIMITS: Final = "pilothouse.io/LimitsEnforced"
"""The condition of a pod whose limits are not what they say."""
OURS: Final = frozenset(
    {"PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready", "PodScheduled", LIMITS}
)


class StatusInputs(msgspec.Struct, frozen=True):
    """What a status says beside the situation."""

    host: str
    address: str = ""
    images: Mapping[str, str] = {}
    """By container, what its image was found to be."""
    not_enforced: str = ""
    """Which limits of the pod are not enforced, and why."""


def container_id(pod: Object, name: str, attempt: int) -> str:
    """The name of one instance."""
    return f"pilothouse://{pod.uid}/{name}/{attempt}"


def pod_status(
    situation: PodState, decision: PodDecision, facts: StatusInputs, before: Mapping[str, Any], now: float
) -> Tree:
    """All of the status that is a node's to tell; ``before`` is what it told last."""
    pod, all_parts = situation.pod, containers_of(situation.pod.spec)
    phase = phase_of(situation, decision, all_parts)
    told: Tree = {"phase": phase, "hostIP": facts.host, "hostIPs": [{"ip": facts.host}]}
    told["startTime"] = format_time(situation.begun)
    if facts.address:
        told |= {"podIP": facts.address, "podIPs": [{"ip": facts.address}]}
    if situation.ending is not None and situation.ending.fails:
        told |= {"reason": situation.ending.cause, "message": situation.ending.message}
    told["conditions"] = _conditions(situation, all_parts, phase, facts, before, now)
    statuses = [_container(pod, part, situation.seen(part.name), decision, facts) for part in all_parts]
    inits = [
        each for part, each in zip(all_parts, statuses, strict=True) if part.role is not ContainerRole.MAIN
    ]
    if inits:
        told["initContainerStatuses"] = inits
    told["containerStatuses"] = statuses[len(inits) :]
    return told


def phase_of(situation: PodState, decision: PodDecision, all_parts: Sequence[PodContainer]) -> str:
    """Kubernetes' word for how far a pod is. A pod is not called ended while anything of it runs."""
    mains = [situation.seen(part.name) for part in all_parts if part.role is ContainerRole.MAIN]
    ended = [seen.ended for seen in mains if seen.ended is not None and not seen.alive]
    if decision.over:
        failing = situation.ending is not None and situation.ending.fails
        well = len(ended) == len(mains) and all(one.well for one in ended)
        return "Succeeded" if well and not failing else "Failed"
    if not has_initialised(situation, all_parts):
        return "Pending"
    if any(seen.running is None and seen.ended is None for seen in mains):
        return "Pending"
    return "Running"


def _conditions(
    situation: PodState,
    all_parts: Sequence[PodContainer],
    phase: str,
    facts: StatusInputs,
    before: Mapping[str, Any],
    now: float,
) -> list[Condition]:
    # Ours as we last told them, those of others as they came.
    ours = [one for one in before.get("conditions") or () if one.get("type") in OURS]
    others = [one for one in situation.pod.status.get("conditions") or () if one.get("type") not in OURS]
    kept: list[Condition] = [*ours, *others]
    moment = format_time(now)
    for kind, value, reason, message in _told(situation, all_parts, phase, facts):
        known = find_condition(kept, kind)
        if known is None and kind == LIMITS and value:
            continue
        told = {"type": kind, "status": "True" if value else "False"}
        told |= {name: text for name, text in (("reason", reason), ("message", message)) if text}
        if known is not None:
            # An old reason must not stay beside a new status.
            stale = {name: known[name] for name in known if name not in ("reason", "message", "status")}
            kept = [stale | {"status": known["status"]} if one is known else one for one in kept]
        kept = with_condition(kept, told, now=moment)
    return kept


def _told(
    situation: PodState, all_parts: Sequence[PodContainer], phase: str, facts: StatusInputs
) -> Iterator[tuple[str, bool, str, str]]:
    hurdle = situation.hurdle
    # What has run was prepared, though an agent that has just begun has not looked yet.
    prepared = situation.prepared or any(not seen.fresh for seen in situation.containers.values())
    if prepared or hurdle is None:
        yield "PodReadyToStartContainers", prepared and phase not in ENDED, "", ""
    else:
        yield "PodReadyToStartContainers", False, hurdle.reason, hurdle.message
    yield "Initialized", *_initialised(situation, all_parts, phase)
    ready = _containers_ready(situation, all_parts, phase)
    yield "ContainersReady", *ready
    yield "Ready", *(_gates(situation.pod) if ready[0] else ready)
    yield "PodScheduled", True, "", ""
    reason = "NotEnforced" if facts.not_enforced else ""
    yield LIMITS, not facts.not_enforced, reason, facts.not_enforced


def _initialised(situation: PodState, all_parts: Sequence[PodContainer], phase: str) -> tuple[bool, str, str]:
    if phase == "Succeeded":
        return True, "PodCompleted", ""
    if has_initialised(situation, all_parts):
        return True, "", ""
    waiting = [part.name for part in all_parts if not _is_through(part, situation.seen(part.name))]
    if not waiting:
        return True, "", ""
    return False, "ContainersNotInitialized", f"containers with incomplete status: [{' '.join(waiting)}]"


def _is_through(part: PodContainer, seen: ContainerState) -> bool:
    if part.role is ContainerRole.MAIN:
        return True
    if part.role is ContainerRole.SIDECAR:
        return seen.started
    return seen.ended is not None and seen.ended.well and not seen.alive


def _containers_ready(
    situation: PodState, all_parts: Sequence[PodContainer], phase: str
) -> tuple[bool, str, str]:
    if phase == "Succeeded":
        return False, "PodCompleted", ""
    if phase == "Failed":
        return False, "PodFailed", ""
    counted = [part for part in all_parts if part.role is not ContainerRole.INIT]
    unready = [part.name for part in counted if not situation.seen(part.name).ready]
    if unready:
        return False, "ContainersNotReady", f"containers with unready status: [{' '.join(unready)}]"
    return True, "", ""


def _gates(pod: Object) -> tuple[bool, str, str]:
    missing = []
    for gate in pod.spec.get("readinessGates") or ():
        kind = gate["conditionType"]
        found = pod.condition(kind)
        if found is None:
            missing.append(f'corresponding condition of pod readiness gate "{kind}" does not exist.')
        elif found.get("status") != "True":
            missing.append(
                f'the status of pod readiness gate "{kind}" is not "True", but {found.get("status")}'
            )
    return (False, "ReadinessGatesNotReady", ", ".join(missing)) if missing else (True, "", "")


def _container(
    pod: Object, part: PodContainer, seen: ContainerState, decision: PodDecision, facts: StatusInputs
) -> Tree:
    wait = decision.waits.get(part.name)
    latest = seen.running.attempt if seen.running else seen.ended.attempt if seen.ended else None
    told: Tree = {
        "name": part.name,
        "image": part.spec.get("image", ""),
        "imageID": facts.images.get(part.name, ""),
        "restartCount": latest or 0,
        "ready": _is_ready(part, seen),
        "started": seen.started,
        "state": {},
        "lastState": {},
    }
    if latest is not None:
        told["containerID"] = container_id(pod, part.name, latest)
    if seen.running is not None:
        told["state"] = {"running": {"startedAt": format_time(seen.running.since)}}
        before = seen.ended
    elif seen.ended is not None and wait is None:
        told["state"] = {"terminated": _terminated(pod, part.name, seen.ended)}
        before = seen.earlier
    else:
        told["state"] = {"waiting": _waiting(wait or ContainerWaits(not_begun(pod.spec)))}
        before = seen.ended
    if before is not None:
        told["lastState"] = {"terminated": _terminated(pod, part.name, before)}
    return told


def _is_ready(part: PodContainer, seen: ContainerState) -> bool:
    if part.role is ContainerRole.INIT:
        return seen.ended is not None and seen.ended.well and not seen.alive
    return seen.ready


def _waiting(wait: ContainerWaits) -> dict[str, Any]:
    return {"reason": wait.reason, "message": wait.message} if wait.message else {"reason": wait.reason}


def _terminated(pod: Object, name: str, ended: EndedInstance) -> Tree:
    reason = ended.reason or ("Completed" if ended.well else "Error")
    told: Tree = {
        "exitCode": ended.code,
        "reason": reason,
        "startedAt": format_time(ended.started),
        "finishedAt": format_time(ended.finished),
        "containerID": container_id(pod, name, ended.attempt),
    }
    if ended.signal:
        told["signal"] = ended.signal
    if ended.message:
        told["message"] = ended.message
    return told
