"""The StatefulSet controller: combines the steps into one decision.

First adoption and the current template, then the status, then the next steps for its pods, and last the
history beyond its limit. The status comes before the pods: it reports what is observed, even if no pod can be
created.
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
    """The set that a pod's name belongs to: for its own pods, orphans, and pods that take such a name."""
    parts = split(pod.name)
    return ((pod.namespace, parts[0]),) if parts is not None else ()


def sets_of_claim(claim: Object, world: Snapshot) -> Names:
    """The sets whose claim templates create a claim of this name."""
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
    """Create, update and delete the pods and claims of a set, in order."""
    try:
        wanted = read(stateful_set)
    except UnreadableSpec as error:
        yield Wait("SpecUnreadable", because=f"the spec is invalid: {error}", remedy="correct the field")
        return
    members = list_members(stateful_set, wanted, world)
    if stateful_set.deleting:
        yield from _set_status(stateful_set, wanted, _as_recorded(stateful_set), members, world)
        return
    history = settle(stateful_set, wanted, members.revisions, world)
    plan = progress(SetState(stateful_set, wanted, members.pods, history, world))
    yield from members.intents
    yield from history.intents
    yield from _set_status(stateful_set, wanted, history, members, world, outgoing=plan.outgoing)
    yield from plan.intents
    used = {history.current.name, history.update.name, *map(revision_of, members.pods.values())}
    yield from outlived(wanted, members.revisions, used)


def _set_status(
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
        yield RequeueAfter(soonest, because="a pod will then be ready for spec.minReadySeconds")


def _as_recorded(stateful_set: Object) -> RevisionHistory:
    """The last revisions of a set that is being deleted."""
    status = stateful_set.status
    current = SetRevision(str(status.get("currentRevision") or ""), None)
    update = SetRevision(str(status.get("updateRevision") or ""), None)
    return RevisionHistory(current, update, int(status.get("collisionCount") or 0))
