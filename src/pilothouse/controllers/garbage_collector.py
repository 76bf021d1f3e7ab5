"""The garbage collector: deletes objects whose owners are gone.

An object lives as long as one of its owners does. Owners are identified by uid: a later object of the same
name is not the owner. The deletion of the owner chose the propagation policy: *background*, the owner is
deleted at once, and its dependents follow; *foreground*, the owner waits, with the finalizer
``foregroundDeletion``, until the dependents that block it are gone; *orphan*, the owner waits, with the
finalizer ``orphan``, until no object names it as an owner.

A missing owner in a cache proves nothing, since each kind is watched on its own: before anything is deleted,
the server is asked whether the owner exists after all. An object is deleted only in the version that was
seen: it may have got another owner meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from pilothouse.api.kind_names import KindName
from pilothouse.api.objects import Object
from pilothouse.meta.names import path_segment
from pilothouse.runtime.controller import EVERY, Names, ReconcileKey, controller
from pilothouse.runtime.intents import Delete, Intent, ObjectTarget, PatchObject, RecordEvent, Wait
from pilothouse.runtime.snapshot import Snapshot

FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"
_LONGEST_NAME: Final = 253


def relatives(changed: Object, world: Snapshot) -> Names:
    """Its owners, which may wait for it, and its dependents, which may have to be deleted."""
    for reference in changed.owners:
        noun = _noun(reference, world)
        if noun is not None:
            yield ReconcileKey(noun, changed.namespace if noun.namespaced else "", reference["name"])
    for dependent in world.dependents(changed):
        noun = _noun({"apiVersion": dependent.api_version, "kind": dependent.kind}, world)
        if noun is not None:
            yield ReconcileKey(noun, dependent.namespace, dependent.name)


def concerns_relatives(before: Object, after: Object) -> bool:
    """Its owners, deletion and finalizers: a heartbeat or a status does not matter."""
    return (
        before.uid != after.uid
        or before.deleting != after.deleting
        or before.owners != after.owners
        or before.finalizers != after.finalizers
    )


@controller(EVERY, also={EVERY: relatives}, predicate=concerns_relatives, standalone=True)
def garbage(one: Object, world: Snapshot) -> Iterator[Intent]:
    """Delete an object when its last owner is gone."""
    if one.deleting:
        if ORPHAN in one.finalizers:
            yield from _orphan_dependents(one, world)
            return
        if FOREGROUND not in one.finalizers:
            return
        yield from _delete_in_foreground(one, world)
        return
    if not one.owners:
        return
    owners = _Owners.of(one, world)
    if owners.foreign:
        names = ", ".join(f"{owner['kind']} {owner['name']}" for owner in owners.foreign)
        yield RecordEvent(
            one,
            because=f"it can't belong to {names}: an owner is in the same namespace, or cluster-wide",
            event="OwnerRefInvalidNamespace",
            warning=True,
        )
    if owners.unknown:
        kinds = ", ".join(sorted({f"{owner['kind']}.{owner['apiVersion']}" for owner in owners.unknown}))
        yield Wait(
            "UnknownOwnerKind",
            because=f"the server has no kind {kinds}, so it is unknown whether the owner exists",
            remedy="define the kind, or remove the owner reference",
        )
        return
    if owners.solid:
        yield from _drop_gone_owners(one, owners)
    elif owners.waiting and world.dependents(one):
        yield Delete(
            one,
            propagation="Foreground",
            exact=True,
            unless=owners.missing(one),
            because=f"{_names(owners.waiting)} waits for its dependents, and this one has dependents itself",
        )
    elif owners.waiting or owners.absent:
        waits = f"{_names(owners.waiting)} is being deleted and waits for it"
        because = waits if owners.waiting else f"{_names(owners.absent)} is gone"
        yield Delete(
            one,
            propagation=_requested_propagation(one),
            exact=True,
            unless=owners.missing(one),
            because=because,
        )


class _Owners(NamedTuple):
    """An object's owner references, by the state of the owners."""

    solid: list[Mapping[str, Any]]
    """Existing, and not waiting for dependents."""
    waiting: list[Mapping[str, Any]]
    """Being deleted, dependents first."""
    absent: list[Mapping[str, Any]]
    foreign: list[Mapping[str, Any]]
    """Of a namespace, for an object that has none."""
    unknown: list[Mapping[str, Any]]
    """Of a kind that the server does not have."""
    nouns: dict[str, KindName]

    @classmethod
    def of(cls, one: Object, world: Snapshot) -> _Owners:
        owners = cls([], [], [], [], [], {})
        for reference in one.owners:
            noun = _noun(reference, world)
            if noun is None:
                owners.unknown.append(reference)
                continue
            owners.nouns[reference["uid"]] = noun
            if noun.namespaced and not one.namespace:
                owners.foreign.append(reference)
                continue
            found = world.find(noun, one.namespace if noun.namespaced else "", reference["name"])
            if found is None or found.uid != reference["uid"]:
                owners.absent.append(reference)
            elif found.deleting and FOREGROUND in found.finalizers:
                owners.waiting.append(reference)
            else:
                owners.solid.append(reference)
        return owners

    def missing(self, one: Object) -> tuple[ObjectTarget, ...]:
        """The owners missing from the caches, for the server to confirm, if their names are valid."""
        return tuple(
            ObjectTarget(
                noun := self.nouns[owner["uid"]],
                one.namespace if noun.namespaced else "",
                owner["name"],
                owner["uid"],
            )
            for owner in self.absent
            if _can_exist(owner)
        )


