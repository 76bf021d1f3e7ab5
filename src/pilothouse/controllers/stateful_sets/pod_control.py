"""The next steps for the pods of a set, and what they wait for.

    plan = progress(SetState(set, wanted, members.pods, history, world))
    plan.intents                    # pods and claims to create, pods to delete, why no more
    plan.outgoing                   # how many pods of the current revision are deleted for the update

In this order, each when the one before is complete: create the pods of all ordinals; delete surplus pods, the
highest first; replace pods of an old revision, the highest first. An ordered set takes one step at a time and
stops at the first pod that is not ready, even if the template has been corrected since (Kubernetes' rule: the
wait says which pod to delete by hand); a parallel one does all it can.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from pilothouse.api.kind_names import Pod
from pilothouse.api.objects import Object
from pilothouse.api.pod_health import available, ended, healthy, ready_since, trouble
from pilothouse.base.rfc3339 import format_time
from pilothouse.controllers.stateful_sets.claim_templates import provide, retain
from pilothouse.controllers.stateful_sets.pod_identity import (
    marks,
    new_pod,
    pod_name,
    revision_of,
    uses_its_claims,
)
from pilothouse.controllers.stateful_sets.revisions import RevisionHistory, SetRevision
from pilothouse.controllers.stateful_sets.set_spec import SetSpec
from pilothouse.runtime.intents import Create, Delete, Intent, PatchObject, Wait
from pilothouse.runtime.snapshot import Snapshot

_MAX_NAMED = 3
"""How many waits one message names."""


class SetState(msgspec.Struct, frozen=True):
    """Everything that a step depends on."""

    stateful_set: Object
    wanted: SetSpec
    pods: Mapping[int, Object]
    history: RevisionHistory
    world: Snapshot


class SetPlan(msgspec.Struct, frozen=True):
    """What to do, in order."""

    intents: tuple[Intent, ...]
    outgoing: int = 0


class _Step(msgspec.Struct, frozen=True):
    """The step for one pod. An ordered set continues only from a settled one."""

    intents: tuple[Intent, ...] = ()
    wait: Wait | None = None
    settled: bool = False


MOST_INTENTS: Final = 500
"""Per decision; the resulting changes trigger the next one."""


def progress(state: SetState) -> SetPlan:
    intents: list[Intent] = []
    waits: list[Wait] = []
    outgoing = 0
    for step in _steps(state):
        intents.extend(step.intents)
        if step.wait is not None:
            waits.append(step.wait)
        outgoing += sum(_outgoing(state, intent) for intent in step.intents)
        if (not step.settled and not state.wanted.parallel) or len(intents) >= MOST_INTENTS:
            break
    if waits:
        intents.append(_together(waits))
    elif not intents:
        intents.extend(_held_back(state))
    return SetPlan(tuple(intents), outgoing)


def _steps(state: SetState) -> Iterator[_Step]:
    for ordinal in state.wanted.ordinals:
        pod = state.pods.get(ordinal)
        yield _make(state, ordinal) if pod is None else _keep(state, ordinal, pod)
    beyond = sorted((ordinal for ordinal in state.pods if ordinal not in state.wanted.ordinals), reverse=True)
    for ordinal in beyond:
        pod = state.pods[ordinal]
        owned = tuple(retain(state.stateful_set, state.wanted, ordinal, state.world, pod))
        yield _Step(owned, settled=True)
    for ordinal in beyond:
        yield _dismiss(state, beyond, state.pods[ordinal])
    if not state.wanted.on_delete:
        yield _renew(state)


def _make(state: SetState, ordinal: int) -> _Step:
    """Create the claims, then the pod of an ordinal."""
    stateful_set, wanted = state.stateful_set, state.wanted
    name = pod_name(stateful_set, ordinal)
    other = state.world.find(Pod, stateful_set.namespace, name)
    if other is not None:
        return _Step(wait=_name_taken(other))
    revision = _revision_for(state, ordinal)
    if revision.template is None:
        return _Step(wait=_no_template(state, revision, name))
    needed = provide(stateful_set, wanted, ordinal, state.world)
    if needed.wait is not None:
        return _Step(needed.intents, needed.wait)
    pod = new_pod(stateful_set, wanted, revision.template, revision.name, ordinal)
    because = f"creating pod {name} from revision {revision.name}"
    return _Step((*needed.intents, Create(pod, because=because, event="SuccessfulCreate")))


def _keep(state: SetState, ordinal: int, pod: Object) -> _Step:
    """Replace a pod that has ended; else wait until it is ready, and repair its labels and claims."""
    stateful_set, wanted, world = state.stateful_set, state.wanted, state.world
    if ended(pod) and not pod.deleting:
        because = f"{trouble(pod).sentence}; replacing it"
        return _Step((Delete(pod, because=because, event="SuccessfulDelete"),))
    if pod.deleting:
        return _Step(wait=_not_up(state, pod))
    intents: list[Intent] = []
    pending = pod.status.get("phase") == "Pending"
    if pending:
        needed = provide(stateful_set, wanted, ordinal, world, pod)
        intents.extend(needed.intents)
        if needed.wait is not None:
            return _Step(tuple(intents), needed.wait)
    up = available(pod, wanted.min_ready_seconds, now=world.now)
    if not up and not wanted.parallel:
        return _Step(tuple(intents), _not_up(state, pod))
    if not uses_its_claims(stateful_set, wanted, pod, ordinal):
        return _Step(tuple(intents), _other_storage(pod))
    missing = {key: value for key, value in marks(pod.name, ordinal).items() if pod.labels.get(key) != value}
    if missing:
        because = f"pod {pod.name} lacks its identity labels: {', '.join(missing)}"
        intents.append(
            PatchObject(pod, {"metadata": {"labels": missing}}, because=because, event="SuccessfulUpdate")
        )
    if not pending:
        intents.extend(retain(stateful_set, wanted, ordinal, world, pod))
    return _Step(tuple(intents), None if up else _not_up(state, pod), settled=up)


def _dismiss(state: SetState, beyond: list[int], pod: Object) -> _Step:
    """Delete a surplus pod; in an ordered set, when all others are ready, or it is the lowest that is not."""
    if pod.deleting:
        return _Step(wait=_not_up(state, pod))
    if not state.wanted.parallel and not _up(state, pod):
        # An ordered set gets here only when all other pods are ready.
        ailing = [one for one in (state.pods[ordinal] for ordinal in beyond) if not healthy(one)]
        if not ailing or pod is not ailing[-1]:
            return _Step(wait=_not_up(state, ailing[-1] if ailing else pod))
    because = f"scaling down to {state.wanted.replicas}: deleting pod {pod.name}"
    return _Step((Delete(pod, because=because, event="SuccessfulDelete"),))


def _renew(state: SetState) -> _Step:
    """Replace pods of an old revision: one after the other, or as many as may be unavailable at once."""
    ordinals = state.wanted.ordinals
    reached = range(ordinals.stop - 1, max(ordinals.start, state.wanted.first_updated) - 1, -1)
    if state.wanted.max_unavailable is not None:
        return _renew_some(state, reached, state.wanted.max_unavailable)
    for ordinal in reached:
        pod = state.pods.get(ordinal)
        if pod is None or (ended(pod) and not pod.deleting):
            # This decision creates or replaces it.
            return _Step()
        if _outdated(state, pod) and not pod.deleting:
            return _Step((_replace(state, pod),))
        if not _up(state, pod):
            return _Step(wait=_not_up(state, pod))
    return _Step(settled=True)


def _renew_some(state: SetState, reached: range, most: int) -> _Step:
    up = {
        ordinal for ordinal, pod in state.pods.items() if ordinal in state.wanted.ordinals and _up(state, pod)
    }
    room = most - (state.wanted.replicas - len(up))
    intents = []
    for ordinal in sorted((each for each in state.pods if each in reached), reverse=True):
        pod = state.pods[ordinal]
        if pod.deleting or ended(pod) or not _outdated(state, pod):
            continue
        # Deleting a pod that is down makes nothing unavailable, and its revision may be the cause.
        if ordinal not in up or room > 0:
            room -= ordinal in up
            intents.append(_replace(state, pod))
    return _Step(tuple(intents), settled=True)


def _replace(state: SetState, pod: Object) -> Delete:
    because = (
        f"replacing pod {pod.name} of revision {revision_of(pod) or 'unknown'} "
        f"by one of {state.history.update.name}"
    )
    return Delete(pod, because=because, event="SuccessfulDelete")


def _outdated(state: SetState, pod: Object) -> bool:
    return revision_of(pod) != state.history.update.name


def _up(state: SetState, pod: Object) -> bool:
    return not pod.deleting and available(pod, state.wanted.min_ready_seconds, now=state.world.now)


def _revision_for(state: SetState, ordinal: int) -> SetRevision:
    """The revision of an ordinal: below the partition, the current one."""
    wanted, history = state.wanted, state.history
    if wanted.on_delete:
        return history.update
    kept = wanted.partition
    if kept is None:
        # Without a partition, a pod that is lost before its update is recreated with the current revision.
        recorded = state.stateful_set.status.get("currentReplicas")
        kept = recorded if isinstance(recorded, int) else 0
    return history.current if ordinal < wanted.start + kept else history.update


def _not_up(state: SetState, pod: Object) -> Wait:
    """Why a pod blocks the set, and what would help."""
    if healthy(pod):
        since = ready_since(pod)
        readiness = "does not say since when it is ready"
        if since is not None:
            readiness = f"has been ready since {format_time(since)}"
        because = (
            f"pod {pod.name} {readiness}; it is available after {state.wanted.min_ready_seconds} seconds"
        )
        return Wait("PodNotAvailable", because=because)
    why = trouble(pod)
    remedies = [why.remedy] if why.remedy else []
    if not pod.deleting and not state.wanted.parallel and _outdated(state, pod):
        by_hand = f"kubectl delete pod {pod.name} -n {pod.namespace}"
        remedies.append(
            f"as the set is ordered, the pod gets a corrected template only if you delete it: {by_hand}"
        )
    return Wait(why.reason, because=why.sentence, remedy="; ".join(remedies))


def _name_taken(pod: Object) -> Wait:
    owner = pod.controller
    whose = "does not match the set's selector"
    if owner:
        whose = f"belongs to {owner.get('kind')} {owner.get('name')}"
    if pod.deleting:
        return Wait("NameTaken", because=f"pod {pod.name} exists, {whose}, and is being deleted")
    remedy = f"delete it or give it another name: kubectl delete pod {pod.name} -n {pod.namespace}"
    return Wait("NameTaken", because=f"pod {pod.name} exists and {whose}", remedy=remedy)


def _no_template(state: SetState, revision: SetRevision, name: str) -> Wait:
    gone = f"kubectl delete controllerrevision {revision.name} -n {state.stateful_set.namespace}"
    return Wait(
        "RevisionUnreadable",
        because=f"pod {name} needs revision {revision.name}, which contains no template",
        remedy=f"delete the revision, so that pods get the latest template: {gone}",
    )


def _other_storage(pod: Object) -> Wait:
    return Wait(
        "StorageDiffers",
        because=f"pod {pod.name} does not use the claims of spec.volumeClaimTemplates, and a pod's volumes "
        "can't be changed",
        remedy=f"delete the pod, so that it is replaced: kubectl delete pod {pod.name} -n {pod.namespace}",
    )


def _held_back(state: SetState) -> Iterator[Wait]:
    """Pods that the update strategy leaves at an old revision."""
    old = [pod.name for ordinal, pod in sorted(state.pods.items()) if _outdated(state, pod)]
    if not old:
        return
    more = f" and {len(old) - _MAX_NAMED} more" if len(old) > _MAX_NAMED else ""
    because = f"not of revision {state.history.update.name}: {', '.join(old[:_MAX_NAMED])}{more}"
    if state.wanted.on_delete:
        remedy = "delete these pods when convenient, to have them replaced"
        yield Wait("OnDelete", because=f"{because}; spec.updateStrategy.type is OnDelete", remedy=remedy)
    else:
        where = "spec.updateStrategy.rollingUpdate.partition"
        because = f"{because}; {where} is {state.wanted.partition}"
        yield Wait("Partition", because=because, remedy=f"lower {where} to update them")


def _together(waits: list[Wait]) -> Wait:
    """Several waits as one, with the reason of the first."""
    distinct = list(dict.fromkeys(waits))
    if len(distinct) == 1:
        return distinct[0]
    more = f"; and {len(distinct) - _MAX_NAMED} more" if len(distinct) > _MAX_NAMED else ""
    remedies = dict.fromkeys(wait.remedy for wait in distinct[:_MAX_NAMED] if wait.remedy)
    return Wait(
        distinct[0].reason,
        because="; ".join(wait.because for wait in distinct[:_MAX_NAMED]) + more,
        remedy="; ".join(remedies),
    )


def _outgoing(state: SetState, intent: Intent) -> bool:
    """True for a pod of the current revision that is deleted for the update."""
    return (
        isinstance(intent, Delete)
        and revision_of(intent.seen) == state.history.current.name != state.history.update.name
    )
