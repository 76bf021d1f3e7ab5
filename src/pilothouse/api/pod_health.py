"""A pod's health by its status, and why it is not ready, as a sentence.

    ready(pod), healthy(pod), ended(pod)
    available_in(pod, 10, now=world.now)        # seconds until it has been ready for ten; None if not ready
    why = trouble(pod)                          # Unschedulable: pod web-1 has no node: no node fits

Sentences have no times in them, so that the same trouble has the same text.
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
"""Reason of PodScheduled=False while a node is chosen and the volumes are being created there."""
NODE_NOT_READY: Final = "NodeNotReady"
"""Reason of Ready=False while the pod's node is not ready."""
_AT_ONCE: Final = 5.0
"""Seconds within which the end of a pod's container shows in its Ready condition."""
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
"""How the message of a CreateContainerConfigError about one of these begins, or names a missing key."""


_NODE_TAINT: Final = re.compile(r"\d+ node\(s\) had untolerated taint {node\.kubernetes\.io/[^}]*}(, )?")
"""In the message of an unschedulable pod: nodes that take no pods for a condition of their own."""


_MISSING_OBJECT: Final = re.compile(
    r'\b(?P<kind>persistentvolumeclaim|configmap|secret) "(?P<name>[^"]+)" not found'
)
_KINDS: Final = {
    "persistentvolumeclaim": "PersistentVolumeClaim",
    "configmap": "ConfigMap",
    "secret": "Secret",
}


class Trouble(msgspec.Struct, frozen=True):
    """Why a pod is not ready."""

    reason: str
    sentence: str
    remedy: str = ""


def ready(pod: Object) -> bool:
    """True if it runs and is ready."""
    return pod.status.get("phase") == "Running" and pod.is_true("Ready")


def healthy(pod: Object) -> bool:
    """True if it is ready and not being deleted."""
    return ready(pod) and not pod.deleting


def ended(pod: Object) -> bool:
    """True if its containers have ended for good."""
    return pod.status.get("phase") in ("Failed", "Succeeded")


def available_in(pod: Object, min_ready_seconds: int, *, now: float) -> float | None:
    """Seconds until it has been ready for so long, 0 if it has; None if not ready, or if unknown."""
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
    """When it last became ready or unready."""
    condition = pod.condition("Ready") or {}
    try:
        return Object.of({"status": condition}).moment("status", "lastTransitionTime")
    except ValueError:
        return None


def trouble(pod: Object, node: Object | None = None) -> Trouble:
    """Why an unhealthy pod is not healthy. ``node`` is its node, if known."""
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
    if node is not None and not node.is_true("Ready"):
        return _on_failed_node(pod, node)
    for status in _containers(pod):
        found = _container_trouble(pod, status)
        if found is not None:
            return found
    if phase == "Running":
        condition = pod.condition("Ready") or {}
        if condition.get("reason") == NODE_NOT_READY:
            place = pod.spec["nodeName"]
            return Trouble(NODE_NOT_READY, f"{name} is on node {place}, which is not ready", _back(place))
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


def _on_failed_node(pod: Object, node: Object) -> Trouble:
    condition = node.condition("Ready") or {}
    said = str(condition.get("message") or "it has not reported yet")
    remedy = (
        f"see to what the node reports: kubectl describe node {node.name}"
        if condition.get("status") == "False"
        else _back(node.name)
    )
    return Trouble(
        NODE_NOT_READY, f"pod {pod.name} is on node {node.name}, which is not ready: {said}", remedy
    )


def _back(node: str) -> str:
    return f"bring node {node} back, or if it is gone for good: kubectl delete node {node}"


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
        return Trouble("Unschedulable", f"pod {pod.name} has no node: {said}", _fit(said))
    return Trouble("PodPending", f"pod {pod.name} has no node yet", "check that a scheduler is running")


def _fit(said: str) -> str:
    """What would help a pod that fits no node, for these reasons."""
    rest = _NODE_TAINT.sub("", said)
    others = (
        "add a node that fits, or ask for less in the pod template (requests, selectors, affinity, "
        "tolerations)"
    )
    if rest == said:
        return others
    nodes = "see why these nodes take no pods: kubectl describe nodes"
    return f"{nodes}; {others}" if re.search(r": \d", rest) else nodes


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
    """The first container that failed without a message, and whether that was its previous run."""
    for status in _containers(pod):
        if status.get("ready"):
            continue
        for field, previous in (("state", False), ("lastState", True)):
            found = (status.get(field) or {}).get("terminated")
            if found is not None and found.get("exitCode"):
                return None if found.get("message") else (str(status.get("name")), previous)
    return None


def _ended_before(pod: Object, condition: Mapping[str, Any]) -> str:
    """How a restarted container ended that has not been ready since, or empty."""
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
    # An unknown user or a missing command has this reason too; then the message says what helps.
    if reason == "CreateContainerConfigError" and _MISSING_SOURCE.search(message):
        return "create the ConfigMap or Secret that the container refers to, with the key that it names"
    if reason == "FailedMount" and (missing := _MISSING_OBJECT.search(message)):
        kind = _KINDS[missing["kind"]]
        return (
            f"create {kind} {missing['name']} in namespace {pod.namespace}, or correct its name in the pod's "
            "volumes"
        )
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
