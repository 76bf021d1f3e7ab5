"""The status of a pod: phase, conditions, container statuses, addresses.

    pod_status(pod_state, decision, StatusInputs(host="10.0.0.7", address="127.8.1.2"), before, now)

Reasons and messages are kubelet's. Conditions of others (readiness gates, disruption) are kept. A condition's
``lastTransitionTime`` changes only with its status.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from pilothouse.api.objects import Object, Tree
from pilothouse.base.rfc3339 import format_time
from pilothouse.meta.conditions import Condition, find_condition, with_condition
from pilothouse.node.lifecycle.container_instances import EndedInstance
from pilothouse.node.lifecycle.container_roles import (
    ContainerRole,
    PodContainer,
    containers_of,
    waiting_reason,
)
from pilothouse.node.lifecycle.pod_decision import ENDED, ContainerWaiting, PodDecision, has_initialised
from pilothouse.node.lifecycle.pod_state import ContainerState, PodState

LIMITS: Final = "pilothouse.io/LimitsEnforced"
"""Whether a pod's resource limits are enforced."""
OURS: Final = frozenset(
    {"PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready", "PodScheduled", LIMITS}
)


class StatusInputs(msgspec.Struct, frozen=True):
    host: str
    address: str = ""
    images: Mapping[str, str] = {}
    """The image id of each container."""
    not_enforced: str = ""
    """Which limits of the pod are not enforced, and why."""


def container_id(pod: Object, name: str, attempt: int) -> str:
    return f"pilothouse://{pod.uid}/{name}/{attempt}"


def pod_status(
    pod_state: PodState, decision: PodDecision, inputs: StatusInputs, before: Mapping[str, Any], now: float
) -> Tree:
    """The fields of the status that the node owns; ``before`` is the status that it last reported."""
    pod, containers = pod_state.pod, containers_of(pod_state.pod.spec)
    phase = phase_of(pod_state, decision, containers)
    status: Tree = {"phase": phase, "hostIP": inputs.host, "hostIPs": [{"ip": inputs.host}]}
    status["startTime"] = format_time(pod_state.start_time)
    if inputs.address:
        status |= {"podIP": inputs.address, "podIPs": [{"ip": inputs.address}]}
    if pod_state.ending is not None and pod_state.ending.fails:
        status |= {"reason": pod_state.ending.cause, "message": pod_state.ending.message}
    status["conditions"] = _conditions(pod_state, containers, phase, inputs, before, now)
    statuses = [_container(pod, one, pod_state.container(one.name), decision, inputs) for one in containers]
    inits = statuses[: sum(one.role is not ContainerRole.MAIN for one in containers)]
    if inits:
        status["initContainerStatuses"] = inits
    status["containerStatuses"] = statuses[len(inits) :]
    return status


def phase_of(pod_state: PodState, decision: PodDecision, containers: Sequence[PodContainer]) -> str:
    """The pod's phase. It is neither ``Succeeded`` nor ``Failed`` while a container runs."""
    mains = [pod_state.container(one.name) for one in containers if one.role is ContainerRole.MAIN]
    ended = [state.ended for state in mains if state.ended is not None and not state.alive]
    if decision.finished:
        failing = pod_state.ending is not None and pod_state.ending.fails
        well = len(ended) == len(mains) and all(one.succeeded for one in ended)
        return "Succeeded" if well and not failing else "Failed"
    if not has_initialised(pod_state, containers):
        return "Pending"
    if any(state.running is None and state.ended is None for state in mains):
        return "Pending"
    return "Running"


def _conditions(
    pod_state: PodState,
    containers: Sequence[PodContainer],
    phase: str,
    inputs: StatusInputs,
    before: Mapping[str, Any],
    now: float,
) -> list[Condition]:
    # Our conditions as last reported, those of others as they are in the API.
    ours = [one for one in before.get("conditions") or () if one.get("type") in OURS]
    others = [one for one in pod_state.pod.status.get("conditions") or () if one.get("type") not in OURS]
    kept: list[Condition] = [*ours, *others]
    moment = format_time(now)
    for kind, value, reason, message in _condition_values(pod_state, containers, phase, inputs):
        known = find_condition(kept, kind)
        if known is None and kind == LIMITS and value:
            continue
        condition = {"type": kind, "status": "True" if value else "False"}
        condition |= {name: text for name, text in (("reason", reason), ("message", message)) if text}
        if known is not None:
            # The earlier reason must not stay beside another status.
            stale = {name: known[name] for name in known if name not in ("reason", "message", "status")}
            kept = [stale | {"status": known["status"]} if one is known else one for one in kept]
        kept = with_condition(kept, condition, now=moment)
    return kept


