"""Which labels of a series name the object that it is about.

    JoinLabels(volume=("pv", "volumename"))

Prometheus renames ``namespace`` and ``pod`` of a page to ``exported_namespace`` and ``exported_pod`` where
the target has labels of these names, so the renamed ones come first.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class JoinLabels(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Label names; of several the first that a series has. An empty value counts as none."""

    volume: tuple[str, ...] = ("volumename",)
    namespace: tuple[str, ...] = ("exported_namespace", "namespace")
    claim: tuple[str, ...] = ("persistentvolumeclaim",)
    pod: tuple[str, ...] = ("exported_pod", "pod")
    node: tuple[str, ...] = ("node",)


DEFAULT_LABELS = JoinLabels()


def object_key(series: Mapping[str, str], labels: JoinLabels = DEFAULT_LABELS) -> tuple[str, ...] | None:
    """What a series is about, by its most specific label: ``("volume", name)``, ``("claim", namespace,
    name)``, ``("pod", namespace, name)``, ``("node", name)``; None if it carries none of the labels."""
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
