"""The health of the whole cluster, as the leading pilot reports it.

    health = reported_health(pilots, lease)
    health.status                            # "Green", "Yellow", "Red"; "" if unknown

A report counts only if it comes from the holder of the cluster's lease and was made in that term. Whether it
was made before or after a node came back is decided by ``members`` (ADR 10), never by a clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from pilothouse.api.objects import Object
from pilothouse.base.rfc3339 import parse_time


class ClusterHealth(msgspec.Struct, frozen=True):
    """What is known of the whole cluster; nothing, if no pilot leads."""

    status: str = ""
    uuid: str = ""
    settled: bool = False
    members: Mapping[str, str] = {}
    without_vote: tuple[str, ...] = ()
    shards: Mapping[str, Any] | None = None
    read_only_indices: Mapping[str, Any] | None = None
    """Indices that Elasticsearch has made read-only because a disk was nearly full."""
    redundancy: Mapping[str, Any] | None = None
    rebalance: Mapping[str, Any] | None = None


def reported_health(pilots: Iterable[Object], lease: Object | None) -> ClusterHealth:
    """What the leading pilot reports."""
    if lease is None:
        return ClusterHealth()
    holder = str(lease.spec.get("holderIdentity") or "").partition("_")[0]
    leader = next((pilot for pilot in pilots if pilot.name == holder), None)
    report = leader.at("status", "elasticsearch", "cluster") if leader is not None else None
    if not report or not report.get("observedTime"):
        return ClusterHealth()
    acquired = lease.spec.get("acquireTime")
    if acquired and parse_time(report["observedTime"]) < parse_time(acquired) // 1:
        # Seen in an earlier term of the same pilot.
        return ClusterHealth()
    return _read(report)


def latest_reported_health(pilots: Iterable[Object]) -> ClusterHealth:
    """What any leader reported last: good enough for the status while the leader changes."""
    pilots = list(pilots)
    if not any(pilot.is_true("Ready") for pilot in pilots):
        return ClusterHealth()
    found = [pilot.at("status", "elasticsearch", "cluster") for pilot in pilots]
    reports = [one for one in found if one and one.get("observedTime")]
    return (
        _read(max(reports, key=lambda one: parse_time(one["observedTime"]))) if reports else ClusterHealth()
    )


def _read(report: Mapping[str, Any]) -> ClusterHealth:
    return ClusterHealth(
        status=report.get("health") or "",
        uuid=report.get("clusterUUID") or "",
        settled=bool(report.get("settled")),
        members=report.get("members") or {},
        without_vote=tuple(report.get("withoutVote") or ()),
        shards=report.get("shards"),
        read_only_indices=report.get("readOnlyIndices"),
        redundancy=report.get("redundancy"),
        rebalance=report.get("rebalance"),
    )
