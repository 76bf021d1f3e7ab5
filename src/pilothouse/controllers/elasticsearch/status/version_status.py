"""The condition ``VersionAccepted``: which version is requested, which versions run, and why they differ.

kind, status, reason, message = version_accepted(observed, refused)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from pilothouse.api.navigator.conditions import WRONG_IMAGE
from pilothouse.api.pod_health import healthy, trouble
from pilothouse.controllers.elasticsearch.observed.database_container import IMAGE_REASONS, with_flags
from pilothouse.controllers.elasticsearch.observed.observed_cluster import ObservedCluster
from pilothouse.controllers.elasticsearch.steps.image_check import IMAGE_MISSING, wrong_image
from pilothouse.controllers.elasticsearch.steps.reconcile_step import ReconcileStep
from pilothouse.controllers.elasticsearch.steps.version_policy import IN_DOUBT, REFUSED
from pilothouse.meta.versions import Version

ACCEPTED: Final = "VersionAccepted"
WRONG: Final = "WrongImage"


def version_accepted(
    observed: ObservedCluster, refused: Sequence[ReconcileStep]
) -> tuple[str, str, str, str]:
    """Type, status, reason and message."""
    asked, runs = str(observed.cluster.spec["version"]), _running(observed)
    for step in refused:
        if step.reason in (REFUSED, IN_DOUBT, IMAGE_MISSING):
            return ACCEPTED, "False", step.reason, f"{asked} is requested, {runs}: {step.message}"
    for node in observed.nodes:
        if node.has_wrong_image and node.made_for == asked:
            return (
                ACCEPTED,
                "False",
                WRONG,
                f"{asked} is requested, {runs}: {wrong_image(node, observed.world)}",
            )
        pod = node.pod
        if pod is None or pod.deleting or healthy(pod) or node.made_for != asked:
            continue
        if (why := trouble(pod)).reason in IMAGE_REASONS:
            return (
                ACCEPTED,
                "False",
                IMAGE_MISSING,
                f"{asked} is requested, {runs}: {with_flags(why.sentence)}",
            )
        if WRONG_IMAGE in node.not_ready_message:
            return (
                ACCEPTED,
                "False",
                WRONG,
                f"{asked} is requested, {runs}: {node.name}: {node.not_ready_message}",
            )
    if not all(node.version == asked for node in observed.nodes):
        reason = "ClusterPaused" if observed.cluster.spec.get("paused") else "RollingOut"
        return ACCEPTED, "True", reason, f"{asked} is requested, {runs}."
    if not all(node.is_up for node in observed.nodes):
        up = sum(node.is_up for node in observed.nodes)
        message = f"All nodes were last seen with {asked}; {up} of {len(observed.nodes)} are serving."
        return ACCEPTED, "True", "Accepted", message
    return ACCEPTED, "True", "Running", f"All nodes run {asked}."


def _running(observed: ObservedCluster) -> str:
    """The versions that nodes report, as text."""
    counts = Counter(node.version for node in observed.nodes if node.version)
    if not counts:
        return "no node has reported a version yet"
    texts = [
        f"{count} {'node runs' if count == 1 else 'nodes run'} {version}"
        for version, count in sorted(counts.items(), key=lambda each: Version.parse(each[0]))
    ]
    if silent := len(observed.nodes) - counts.total():
        texts.append(f"{silent} {'has' if silent == 1 else 'have'} reported none yet")
    return ", ".join(texts)
