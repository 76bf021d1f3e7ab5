"""What a pod's status says of its health, and in words, why it is not ready.

    ready(pod), healthy(pod), ended(pod)
    available_in(pod, 10, now=world.now)        # seconds until it has been ready for ten; None if it is not ready
    why = trouble(pod)                          # Unschedulable: pod web-1 has no node: no node has 2 CPUs left

The sentences hold nothing that moves with time, so that the same trouble is told in the same words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from pilothouse.api.objects import Object
from pilothouse.base.error_lines import error_lines
from pilothouse.base.rfc3339 import parse_time

WAITING_FOR_VOLUMES: Final = "WaitingForVolumes"
"""The reason of PodScheduled=False while a node is chosen and the volumes are being made there."""
NODE_NOT_READY: Final = "NodeNotReady"
"""The reason of Ready=False while the pod's node is not counted on."""
_AT_ONCE: Final = 5.0
"""Seconds in which a pod whose container ends is seen not to be ready."""
_STARTING: Final = ("", "ContainerCreating", "PodInitializing")
_REMEDIES: Final = {
    "CrashLoopBackOff": "see why it exits: kubectl logs {pod} -n {namespace} -c {container} --previous",
    "ImagePullBackOff": "correct the image's name, or import the image on the node",
    "ErrImagePull": "correct the image's name, or import the image on the node",
    "ErrImageNeverPull": "install what is missing on the node",
    "InvalidImageName": "correct the image's name",
    "FailedMount": "check the claim, ConfigMap or Secret that the volume refers to",
    "NodeStorageError": "free space on the disk of the node's data folder",
    "NodePorts": "use another port, or stop the program that has it",
    "PodTerminating": "wait until the earlier pod of this name has ended, or check why it does not",
}
_MISSING_SOURCE: Final = re.compile(r"(^|\bin )(configmap|secret)s? ", re.IGNORECASE)
"""How the message of a CreateContainerConfigError begins, or where it says a key is missing, if it is about one of these."""


class Trouble(msgspec.Struct, frozen=True):
    """Why a pod is not ready."""

    reason: str
    sentence: str
    remedy: str = ""


def ready(pod: Object) -> bool:
    """True if it runs and says that it can serve."""
    return pod.status.get("phase") == "Running" and pod.is_true("Ready")


def healthy(pod: Object) -> bool:
    """True if it is ready and nobody has asked for its end."""
    return ready(pod) and not pod.deleting


def ended(pod: Object) -> bool:
    """True if its containers have run and won't again."""
    return pod.status.get("phase") in ("Failed", "Succeeded")


def available_in(pod: Object, min_ready_seconds: int, *, now: float) -> float | None:
    """Seconds until it has been ready for so long: 0 if it has been. None if it isn't ready, or nobody knows since when."""
    if not ready(pod):
        return None
    if min_ready_seconds <= 0:
        return 0.0
    since = ready_since(pod)
    return None if since is None else max(0.0, since + min_ready_seconds - now)


def available(pod: Object, min_ready_seconds: int, *, now: float) -> bool:
    """True if it has been ready for so long."""
    return available_in(pod, min_ready_seconds, now=now) == 0.0


def ready_since(pod: Object) -> float | None:
    """When it last became ready, or ceased to be."""
    condition = pod.condition("Ready") or {}
    try:
        return Object.of({"status": condition}).moment("status", "lastTransitionTime")
    except ValueError:
        return None


def trouble(pod: Object, node: Object | None = None) -> Trouble:
    """Why this pod, which is not healthy, is not. ``node`` is where it runs, if that is known."""
    name, phase = f"pod {pod.name}", pod.status.get("phase") or "Pending"
    if pod.deleting:
        return _ending(pod, node)
    if ended(pod):
        said = _words(pod.status.get("reason"), pod.status.get("message"))
        return Trouble(
            phase, f"{name} has {'failed' if phase == 'Failed' else 'ended'}{said and f': {said}'}"
        )
    if not pod.spec.get("nodeName"):
        return _without_node(pod)
    for status in _containers(pod):
        found = _container_trouble(pod, status)
        if found is not None:
            return found
    if phase == "Running":
        condition = pod.condition("Ready") or {}
        if condition.get("reason") == NODE_NOT_READY:
            node = pod.spec["nodeName"]
            remedy = f"bring node {node} back, or if it is gone for good: kubectl delete node {node}"
            return Trouble(NODE_NOT_READY, f"{name} is on node {node}, which is not ready", remedy)
        said = _words(condition.get("reason"), condition.get("message"))
        sentence = f"{name} runs but is not ready{said and f': {said}'}{_ended_before(pod, condition)}"
        return Trouble(
            "PodNotReady", sentence, f"see what its readiness probe says: {_kubectl('describe', pod)}"
        )
    if phase == "Pending":
        return Trouble("PodStarting", f"{name} is starting on node {pod.spec['nodeName']}")
    sentence = f"{name} is in phase {phase}: its node {pod.spec['nodeName']} does not report"
    return Trouble(
        "PodUnknown",
        sentence,
        f"bring the node back, or if it is gone for good: {_kubectl('delete', pod)} --force",
    )