def _can_exist(owner: Mapping[str, Any]) -> bool:
    name = str(owner["name"])
    return len(name) <= _LONGEST_NAME and not path_segment(name)


def _drop_gone_owners(one: Object, owners: _Owners) -> Iterator[Intent]:
    """An object with an owner left: remove the references to those that are gone."""
    past = [*owners.absent, *(owner for owner in owners.waiting if owner.get("blockOwnerDeletion"))]
    if not past:
        return
    gone = {owner["uid"] for owner in past}
    kept = [dict(owner) for owner in one.owners if owner["uid"] not in gone]
    yield PatchObject(
        one,
        {"metadata": {"ownerReferences": kept}},
        exact=True,
        unless=owners.missing(one),
        because=f"{_names(past)} no longer keeps it, {_names(owners.solid)} does",
    )


def _delete_in_foreground(owner: Object, world: Snapshot) -> Iterator[Intent]:
    """Foreground deletion: wait for the dependents that block it."""
    blocking = [one for one in world.dependents(owner) if _blocks(one, owner)]
    if blocking:
        if ring := _owners_in_a_cycle(owner, world):
            yield _unblocked(owner, ring)
            return
        names = ", ".join(f"{one.kind} {one.name}" for one in blocking[:3])
        more = f" and {len(blocking) - 3} more" if len(blocking) > 3 else ""
        held = sorted({finalizer for one in blocking if one.deleting for finalizer in one.finalizers})
        yield Wait(
            "DependentsRemain",
            because=f"waiting for its dependents to be deleted: {names}{more}",
            remedy=f"have the finalizers removed by their controllers: {', '.join(held)}" if held else "",
        )
        return
    yield from _release(owner, FOREGROUND, because="no dependent blocks its deletion")


def _owners_in_a_cycle(one: Object, world: Snapshot) -> set[str]:
    """Uids of owners that wait, directly or indirectly, for the object itself: they would forever."""
    waiting_for = {one.uid}
    queue = [one]
    while queue:
        owner = queue.pop()
        for dependent in world.dependents(owner):
            waits = dependent.deleting and FOREGROUND in dependent.finalizers
            if waits and dependent.uid not in waiting_for and _blocks(dependent, owner):
                waiting_for.add(dependent.uid)
                queue.append(dependent)
    return {
        owner["uid"]
        for owner in one.owners
        if owner.get("blockOwnerDeletion") and owner["uid"] in waiting_for
    }


def _unblocked(one: Object, ring: set[str]) -> PatchObject:
    references = [
        {**owner, "blockOwnerDeletion": False} if owner["uid"] in ring else dict(owner)
        for owner in one.owners
    ]
    names = _names([owner for owner in one.owners if owner["uid"] in ring])
    return PatchObject(
        one,
        {"metadata": {"ownerReferences": references}},
        exact=True,
        because=f"{names} and this object own each other and are all being deleted, so none may wait for it",
    )


def _orphan_dependents(owner: Object, world: Snapshot) -> Iterator[Intent]:
    """Orphan deletion: remove the references of all dependents, then the finalizer."""
    for one in world.dependents(owner):
        kept = [dict(reference) for reference in one.owners if reference["uid"] != owner.uid]
        yield PatchObject(
            one,
            {"metadata": {"ownerReferences": kept or None}},
            exact=True,
            because=f"{owner.kind} {owner.name} is deleted and orphans its dependents",
        )
    yield from _release(owner, ORPHAN, because="its dependents are orphaned")


def _release(owner: Object, finalizer: str, *, because: str) -> Iterator[Intent]:
    kept = [other for other in owner.finalizers if other != finalizer]
    yield PatchObject(owner, {"metadata": {"finalizers": kept or None}}, exact=True, because=because)


def _blocks(one: Object, owner: Object) -> bool:
    return any(
        reference["uid"] == owner.uid and reference.get("blockOwnerDeletion") for reference in one.owners
    )


def _requested_propagation(one: Object) -> Any:
    """The propagation policy of an object's own deletion, if one was requested."""
    if ORPHAN in one.finalizers:
        return "Orphan"
    return "Foreground" if FOREGROUND in one.finalizers else "Background"


def _noun(reference: Mapping[str, Any], world: Snapshot) -> KindName | None:
    group, _, _ = reference["apiVersion"].rpartition("/")
    return next(
        (noun for noun in world.nouns if noun.kind == reference["kind"] and noun.group == group), None
    )


def _names(owners: list[Mapping[str, Any]]) -> str:
    return " and ".join(f"{owner['kind']} {owner['name']}" for owner in owners)
