"""Which clusters ask an update server, and what they run.

    log = ClusterRegistry(clock)
    log.note(channel="stable", headers=request.headers, query=request.query)
    log.clusters()

Clusters say it themselves, in headers or in the query of the older form; it is not verified, and cut to what
a line holds. The last ``MOST_CLUSTERS`` that asked are kept, in memory.
"""

from __future__ import annotations

import base64
import binascii
import logging
from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

import msgspec

from pilothouse.base.clock import Clock
from pilothouse.base.rfc3339 import format_time

MOST_CLUSTERS: Final = 10_000
_LONGEST: Final = 100
_LONGEST_DATA: Final = 64 * 1024

log = logging.getLogger(__name__)


class ClusterReport(msgspec.Struct, frozen=True, rename="camel"):
    """What a cluster said when it last asked."""

    cluster: str
    channel: str
    version: str
    controllers: int
    workers: int
    last_seen: str


class ClusterRegistry:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._reports: OrderedDict[str, ClusterReport] = OrderedDict()

    def note(self, channel: str, headers: Mapping[str, str], query: Mapping[str, str]) -> None:
        """Remember a request for the offer of a channel, if it says which cluster it is from."""
        cluster = _line(headers.get("K0S_ClusterID") or query.get("clusterID") or "")
        cluster = cluster.removeprefix("kube-system:")
        if not cluster:
            return
        report = ClusterReport(
            cluster=cluster,
            channel=_line(channel),
            version=_line(headers.get("K0S_Version") or query.get("currentVersion") or ""),
            controllers=_number(headers.get("K0S_ControlPlaneNodesCount", "")),
            workers=_workers(headers.get("K0S_WorkerData", "")),
            last_seen=format_time(self._clock.now()),
        )
        before = self._reports.pop(cluster, None)
        self._reports[cluster] = report
        if len(self._reports) > MOST_CLUSTERS:
            self._reports.popitem(last=False)
        if before is None or (before.version, before.channel) != (report.version, report.channel):
            log.info(
                "cluster %s follows %s and runs %s: %d controllers, %d workers",
                cluster,
                report.channel,
                report.version or "an unknown version",
                report.controllers,
                report.workers,
            )

    def clusters(self) -> list[ClusterReport]:
        """By name."""
        return sorted(self._reports.values(), key=lambda report: report.cluster)


def _line(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text[:_LONGEST])


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 7 else 0


def _workers(encoded: str) -> int:
    """How many nodes a cluster has: each counts once among its operating systems."""
    if len(encoded) > _LONGEST_DATA:
        return 0
    try:
        data = msgspec.json.decode(base64.b64decode(encoded, validate=True), type=dict[str, dict[str, int]])
    except (binascii.Error, ValueError):
        return 0
    return sum(data.get("OSes", {}).values())
