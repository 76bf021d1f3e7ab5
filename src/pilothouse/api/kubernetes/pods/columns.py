"""How ``kubectl get pods`` shows a pod: containers that are ready, one word for its state, restarts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pilothouse.api.kubernetes.printer_cells import AGE, NAME, NONE, at, column, since
from pilothouse.meta.kind import Object

Status = Mapping[str, Any]


class Summary(NamedTuple):
    """A pod in a line."""

    ready: int
    total: int
    word: str
    restarts: int
    last_restart: str


def summarise(pod: Object) -> Summary:
    """The pod's state; its containers' states are more precise than its phase."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    sidecars = {
        each["name"] for each in spec.get("initContainers") or () if each.get("restartPolicy") == "Always"
    }
    word = status.get("reason") or status.get("phase") or ""
    if any(
        each.get("type") == "PodScheduled" and each.get("reason") == "SchedulingGated"
        for each in status.get("conditions") or ()
    ):
        word = "SchedulingGated"
    ready, starting, init_word = _initialising(spec, status, sidecars)
    inits = status.get("initContainerStatuses") or ()
    counted = list(inits)
    if starting:
        word = init_word
    if not starting or _condition(status, "Initialized"):
        containers = status.get("containerStatuses") or ()
        counted = [each for each in inits if each.get("name") in sidecars] + list(containers)
        running, word = _running(containers, word)
        ready += running
        if word == "Completed" and running:
            word = "Running" if _condition(status, "Ready") else "NotReady"
    if pod["metadata"].get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            word = "Unknown"
        elif status.get("phase") not in ("Succeeded", "Failed"):
            word = "Terminating"
    return Summary(
        ready,
        len(spec.get("containers") or ()) + len(sidecars),
        word,
        sum(each.get("restartCount", 0) for each in counted),
        max((_ended(each) for each in counted), default=""),
    )


def _initialising(spec: Status, status: Status, sidecars: set[str]) -> tuple[int, bool, str]:
    """How many sidecars are ready, whether an init container is pending, and its state."""
    ready = 0
    for index, each in enumerate(status.get("initContainerStatuses") or ()):
        state = each.get("state") or {}
        ended, waiting = state.get("terminated"), state.get("waiting") or {}
        if ended is not None and ended.get("exitCode", 0) == 0:
            continue
        if each.get("name") in sidecars and each.get("started"):
            ready += bool(each.get("ready"))
            continue
        if ended is not None:
            return ready, True, f"Init:{_end_word(ended)}"
        reason = waiting.get("reason", "")
        if reason and reason != "PodInitializing":
            return ready, True, f"Init:{reason}"
        return ready, True, f"Init:{index}/{len(spec.get('initContainers') or ())}"
    return ready, False, ""


def _running(containers: Any, word: str) -> tuple[int, str]:
    running = 0
    for each in reversed(containers):
        state = each.get("state") or {}
        waiting, ended = state.get("waiting") or {}, state.get("terminated")
        if waiting.get("reason"):
            word = waiting["reason"]
        elif ended is not None:
            word = _end_word(ended)
        elif each.get("ready") and state.get("running") is not None:
            running += 1
    return running, word


def _end_word(ended: Status) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    if ended.get("signal"):
        return f"Signal:{ended['signal']}"
    return f"ExitCode:{ended.get('exitCode', 0)}"


def _ended(container: Status) -> str:
    ended = (container.get("lastState") or {}).get("terminated") or {}
    return ended.get("finishedAt") or ""


def _condition(status: Status, kind: str) -> bool:
    return any(
        each.get("type") == kind and each.get("status") == "True" for each in status.get("conditions") or ()
    )


def _ready(pod: Object, now: float) -> str:
    summary = summarise(pod)
    return f"{summary.ready}/{summary.total}"


def _restarts(pod: Object, now: float) -> str:
    summary = summarise(pod)
    if summary.restarts and summary.last_restart:
        return f"{summary.restarts} ({since(summary.last_restart, now)} ago)"
    return str(summary.restarts)


def _address(pod: Object, now: float) -> str:
    addresses = (pod.get("status") or {}).get("podIPs") or ()
    return (addresses[0].get("ip") if addresses else "") or NONE


def _gates(pod: Object, now: float) -> str:
    gates = (pod.get("spec") or {}).get("readinessGates") or ()
    if not gates:
        return NONE
    passed = sum(_condition(pod.get("status") or {}, gate.get("conditionType", "")) for gate in gates)
    return f"{passed}/{len(gates)}"


COLUMNS = (
    NAME,
    column("Ready", "Containers that are ready, of all.", _ready),
    column("Status", "What the pod is doing.", lambda pod, now: summarise(pod).word),
    column("Restarts", "How often containers were restarted, and when last.", _restarts),
    AGE,
    column("IP", "The pod's address.", _address, wide=True),
    column("Node", "The node that runs the pod.", at("spec", "nodeName", missing=NONE), wide=True),
    column(
        "Nominated Node",
        "The node on which pods are being preempted for it.",
        at("status", "nominatedNodeName", missing=NONE),
        wide=True,
    ),
    column("Readiness Gates", "Gates that are passed, of all.", _gates, wide=True),
)
