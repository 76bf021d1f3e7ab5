"""``application/redundancy``: how many copies of its data an application is to keep."""

from __future__ import annotations

from typing import Final

from pilothouse.api.applications.descriptor import Application
from pilothouse.api.applications.registry import application_of_cluster
from pilothouse.api.kind_names import KindName
from pilothouse.api.objects import Object
from pilothouse.api.openstorage.v1alpha1 import RuleAction
from pilothouse.api.owner_chain import topmost
from pilothouse.rules.action_targets import ActionTarget, ObjectLookup, TargetDeclined, TargetResult
from pilothouse.rules.targets.bounded_count import bounded
from pilothouse.rules.targets.workload_replicas import READS as WORKLOAD_READS

READS: Final[tuple[KindName, ...]] = WORKLOAD_READS


def application_copies(action: RuleAction, about: Object, world: ObjectLookup) -> TargetResult:
    """The number of copies."""
    cluster = topmost(about, world.find)
    application = cluster_application(cluster)
    if application is None or not application.copies:
        why = "has no field for the number of its copies"
        return TargetDeclined(f"{cluster.kind} {cluster.name} {why}")
    found = cluster.at("spec", *application.copies)
    if found is None and "copies" not in action.params:
        field = ".".join(("spec", *application.copies))
        return TargetDeclined(
            f"{field} of {cluster.kind} {cluster.name} is not set: there is nothing to step from"
        )
    if found is None:
        # Not equal to any number, so that what is set is a change.
        to = bounded(-1, action.params, absolute="copies", what="copies")
    else:
        to = bounded(int(found), action.params, absolute="copies", what="copies")
    if isinstance(to, TargetDeclined):
        return to
    most = application.most_copies(cluster.spec) if application.most_copies is not None else to
    if to > most and (found is None or to > int(found)):
        return TargetDeclined(f"{to} copies need {to + 1} nodes that hold data, and there are {most + 1}")
    return ActionTarget({"from": "" if found is None else str(found), "to": str(to)})


def cluster_application(cluster: Object) -> Application | None:
    """The application whose cluster this is; None if it is none."""
    return application_of_cluster(cluster.noun.group, cluster.kind)
