"""Defaults of pods that depend on other fields; constants are in the schema."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pilothouse.api.kubernetes.pods.qos_class import quality_of_service
from pilothouse.meta.kind import Object

_LONGEST_GRACE: Final = 2**31 - 1
"""Seconds. With more, a pod's deletion time would have a year that clients can't parse."""


def default_pod(pod: Object) -> None:
    """Defaults of a pod. Those that depend on machine or quota are not set in templates."""
    spec = pod["spec"]
    default_spec(spec)
    spec.setdefault("enableServiceLinks", True)
    for container in _containers(spec, "containers", "initContainers"):
        resources = container.get("resources") or {}
        if resources.get("limits"):
            resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}
        if spec.get("hostNetwork"):
            for port in container.get("ports") or ():
                port["hostPort"] = port.get("hostPort") or port.get("containerPort")


def default_spec(spec: Object) -> None:
    """Defaults of the spec of a pod or of a template."""
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for container in _containers(spec, "containers", "initContainers", "ephemeralContainers"):
        if not container.get("imagePullPolicy"):
            container["imagePullPolicy"] = pull_policy(container.get("image") or "")
    for volume in spec.get("volumes") or ():
        if isinstance(volume, dict) and not volume.keys() - {"name"}:
            volume["emptyDir"] = {}


def grace(pod: Object, asked: int | None) -> int:
    """Grace seconds of a deleted pod: none if it never ran or has ended, else as requested or its own."""
    spec = pod.get("spec") or {}
    if not spec.get("nodeName") or (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return 0
    if asked is not None:
        return asked
    return min(int(spec.get("terminationGracePeriodSeconds") or 0), _LONGEST_GRACE)


def prepare_create(pod: Object) -> None:
    """A new pod is pending, whatever its creator wrote."""
    pod["status"] = {"phase": "Pending", "qosClass": quality_of_service(pod["spec"])}


def pull_policy(image: str) -> str:
    """An image without tag, or with ``latest``, is pulled each time."""
    if "@" in image:
        return "IfNotPresent"
    _, colon, tag = image.rpartition("/")[2].partition(":")
    return "IfNotPresent" if colon and tag != "latest" else "Always"


def _containers(spec: Object, *fields: str) -> Iterator[dict[str, Any]]:
    for field in fields:
        yield from spec.get(field) or ()
