"""The status of a cluster and its conditions.

    status_of(observed, step, refused, problem=problem)

``Available``: it serves, and a node is ready for requests. ``Progressing``: what is being changed.
``Degraded``: what is wrong, and what would help. ``Paused``: whether it is, once it was. ``Secured``: whether
security is on, if the spec asks for it. ``Redundant``: whether indices have the copies that it asks for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from pilothouse.api.navigator.conditions import HOOK_FAILED, OUT_OF_TOUCH, WRONG_IMAGE
from pilothouse.api.navigator.database_exit import crash_of
from pilothouse.api.objects import Object, Tree
from pilothouse.api.pod_health import healthy, trouble
from pilothouse.base.rfc3339 import format_time
from pilothouse.controllers.elasticsearch.desired.pools import base_name
from pilothouse.controllers.elasticsearch.desired.security import secured
from pilothouse.controllers.elasticsearch.observed.cluster_nodes import ClusterNode
from pilothouse.controllers.elasticsearch.observed.database_container import IMAGE_REASONS, with_flags
from pilothouse.controllers.elasticsearch.observed.observed_cluster import ObservedCluster
from pilothouse.controllers.elasticsearch.status.version_status import WRONG, version_accepted
from pilothouse.controllers.elasticsearch.status.volume_shortage import (
    FULL,
    READ_ONLY,
    full_and_down,
    fullest_volume,
    shortage,
)
from pilothouse.controllers.elasticsearch.steps.image_check import archive_source, import_advice, wrong_image
from pilothouse.controllers.elasticsearch.steps.reconcile_step import ReconcileStep
from pilothouse.controllers.elasticsearch.steps.scale_up import STARTING, unexpandable_claims
from pilothouse.meta.conditions import with_condition, without_condition
from pilothouse.meta.versions import Version
from pilothouse.runtime.snapshot import Snapshot

AS_ASKED: Final = "AsAsked"
PAUSED: Final = "ClusterPaused"
RESUMED: Final = "ClusterResumed"
REDUNDANT: Final = "Redundant"
_START_TIMEOUT: Final = 300.0
"""Seconds in which a node should have started."""
HEALTH_RED: Final = "HealthRed"
_RETRY: Final = (
    "; Elasticsearch has given up after several failures: "
    "once their cause is gone, POST /_cluster/reroute?retry_failed=true"
)
_EXITED: Final = frozenset({"CrashLoopBackOff", "ContainerExited"})
_DATABASE_ENDED: Final = "DatabaseEnded"
_NOT_READY: Final = "PodNotReady"
_CAUSED_BY_FULL: Final = frozenset({HEALTH_RED, OUT_OF_TOUCH, _DATABASE_ENDED, _NOT_READY, *_EXITED})
"""Problems that a full disk may be the cause of."""


def status_of(
    observed: ObservedCluster,
    step: ReconcileStep | None,
    refused: Sequence[ReconcileStep],
    *,
    problem: str = "",
) -> Tree:
    """The status with the step in progress and the refused ones. Fields of other writers stay."""
    cluster, health = observed.cluster, observed.latest_health
    staying = [node for node in observed.nodes if not node.leaving]
    status: Tree = {
        **cluster.status,
        "observedGeneration": cluster.generation,
        "nodePools": {name: _pool_status(observed, name) for name in observed.pools},
        "replicas": len(staying),
        "readyReplicas": sum(node.is_up for node in staying),
        "conditions": _conditions(observed, step, refused, problem),
    }
    _put(status, "health", health.status or None)
    _put(status, "version", _lowest(observed.nodes))
    _put(status, "shards", health.shards)
    _put(status, "fullestVolume", fullest_volume(observed))
    _put(status, "rebalance", health.rebalance)
    if health.uuid:
        # Once it is known the cluster is never bootstrapped again, whichever pilot leads.
        status["clusterUUID"] = health.uuid
    return status


def summary(status: Tree, step: ReconcileStep | None) -> str:
    """The status in a sentence."""
    health = status.get("health") or "unknown"
    doing = f"; {step.message}" if step is not None else ""
    return f"{status['readyReplicas']} of {status['replicas']} nodes are ready, health is {health}{doing}"


def _pool_status(observed: ObservedCluster, name: str) -> Tree:
    nodes = [node for node in observed.nodes_of(name) if not node.leaving]
    asked = str(observed.cluster.spec["version"])
    updated = sum(
        not node.why_unsettled(observed.sets.get(name)) and asked in (node.made_for, node.version)
        for node in nodes
    )
    found: Tree = {
        "replicas": len(nodes),
        "readyReplicas": sum(node.is_up for node in nodes),
        "updatedReplicas": updated,
        "currentReplicas": len(nodes) - updated,
    }
    _put(found, "version", _lowest(nodes))
    return found


def _conditions(
    observed: ObservedCluster, step: ReconcileStep | None, refused: Sequence[ReconcileStep], problem: str
) -> list[Tree]:
    cluster, now = observed.cluster, format_time(observed.now)
    conditions: Any = cluster.status.get("conditions")
    paused = bool(cluster.spec.get("paused"))
    found = [_available(observed), *_pausing(cluster), _progressing(observed, step, problem, paused=paused)]
    found.append(_degraded(observed, refused, problem))
    found.append(version_accepted(observed, refused))
    if observed.security.asked:
        found.append(secured(observed.security, observed.pilots))
    if cluster.spec.get("redundancy"):
        found.append(_redundant(observed))
    else:
        conditions = without_condition(conditions, REDUNDANT)
    for kind, status, reason, message in found:
        condition = {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "observedGeneration": cluster.generation,
        }
        conditions = with_condition(conditions, condition, now=now)
    return list(conditions)


_Condition = tuple[str, str, str, str]


def _available(observed: ObservedCluster) -> _Condition:
    health = observed.latest_health.status
    if health in ("Green", "Yellow") and (closed := _why_unreachable(observed)):
        return (
            "Available",
            "False",
            "NoNodeReady",
            f"The cluster's health is {health}, but {closed.removesuffix('.')}.",
        )
    read_only = ""
    if (short := shortage(observed)) is not None and short.reason == READ_ONLY:
        read_only = f", but {short.gist}"
    if health == "Green":
        return "Available", "True", "HealthGreen", f"The cluster's health is Green{read_only}."
    if health == "Yellow":
        message = f"The cluster's health is Yellow: {_lacking(observed)}{read_only}."
        return "Available", "True", "HealthYellow", message
    if health == "Red":
        message = f"The cluster's health is Red, some data can't be reached: {_lacking(observed)}."
        return "Available", "False", "HealthRed", message
    if not observed.is_formed:
        return "Available", "False", "NotFormed", "The nodes have not formed a cluster yet."
    return "Available", "Unknown", "HealthUnknown", "No pilot reports the health of the cluster."


def _redundant(observed: ObservedCluster) -> _Condition:
    asked: Tree = observed.cluster.spec["redundancy"]
    found = observed.latest_health.redundancy
    if found is None or _wanted_copies(found) != _wanted_copies(asked):
        return REDUNDANT, "False", "NotTakenUp", "The leading pilot has not taken up spec.redundancy yet."
    if not found.get("kept"):
        return REDUNDANT, "False", "CopiesMissing", str(found.get("message") or "")
    return REDUNDANT, "True", "CopiesKept", str(found.get("message") or "")


def _wanted_copies(redundancy: Mapping[str, Any]) -> tuple[Any, list[str]]:
    return redundancy.get("copies"), sorted(redundancy.get("indices") or ())


def _why_unreachable(observed: ObservedCluster) -> str:
    """Why no request is answered, whatever the shards: the service has no ready node; empty if it has."""
    if observed.is_reachable:
        return ""
    problems = (node.why_unsettled(None) for node in observed.serving_nodes)
    why = next(filter(None, problems), "there is none")
    return f"no node that takes requests is ready behind service {base_name(observed.cluster)}: {why}"


def _pausing(cluster: Object) -> Iterable[_Condition]:
    if cluster.spec.get("paused"):
        yield "Paused", "True", PAUSED, "The cluster is paused: no changes are made."
    elif cluster.condition("Paused") is not None:
        yield "Paused", "False", RESUMED, "The cluster is no longer paused."


def _progressing(
    observed: ObservedCluster, step: ReconcileStep | None, problem: str, *, paused: bool
) -> _Condition:
    if paused:
        return "Progressing", "False", PAUSED, "The cluster is paused: no changes are made."
    if problem:
        return "Progressing", "False", "Blocked", problem
    if observed.cluster.is_true("Paused"):
        return "Progressing", "True", RESUMED, "The cluster is no longer paused."
    if step is None and observed.latest_health.status in ("Yellow", "Red"):
        health = observed.latest_health.status
        message = f"All nodes are as specified, but the cluster's health is {health}: {_lacking(observed)}."
        return "Progressing", "False", AS_ASKED, message
    if step is None and (outdated := _why_shards_unknown(observed)):
        return "Progressing", "True", "HealthOutdated", f"All nodes are as specified, but {outdated}."
    if step is None and (short := shortage(observed)) is not None:
        return "Progressing", "False", AS_ASKED, f"All nodes are as specified, but {short.gist}."
    if step is None:
        return "Progressing", "False", AS_ASKED, "Everything is as specified."
    if step.reason == STARTING and (full := full_and_down(observed)):
        # The node does not get ready before there is space.
        return "Progressing", "False", FULL, f"{full}; {step.message}"
    return "Progressing", "False" if step.refused else "True", step.reason, step.message


def _degraded(observed: ObservedCluster, refused: Sequence[ReconcileStep], problem: str) -> _Condition:
    if problem:
        return "Degraded", "True", "ObjectTaken", problem
    short = shortage(observed)
    found = _problem(observed, refused)
    if short is not None:
        # Refused writes are worse than any change that is not done; a nearly full disk is reported after it.
        worst, other = (short.reason, short.message), found
        # A full disk may be why a node is away or data is unavailable.
        caused = found is not None and short.reason == FULL and found[0] in _CAUSED_BY_FULL
        if other is not None and other[1] in short.message:
            return "Degraded", "True", *worst
        if found is not None and short.reason != READ_ONLY and not caused:
            worst, other = found, (short.reason, short.message)
        return "Degraded", "True", worst[0], "; ".join(filter(None, (worst[1], other[1] if other else "")))
    if found is not None:
        return "Degraded", "True", *found
    if observed.latest_health.status == "Yellow":
        return "Degraded", "False", AS_ASKED, "No problems with the nodes; see Available for the shards."
    return "Degraded", "False", AS_ASKED, "No problems found."


def _problem(observed: ObservedCluster, refused: Sequence[ReconcileStep]) -> tuple[str, str] | None:
    """What is wrong besides full disks: a reason and a message."""
    if refused:
        return refused[0].reason, "; ".join(step.message for step in refused)
    for node in observed.nodes:
        if found := _node_problem(node, observed.now, observed.world):
            return found
    if observed.latest_health.status == "Red":
        return (
            HEALTH_RED,
            f"Some data can't be reached: {_lacking(observed)}{_RETRY if _gave_up(observed) else ''}",
        )
    if observed.security.unrenewable:
        return observed.security.unrenewable
    if fixed := unexpandable_claims(observed):
        return "VolumesCannotGrow", fixed
    return None


def _why_shards_unknown(observed: ObservedCluster) -> str:
    """Why it is unknown whether all copies exist; empty if it is known."""
    health = observed.latest_health
    if not health.status:
        return "the state of its shards is unknown: no pilot reports it"
    up = {node.name: node.started for node in observed.nodes if node.is_up}
    ours = {name for name in health.members if name.startswith(f"{base_name(observed.cluster)}-")}
    if gone := sorted(ours - {node.name for node in observed.nodes}):
        return f"its shards have not been counted since {', '.join(gone)} left"
    if new := sorted(name for name, started in up.items() if health.members.get(name) != started):
        return f"its shards have not been counted since {', '.join(new)} joined"
    return ""


def _lacking(observed: ObservedCluster) -> str:
    """What keeps the cluster from being Green."""
    shards = observed.latest_health.shards or {}
    counts = [
        f"{count} {'shard' if count == 1 else 'shards'} {'is' if count == 1 else 'are'} {doing}"
        for field, doing in (("unassigned", "unassigned"), ("initializing", "initializing"))
        if (count := int(shards.get(field) or 0))
    ]
    text = ", ".join(counts) or "not all shards are allocated"
    return f"{text}; {str(why).removesuffix('.')}" if (why := shards.get("explanation")) else text


def _gave_up(observed: ObservedCluster) -> bool:
    """Whether a shard has failed so often that Elasticsearch does not retry it."""
    return "maximum number of retries" in str((observed.latest_health.shards or {}).get("explanation") or "")


def _node_problem(node: ClusterNode, now: float, world: Snapshot) -> tuple[str, str] | None:
    """What is wrong with a node that does not recover by itself: a reason and a message."""
    if node.has_wrong_image:
        return WRONG, wrong_image(node, world)
    pod, pilot = node.pod, node.pilot
    if pod is not None and not pod.deleting and not healthy(pod):
        why = trouble(pod)
        crash = crash_of(pilot) if pilot is not None else ""
        if why.reason in IMAGE_REASONS:
            return why.reason, _image_advice(pod, why.sentence, world)
        if crash and why.reason in (*_EXITED, _NOT_READY):
            # The database's own error says more than that its container has ended.
            lines = f"kubectl get pilot {node.name} -n {pod.namespace} -o jsonpath='{{.status.lastExit.log}}'"
            return _DATABASE_ENDED, f"{node.name} does not start: {crash}; its last log lines: {lines}"
        if why.reason == _NOT_READY:
            # A slow start is not a problem.
            if node.down_for(now) >= _START_TIMEOUT or _reason(pilot) in (HOOK_FAILED, OUT_OF_TOUCH):
                remedy = import_advice(pod, world) if WRONG_IMAGE in node.not_ready_message else why.remedy
                return _reason(pilot) or why.reason, f"{node.why_unsettled(None)}; {remedy}"
        elif why.remedy or why.reason == "Unschedulable":
            return why.reason, f"{why.sentence}; {why.remedy}" if why.remedy else why.sentence
    if (
        pilot is not None
        and (ready := pilot.condition("Ready")) is not None
        and ready.get("status") == "Unknown"
    ):
        place = f" on node {pod.spec['nodeName']}" if pod is not None and pod.spec.get("nodeName") else ""
        return "PilotSilent", f"{node.name}{place}: {ready.get('message', '')}"
    return None


def _reason(pilot: Object | None) -> str:
    return str(((pilot.condition("Ready") if pilot is not None else None) or {}).get("reason") or "")


def _image_advice(pod: Object, sentence: str, world: Snapshot) -> str:
    """How to import the image that a pod waits for: that of the pilot, which comes first, or that of the
    database.

    Our nodes suggest the command themselves, with their data folder; they can't know that an archive of
    Elasticsearch has everything in one folder.
    """
    waiting = {
        status["name"]
        for status in pod.status.get("initContainerStatuses") or ()
        if ((status.get("state") or {}).get("waiting") or {}).get("reason") in IMAGE_REASONS
    }
    if waiting:
        return (
            f"{sentence}; leave spec.pilotImage out, or set it to host/pilothouse: "
            "our nodes have the pilot installed"
        )
    message = with_flags(sentence)
    if "pilothouse image import" not in message:
        return f"{message}; {import_advice(pod, world)}"
    return f"{message}; {archive_source(pod, world)}"


def _lowest(nodes: Iterable[ClusterNode]) -> str | None:
    return min((node.version for node in nodes if node.version), key=Version.parse, default=None)


def _put(tree: Tree, field: str, value: Any) -> None:
    if value is None:
        tree.pop(field, None)
    else:
        tree[field] = value