def _condition_values(
    pod_state: PodState, containers: Sequence[PodContainer], phase: str, inputs: StatusInputs
) -> Iterator[tuple[str, bool, str, str]]:
    blocker = pod_state.blocker
    # A container that has run was prepared, though a restarted agent has not prepared the pod again yet.
    prepared = pod_state.prepared or any(not state.fresh for state in pod_state.containers.values())
    if prepared or blocker is None:
        yield "PodReadyToStartContainers", prepared and phase not in ENDED, "", ""
    else:
        yield "PodReadyToStartContainers", False, blocker.reason, blocker.message
    yield "Initialized", *_initialised(pod_state, containers, phase)
    ready = _containers_ready(pod_state, containers, phase)
    yield "ContainersReady", *ready
    yield "Ready", *(_gates(pod_state.pod) if ready[0] else ready)
    yield "PodScheduled", True, "", ""
    reason = "NotEnforced" if inputs.not_enforced else ""
    yield LIMITS, not inputs.not_enforced, reason, inputs.not_enforced


def _initialised(
    pod_state: PodState, containers: Sequence[PodContainer], phase: str
) -> tuple[bool, str, str]:
    if phase == "Succeeded":
        return True, "PodCompleted", ""
    if has_initialised(pod_state, containers):
        return True, "", ""
    states = [(one, pod_state.container(one.name)) for one in containers]
    waiting = [one.name for one, state in states if not _has_initialised(one, state)]
    if not waiting:
        return True, "", ""
    return False, "ContainersNotInitialized", f"containers with incomplete status: [{' '.join(waiting)}]"


def _has_initialised(container: PodContainer, state: ContainerState) -> bool:
    if container.role is ContainerRole.MAIN:
        return True
    if container.role is ContainerRole.SIDECAR:
        return state.started
    return state.ended is not None and state.ended.succeeded and not state.alive


def _containers_ready(
    pod_state: PodState, containers: Sequence[PodContainer], phase: str
) -> tuple[bool, str, str]:
    if phase == "Succeeded":
        return False, "PodCompleted", ""
    if phase == "Failed":
        return False, "PodFailed", ""
    counted = [container for container in containers if container.role is not ContainerRole.INIT]
    unready = [container.name for container in counted if not pod_state.container(container.name).ready]
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
            status = found.get("status")
            missing.append(f'the status of pod readiness gate "{kind}" is not "True", but {status}')
    return (False, "ReadinessGatesNotReady", ", ".join(missing)) if missing else (True, "", "")


def _container(
    pod: Object, container: PodContainer, state: ContainerState, decision: PodDecision, inputs: StatusInputs
) -> Tree:
    wait = decision.waiting.get(container.name)
    latest = state.running.attempt if state.running else state.ended.attempt if state.ended else None
    status: Tree = {
        "name": container.name,
        "image": container.spec.get("image", ""),
        "imageID": inputs.images.get(container.name, ""),
        "restartCount": latest or 0,
        "ready": _is_ready(container, state),
        "started": state.started,
        "state": {},
        "lastState": {},
    }
    if latest is not None:
        status["containerID"] = container_id(pod, container.name, latest)
    if state.running is not None:
        status["state"] = {"running": {"startedAt": format_time(state.running.since)}}
        before = state.ended
    elif state.ended is not None and wait is None:
        status["state"] = {"terminated": _terminated(pod, container.name, state.ended)}
        before = state.earlier
    else:
        status["state"] = {"waiting": _waiting(wait or ContainerWaiting(waiting_reason(pod.spec)))}
        before = state.ended
    if before is not None:
        status["lastState"] = {"terminated": _terminated(pod, container.name, before)}
    return status


def _is_ready(container: PodContainer, state: ContainerState) -> bool:
    if container.role is ContainerRole.INIT:
        return state.ended is not None and state.ended.succeeded and not state.alive
    return state.ready


def _waiting(wait: ContainerWaiting) -> dict[str, Any]:
    return {"reason": wait.reason, "message": wait.message} if wait.message else {"reason": wait.reason}


def _terminated(pod: Object, name: str, ended: EndedInstance) -> Tree:
    reason = ended.reason or ("Completed" if ended.succeeded else "Error")
    status: Tree = {
        "exitCode": ended.code,
        "reason": reason,
        "startedAt": format_time(ended.started),
        "finishedAt": format_time(ended.finished),
        "containerID": container_id(pod, name, ended.attempt),
    }
    if ended.signal:
        status["signal"] = ended.signal
    if ended.message:
        status["message"] = ended.message
    return status
