"""``application/rebalance``: whether the data of an application can be spread anew on request."""

from __future__ import annotations

from typing import Final

from pilothouse.api.kind_names import KindName
from pilothouse.api.objects import Object
from pilothouse.api.openstorage.v1alpha1 import RuleAction
from pilothouse.api.owner_chain import topmost
from pilothouse.rules.action_targets import (
    ActionTarget,
    ObjectLookup,
    TargetDeclined,
    TargetNotReady,
    TargetResult,
)
from pilothouse.rules.targets.application_copies import cluster_application
from pilothouse.rules.targets.workload_replicas import READS as WORKLOAD_READS

READS: Final[tuple[KindName, ...]] = WORKLOAD_READS


def application_rebalance(action: RuleAction, about: Object, world: ObjectLookup) -> TargetResult:
    """An empty target: data lies evenly afterwards."""
    cluster = topmost(about, world.find)
    application = cluster_application(cluster)
    if application is None or not application.rebalances:
        return TargetDeclined(f"{cluster.kind} {cluster.name} does not rebalance its data on request")
    report = cluster.status.get("rebalance")
    if report is None or report.get("enabled"):
        return TargetDeclined(f"{cluster.kind} {cluster.name} rebalances its data at any time")
    if report.get("request"):
        return TargetNotReady(
            f"{cluster.kind} {cluster.name} has a request to rebalance: {report['request']}"
        )
    return ActionTarget()
