"""The pods and revisions of a set: those that it controls and that match its selector and name.

    members = list_members(stateful_set, wanted, world)
    members.pods                    # {0: web-0, 1: web-1}
    members.intents                 # patches that adopt and release

A matching orphan is adopted if the set still exists on the server and is not being deleted; a pod of
the set that no longer matches is released; pods of other owners are left alone.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from pilothouse.api.kind_names import ControllerRevision, KindName, Pod, StatefulSet
from pilothouse.api.objects import Object, owner_reference
from pilothouse.controllers.stateful_sets.pod_identity import ordinal_of
from pilothouse.controllers.stateful_sets.set_spec import SetSpec
from pilothouse.runtime.intents import Intent, ObjectTarget, PatchObject
from pilothouse.runtime.snapshot import Snapshot


class SetMembers(msgspec.Struct, frozen=True):
    """What belongs to a set, once the intents are executed."""

    pods: Mapping[int, Object]
    revisions: tuple[Object, ...]
    """From the oldest to the latest."""
    intents: tuple[Intent, ...]


def list_members(stateful_set: Object, wanted: SetSpec, world: Snapshot) -> SetMembers:
    intents: list[Intent] = []
    pods: dict[int, Object] = {}
    for pod in _candidates(Pod, stateful_set, wanted, world):
        ordinal = ordinal_of(stateful_set.name, pod.name)
        if ordinal is not None and wanted.selector.matches(pod.labels):
            if pod.controller is None:
                if stateful_set.deleting or pod.deleting:
                    continue
                intents.append(_adopt(stateful_set, pod))
            pods[ordinal] = pod
        elif pod.owned_by(stateful_set) and not stateful_set.deleting:
            intents.append(_release(stateful_set, wanted, pod))
    revisions = []
    for revision in _candidates(ControllerRevision, stateful_set, wanted, world):
        if revision.controller is None:
            if revision.deleting:
                continue
            intents.append(_adopt(stateful_set, revision))
        revisions.append(revision)
    return SetMembers(pods, tuple(sorted(revisions, key=_age)), tuple(intents))


def number(revision: Object) -> int:
    """The number of a revision; 0 for one that has none."""
    found = revision.get("revision", 0)
    return found if isinstance(found, int) else 0


def _age(revision: Object) -> tuple[int, str, str]:
    return number(revision), str(revision.at("metadata", "creationTimestamp", default="")), revision.name


def _candidates(noun: KindName, stateful_set: Object, wanted: SetSpec, world: Snapshot) -> list[Object]:
    """Those that the set controls, and those that it might adopt."""
    owned = world.owned(noun, stateful_set)
    orphans = world.orphans(noun, stateful_set.namespace)
    return [*owned, *(one for one in orphans if wanted.selector.matches(one.labels))]


def _adopt(stateful_set: Object, one: Object) -> PatchObject:
    others = [owner for owner in one.owners if owner.get("uid") != stateful_set.uid]
    return PatchObject(
        one,
        {"metadata": {"ownerReferences": [*others, owner_reference(stateful_set)]}},
        exact=True,
        provided=ObjectTarget(StatefulSet, stateful_set.namespace, stateful_set.name, stateful_set.uid),
        because=f"adopting {one.kind} {one.name}, which matches and has no owner",
    )


def _release(stateful_set: Object, wanted: SetSpec, pod: Object) -> PatchObject:
    others = [owner for owner in pod.owners if owner.get("uid") != stateful_set.uid]
    why = (
        f"its labels do not match {wanted.selector}"
        if not wanted.selector.matches(pod.labels)
        else f"its name is not {stateful_set.name} with an ordinal"
    )
    return PatchObject(
        pod,
        {"metadata": {"ownerReferences": others or None}},
        exact=True,
        because=f"releasing pod {pod.name}, since {why}",
    )