def _ending(pod: Object, on: Object | None) -> Trouble:
    sentence = f"pod {pod.name} is being deleted"
    if pod.finalizers:
        kept = ", ".join(pod.finalizers)
        return Trouble(
            "PodTerminating",
            f"{sentence} and kept by its finalizers: {kept}",
            f"have the controllers that set {kept} remove them",
        )
    node = pod.spec.get("nodeName")
    if not node:
        return Trouble("PodTerminating", sentence)
    if on is not None and on.is_true("Ready"):
        due = f"; node {node} kills its remaining containers at {pod.deletion_timestamp}"
        remedy = f"wait for that, or end it sooner: {_kubectl('delete', pod)} --grace-period=1"
        return Trouble("PodTerminating", f"{sentence}{due}", remedy)
    remedy = f"if node {node} is gone for good: {_kubectl('delete', pod)} --force"
    return Trouble("PodTerminating", f"{sentence} and still on node {node}", remedy)


def _without_node(pod: Object) -> Trouble:
    gates = [str(gate.get("name")) for gate in pod.spec.get("schedulingGates") or ()]
    if gates:
        sentence = f"pod {pod.name} is held back by its scheduling gates: {', '.join(gates)}"
        return Trouble("SchedulingGated", sentence, "have the controllers that set the gates remove them")
    condition = pod.condition("PodScheduled") or {}
    if condition.get("status") == "False":
        said = str(condition.get("message") or "no node fits")
        if condition.get("reason") == WAITING_FOR_VOLUMES or "persistentvolumeclaim" in said.lower():
            remedy = f"check the pod's claims: kubectl describe pvc -n {pod.namespace}"
            return Trouble(WAITING_FOR_VOLUMES, f"pod {pod.name} has no node yet: {said}", remedy)
        remedy = "add a node that fits, or ask for less in the pod template (requests, selectors, affinity, tolerations)"
        return Trouble("Unschedulable", f"pod {pod.name} has no node: {said}", remedy)
    return Trouble("PodPending", f"pod {pod.name} has no node yet", "check that a scheduler is running")


def _containers(pod: Object) -> Iterator[Mapping[str, Any]]:
    for field in ("initContainerStatuses", "containerStatuses"):
        yield from pod.status.get(field) or ()


def _container_trouble(pod: Object, status: Mapping[str, Any]) -> Trouble | None:
    if status.get("ready"):
        return None
    state = status.get("state") or {}
    waiting, terminated = state.get("waiting"), state.get("terminated")
    where = f"container {status.get('name')} of pod {pod.name}"
    if waiting is not None and waiting.get("reason", "") not in _STARTING:
        reason = waiting["reason"]
        remedy = _remedy(pod, reason, str(waiting.get("message") or ""))
        last = (status.get("lastState") or {}).get("terminated")
        # How it ended says more than how long is waited before it is tried again.
        said = _end(last) if reason == "CrashLoopBackOff" and last else str(waiting.get("message") or "")
        return Trouble(
            reason,
            f"{where} can't run: {_words(reason, said)}",
            remedy.format(pod=pod.name, namespace=pod.namespace, container=status.get("name")),
        )
    if terminated is not None and terminated.get("exitCode", 0) != 0:
        sentence = f"{where} {_end(terminated)}"
        remedy = f"see why: kubectl logs {pod.name} -n {pod.namespace} -c {status.get('name')}"
        return Trouble("ContainerExited", sentence, remedy)
    return None


def failed_container(pod: Object) -> tuple[str, bool] | None:
    """The first container that ended with a code and left no message of its own, and whether that was its previous run."""
    for status in _containers(pod):
        if status.get("ready"):
            continue
        for field, previous in (("state", False), ("lastState", True)):
            found = (status.get(field) or {}).get("terminated")
            if found is not None and found.get("exitCode"):
                return None if found.get("message") else (str(status.get("name")), previous)
    return None


def _ended_before(pod: Object, condition: Mapping[str, Any]) -> str:
    """How a container ended that was started again and has not been ready since; empty if there is none."""
    for status in pod.status.get("containerStatuses") or ():
        last = (status.get("lastState") or {}).get("terminated") or {}
        since = condition.get("lastTransitionTime")
        finished = last.get("finishedAt")
        if status.get("ready") or not last.get("exitCode") or not finished or not since:
            continue
        if parse_time(finished) >= parse_time(since) - _AT_ONCE:
            return f"; container {status.get('name')} {_end(last)} before"
    return ""


def _remedy(pod: Object, reason: str, message: str) -> str:
    # A user whom the agent can't become, or no command, has this reason too: then the message says what would help.
    if reason == "CreateContainerConfigError" and _MISSING_SOURCE.search(message):
        return "create the ConfigMap or Secret that the container refers to, with the key that it names"
    return _REMEDIES.get(reason, f"see more: {_kubectl('describe', pod)}")


def _end(terminated: Mapping[str, Any]) -> str:
    reason, message = terminated.get("reason"), error_lines(str(terminated.get("message") or "").splitlines())
    # That an end with a code is an error needs no word beside the program's own.
    said = _words(None if message and reason == "Error" else reason, message)
    return f"exited with code {terminated.get('exitCode', 0)}{said and f': {said}'}"


def _words(reason: Any, message: Any) -> str:
    return ": ".join(str(part) for part in (reason, message) if part)


def _kubectl(verb: str, pod: Object) -> str:
    return f"kubectl {verb} pod {pod.name} -n {pod.namespace}"
