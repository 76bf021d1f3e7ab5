"""Which labels of a series name the object that it is about.

    JoinLabels(volume=("pv", "volumename"))

Prometheus renames ``namespace`` and ``pod`` of a page to ``exported_namespace`` and ``exported_pod`` where
the target has labels of these names, so the renamed ones come first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

SeriesKey = tuple[str, ...]
"""What a series is about, such as ``("pod", namespace, name)``."""


class JoinLabels(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Label names; of several the first that a series has. An empty value counts as none."""

    volume: tuple[str, ...] = ("volumename",)
    namespace: tuple[str, ...] = ("exported_namespace", "namespace")
    claim: tuple[str, ...] = ("persistentvolumeclaim",)
    pod: tuple[str, ...] = ("exported_pod", "pod")
    node: tuple[str, ...] = ("node",)
    statefulset: tuple[str, ...] = ("statefulset",)
    deployment: tuple[str, ...] = ("deployment",)
    cluster: tuple[str, ...] = ("cluster",)
    pool: tuple[str, ...] = ("pool",)
    device: tuple[str, ...] = ("device",)
    machine: tuple[str, ...] = ("node", "instance")
    """The node of a device: its name, or one of its addresses, with or without a port."""


DEFAULT_LABELS: Final = JoinLabels()
EMBEDDED_LABELS: Final = JoinLabels(statefulset=(), deployment=())
"""Of pages that are scraped from pods, which may speak of themselves and their cluster alone: by these labels
a series that names a pod is about no machine either."""
_PORT: Final = re.compile(r"(?<=[^:]):[0-9]+$")
_MACHINES: Final = frozenset({"device", "storagepool", "node"})


def object_key(series: Mapping[str, str], labels: JoinLabels = DEFAULT_LABELS) -> SeriesKey | None:
    """Which volumes a series is about, by its most specific label: ``("volume", name)``, ``("claim",
    namespace, name)``, ``("pod", namespace, name)``, ``("node", name)``; None if it carries none of them."""
    for label in labels.volume:
        if volume := series.get(label):
            return "volume", volume
    for label in labels.namespace:
        if namespace := series.get(label):
            for label in labels.claim:
                if claim := series.get(label):
                    return "claim", namespace, claim
            for label in labels.pod:
                if pod := series.get(label):
                    return "pod", namespace, pod
            break
    for label in labels.node:
        if node := series.get(label):
            return "node", node
    return None


def level_keys(level: str, series: Mapping[str, str], labels: JoinLabels) -> list[SeriesKey]:
    """What a series may be about at a level other than ``volume``, the most specific first."""
    if level in _MACHINES and labels == EMBEDDED_LABELS and first_label(series, labels.pod):
        return []
    return [key for way in _WAYS.get(level, ()) if (key := way(series, labels)) is not None]


def every_key(series: Mapping[str, str], labels: JoinLabels) -> list[SeriesKey]:
    """What a series is about at all levels, the most specific first: an expression may drop labels."""
    return [key for way in _EVERY if (key := way(series, labels)) is not None]


def first_label(series: Mapping[str, str], names: tuple[str, ...]) -> str:
    """The value of the first of these labels that a series has, or empty."""
    return next((value for name in names if (value := series.get(name))), "")


_Way = Callable[[Mapping[str, str], JoinLabels], SeriesKey | None]


def _named(what: str) -> _Way:
    """A way by one label."""

    def key(series: Mapping[str, str], labels: JoinLabels) -> SeriesKey | None:
        name = first_label(series, getattr(labels, what))
        return (what, name) if name else None

    return key


def _within_namespace(what: str) -> _Way:
    """A way by the namespace and one label."""

    def key(series: Mapping[str, str], labels: JoinLabels) -> SeriesKey | None:
        name = first_label(series, getattr(labels, what))
        namespace = first_label(series, labels.namespace) if name else ""
        return (what, namespace, name) if namespace else None

    return key


def _device(series: Mapping[str, str], labels: JoinLabels) -> SeriesKey | None:
    device, machine = first_label(series, labels.device), first_label(series, labels.machine)
    host = _PORT.sub("", machine).strip("[]")
    return ("device", host, device) if device and host else None


_POD: Final = _within_namespace("pod")
_CLAIM: Final = _within_namespace("claim")
_OWNERS: Final = (_within_namespace("statefulset"), _within_namespace("deployment"))
_WORKLOAD: Final = (*_OWNERS, _POD, _CLAIM)
_CLUSTER: Final = _within_namespace("cluster")
_EVERY: Final[tuple[_Way, ...]] = (
    _named("volume"), _CLAIM, _POD, *_OWNERS, _named("pool"), _device, _CLUSTER, _named("node"),
)  # fmt: skip
_WAYS: Final[Mapping[str, tuple[_Way, ...]]] = {
    "pod": (_POD, _CLAIM, _named("node")),
    "workload": _WORKLOAD,
    "application": (_CLUSTER, *_WORKLOAD),
    "storagepool": (_named("pool"),),
    "node": (_named("node"),),
    "device": (_device,),
}
