"""The StatefulSet controller: what is decided, put together.

    intents = stateful_sets(set, world)

First who belongs to the set and which template counts, then what is said of it, then the next steps for its pods, and at
last what has outlived its use. The status is written before the pods are touched: it tells what is seen, and a
pod that can't be made must not keep it from being told.
"""

from __future__ import annotations

from collections.abc import Iterator

from pilothouse.api.kind_names import ControllerRevision, PersistentVolumeClaim, Pod, StatefulSet
from pilothouse.api.objects import Object
from pilothouse.api.pod_health import available_in
from pilothouse.controllers.stateful_sets.pod_control import SetState, progress
from pilothouse.controllers.stateful_sets.pod_identity import revision_of, split
from pilothouse.controllers.stateful_sets.revisions import RevisionHistory, SetRevision, outlived, settle
from pilothouse.controllers.stateful_sets.set_members import SetMembers, list_members
from pilothouse.controllers.stateful_sets.set_spec import SetSpec, UnreadableSpec, read
from pilothouse.controllers.stateful_sets.set_status import status_of, summary
from pilothouse.runtime.controller import Names, controller
from pilothouse.runtime.intents import Intent, RequeueAfter, SetStatus, Wait
from pilothouse.runtime.snapshot import Snapshot


def set_of_pod(pod: Object, world: Snapshot) -> Names:
    """The set that a pod's name says it is of: the set's own pods, orphans, and those in their place."""
    parts = split(pod.name)
    return ((pod.namespace, parts[0]),) if parts is not None else ()


def sets_of_claim(claim: Object, world: Snapshot) -> Names:
    """The sets whose templates make a claim of this name."""
    parts = split(claim.name)
    if parts is None:
        return
    for one in world.all(StatefulSet, claim.namespace):
        for template in one.spec.get("volumeClaimTemplates") or ():
            if parts[0] == f"{(template.get('metadata') or {}).get('name')}-{one.name}":
                yield one.namespace, one.name


@controller(
    StatefulSet,
    owns=(Pod, ControllerRevision),
    also={Pod: set_of_pod, PersistentVolumeClaim: sets_of_claim},
    standalone=True,
    condition="Reconciled",
)
def stateful_sets(stateful_set: Object, world: Snapshot) -> Iterator[Intent]:
    """Each ordinal of a set has its pod and its claims, made, updated and ended in order."""
    try:
        wanted = read(stateful_set)
    except UnreadableSpec as error:
        yield Wait(
            "SpecUnreadable", because=f"the set can't be understood: {error}", remedy="correct the field"
        )
        return
    members = list_members(stateful_set, wanted, world)
    if stateful_set.deleting:
        yield from _say(stateful_set, wanted, _as_recorded(stateful_set), members, world)
        return
    history = settle(stateful_set, wanted, members.revisions, world)
    plan = progress(SetState(stateful_set, wanted, members.pods, history, world))
    yield from members.intents
    yield from history.intents
    yield from _say(stateful_set, wanted, history, members, world, outgoing=plan.outgoing)
    yield from plan.intents
    used = {history.current.name, history.update.name, *map(revision_of, members.pods.values())}
    yield from outlived(wanted, members.revisions, used)


def _say(
    stateful_set: Object,
    wanted: SetSpec,
    history: RevisionHistory,
    members: SetMembers,
    world: Snapshot,
    *,
    outgoing: int = 0,
) -> Iterator[Intent]:
    pods = members.pods.values()
    status = status_of(stateful_set, wanted, history, pods, outgoing=outgoing, now=world.now)
    if status != stateful_set.status:
        yield SetStatus(stateful_set, status, because=summary(wanted, status))
    left = [available_in(pod, wanted.min_ready_seconds, now=world.now) for pod in pods]
    if soonest := min((seconds for seconds in left if seconds), default=None):
        yield RequeueAfter(soonest, because="a pod will have been ready for spec.minReadySeconds")


def _as_recorded(stateful_set: Object) -> RevisionHistory:
    """The revisions that a set which is going last had."""
    status = stateful_set.status
    current = SetRevision(str(status.get("currentRevision") or ""), None)
    update = SetRevision(str(status.get("updateRevision") or ""), None)
    return RevisionHistory(current, update, int(status.get("collisionCount") or 0))
