"""Which of a node's taints a pod tolerates.

    any(fits(toleration, taint) for toleration in pod.spec["tolerations"])

A toleration without a key matches every taint, one without an effect every effect.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pilothouse.api.objects import Object

Taint = Mapping[str, Any]
UNSCHEDULABLE: Final = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
NOT_READY: Final = "node.kubernetes.io/not-ready"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
CONDITION_TAINTS: Final = {
    NOT_READY: "Ready",
    UNREACHABLE: "Ready",
    "node.kubernetes.io/memory-pressure": "MemoryPressure",
    "node.kubernetes.io/disk-pressure": "DiskPressure",
    "node.kubernetes.io/pid-pressure": "PIDPressure",
    "node.kubernetes.io/network-unavailable": "NetworkUnavailable",
}
"""Keys of the taints that follow from a condition of the node."""


def tolerates(pod: Object, taint: Taint) -> bool:
    return any(fits(toleration, taint) for toleration in pod.spec.get("tolerations") or ())


def fits(toleration: Mapping[str, Any], taint: Taint) -> bool:
    """True if the toleration matches this taint."""
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint.get("key"):
        return False
    if (toleration.get("operator") or "Equal") == "Exists":
        return True
    return bool(toleration.get("key")) and (toleration.get("value") or "") == (taint.get("value") or "")


def forbidding(pod: Object, node: Object) -> Iterator[Taint]:
    """The taints that keep the pod off the node."""
    for taint in node.spec.get("taints") or ():
        if taint.get("effect") in ("NoSchedule", "NoExecute") and not tolerates(pod, taint):
            yield taint


def discouraging(pod: Object, node: Object) -> int:
    """How many ``PreferNoSchedule`` taints the pod doesn't tolerate."""
    return sum(
        taint.get("effect") == "PreferNoSchedule" and not tolerates(pod, taint)
        for taint in node.spec.get("taints") or ()
    )
