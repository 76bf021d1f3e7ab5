"""The invariants of executors, whatever fails: the simulator checks them on every write.

    Scenario(…, invariants=(*ACTION_INVARIANTS, *PROMISES["stateful-sets"]))

A field that an executor has written is one whose field manager is a controller; what other clients write to
it is exempt.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pilothouse.api.applications.registry import BUILT_IN, application_of_cluster
from pilothouse.api.attributes_classes import COMPUTED, current_class, requested_class
from pilothouse.api.disruption_target import disruption_of
from pilothouse.api.kind_names import (
    ApplicationAction,
    PersistentVolume,
    PersistentVolumeClaim,
    Pilot,
    Pod,
    StatefulSet,
    StoragePool,
    VolumeAttributesClass,
)
from pilothouse.api.local_volumes import AWAITING_RESTART, KEPT, VOLUME_MOVE
from pilothouse.api.navigator.labels import DECOMMISSIONED_FOR
from pilothouse.api.objects import Object
from pilothouse.api.openstorage.actions import (
    EXPAND_POOL,
    MOVE,
    REBALANCE_POOL,
    REDUNDANCY,
    RESOURCES,
    SCALE,
    SET_IOPS,
)
from pilothouse.api.owner_chain import claims_of_pod
from pilothouse.controllers.application_actions.action_status import is_finished, reason_of
from pilothouse.runtime.invariants import Invariant, ObjectStates, invariant

_WRITTEN: Final = frozenset({"Applied", "Modifying", "Moving", "Expanding"})
"""The reasons of actions that have written their field."""
_CLUSTERS: Final = tuple(each.cluster for each in BUILT_IN if each.cluster is not None)
_CONTROLLERS: Final = "pilothouse-"
"""How the names of their field managers begin."""


@invariant(ApplicationAction)
def one_pool_at_a_time_is_changed(
    facts: ObjectStates, before: Object | None, after: Object | None
) -> str | None:
    """In the whole cluster."""
    if after is None or after.spec.get("action") not in (EXPAND_POOL, REBALANCE_POOL):
        return None
    names = [one.name for one in _running(facts, EXPAND_POOL, REBALANCE_POOL)]
    return f"{' and '.join(names)} change pools at once" if len(names) > 1 else None


@invariant(ApplicationAction)
def an_action_ends_once(facts: ObjectStates, before: Object | None, after: Object | None) -> str | None:
    """What is in its status at the end stays, but for what a rule finds out about its effect."""
    if before is None or after is None or not is_finished(before):
        return None
    was, is_so = before.status.get("phase"), after.status.get("phase")
    if was != is_so or reason_of(before) != reason_of(after):
        return f"{after.name} was {was}, {reason_of(before)}, and is {is_so}, {reason_of(after)}"
    return None


@invariant(PersistentVolumeClaim)
def a_claim_is_asked_once_for_the_class_of_an_action(
    facts: ObjectStates, before: Object | None, after: Object | None
) -> str | None:
    """An action that says Running asks for it, instead of the class that it has found, and not again."""
    if before is None or after is None or before.uid != after.uid:
        return None
    was, asked = requested_class(before), requested_class(after)
    if was == asked or not _written(after, "spec", "volumeAttributesClassName"):
        return None
    for action in _running(facts, SET_IOPS, MOVE):
        found = action.at("status", "before", "class", default="")
        if action.at("spec", "object", "uid") == after.uid and asked in _classes(action):
            if reason_of(action) in _WRITTEN:
                return f"{action.name} has asked for class {asked} and asks again, instead of {was}"
            return None if was == found else f"{action.name} asks for {asked}; it found {found}, not {was}"
    for action in _running(facts, REBALANCE_POOL):
        progress = action.at("status", "progress", default={})
        if progress.get("class") == asked and progress.get("claim") == f"{after.namespace}/{after.name}":
            return f"{action.name} asks for {asked} again" if progress.get("requested") else None
    return f"claim {after.name} is to have class {asked} instead of {was}, which no running action is about"


@invariant(PersistentVolumeClaim)
def the_volumes_of_a_rebalance_move_one_by_one(
    facts: ObjectStates, before: Object | None, after: Object | None
) -> str | None:
    if after is None or (move := after.condition(VOLUME_MOVE)) is None or move.get("status") != "True":
        return None
    for action in _running(facts, REBALANCE_POOL):
        listed = [each.partition("=")[0] for each in action.at("spec", "target", "moves").split(",")]
        names = [name for name in listed if _moves(facts, action, *name.split("/"))]
        if len(names) > 1:
            return f"{action.name} moves {' and '.join(names)} at once"
    return None


@invariant(Pod)
def a_pod_stops_for_a_move_when_its_node_waits_for_it(
    facts: ObjectStates, before: Object | None, after: Object | None
) -> str | None:
    if before is None or before.deleting or after is None or not after.deleting:
        return None
    taken = disruption_of(after)
    if taken is None or "volume-move" not in taken.by:
        return None
    claims = [facts.find(PersistentVolumeClaim, after.namespace, name) for name in claims_of_pod(after)]
    reasons = [str((each.condition(VOLUME_MOVE) or {}).get("reason", "")) for each in claims if each]
    if AWAITING_RESTART in reasons:
        return None
    return f"pod {after.name} is evicted, and its node does not wait for that: {', '.join(reasons)}"


@invariant(VolumeAttributesClass)
def a_class_that_is_in_use_stays(
    facts: ObjectStates, before: Object | None, after: Object | None
) -> str | None:
    """A computed class is deleted when no claim and no volume has it or asks for it."""
    if before is None or after is not None or before.labels.get(COMPUTED) != "true":
        return None
    for claim in facts.all(PersistentVolumeClaim):
        if before.name in (requested_class(claim), current_class(claim)):
            return f"class {before.name} is deleted, and claim {claim.name} uses it"
    for volume in facts.all(PersistentVolume):
        if volume.spec.get("volumeAttributesClassName") == before.name:
            return f"class {before.name} is deleted, and volume {volume.name} uses it"
    return None


@invariant(StatefulSet, StoragePool, *_CLUSTERS)
def a_field_is_set_once_and_from_what_was_found(
    facts: ObjectStates, before: Object | None, after: Object | None
) -> str | None:
    """So that no action overrules another client: neither before it has set the field nor afterwards."""
    if before is None or after is None or before.uid != after.uid:
        return None
    for what, name, path in _fields(after):
        was, is_so = _value(before, path), _value(after, path)
        if was == is_so or not _written(after, *path):
            continue
        for action in _running(facts, name):
            if _is_about(facts, action, after) and (problem := _wrong(action, was, is_so)) is not None:
                if problem:
                    return f"{action.name} sets {what} of {after.name} from {was} to {is_so}: {problem}"
                break
        else:
            return f"{what} of {after.name} is set from {was} to {is_so}, which no running action is about"
    return None


@invariant(Pilot)
def pods_of_a_set_are_drained_one_by_one(
    facts: ObjectStates, before: Object | None, after: Object | None
) -> str | None:
    """By rules: so that no more than one member is missing from a majority."""
    if after is None or not _is_drained_by_a_rule(after):
        return None
    stem = after.name.rpartition("-")[0]
    same = [one for one in facts.all(Pilot, after.namespace) if one.name.rpartition("-")[0] == stem]
    drained = sorted(
        one.name for one in same
        if _is_drained_by_a_rule(one) and facts.find(Pod, one.namespace, one.name) is not None
        and _ordinal(one) < _replicas(facts, one.namespace, stem)
    )  # fmt: skip
    return f"{' and '.join(drained)} are drained at once" if len(drained) > 1 else None


def _running(facts: ObjectStates, *names: str) -> list[Object]:
    return [
        one for one in facts.all(ApplicationAction)
        if one.spec.get("action") in names and one.status.get("phase") == "Running"
    ]  # fmt: skip


def _written(one: Object, *path: str | Mapping[str, str]) -> bool:
    """Whether a controller has written a field last."""
    return any(each.startswith(_CONTROLLERS) for each in one.managers(*path)[:1])


def _classes(action: Object) -> tuple[str, ...]:
    target = action.at("spec", "target", default={})
    return (str(target.get("class") or target.get("to")),)


def _moves(facts: ObjectStates, action: Object, namespace: str, name: str) -> bool:
    """Whether the volume of a claim has to be copied yet, or its pod has to be ready, by an action on its
    pool."""
    claim = facts.find(PersistentVolumeClaim, namespace, name)
    progress = action.at("status", "progress", default={})
    known = (*progress.get("moved", "").split(","), progress.get("claim", ""))
    if claim is None or f"{namespace}/{name}" not in known:
        return False
    move = claim.condition(VOLUME_MOVE) or {}
    return move.get("status") == "True" and move.get("reason") != KEPT


_Path = tuple[str | Mapping[str, str], ...]


def _fields(owner: Object) -> Iterator[tuple[str, str, _Path]]:
    """The fields of an object that actions set: for people, the name of the action, and the path."""
    if owner.noun == StoragePool:
        yield "capacity", EXPAND_POOL, ("spec", "capacity")
    elif owner.noun == StatefulSet and owner.controller is None:
        yield "replicas", SCALE, ("spec", "replicas")
        for each in owner.at("spec", "template", "spec", "containers", default=()):
            container = {"name": each["name"]}
            yield "resources", RESOURCES, (*_CONTAINERS, container, "resources", "limits", "memory")
    elif (application := application_of_cluster(owner.noun.group, owner.kind)) is not None:
        if application.copies:
            yield "copies", REDUNDANCY, ("spec", *application.copies)
        if (fields := application.pools) is not None:
            for each in owner.spec.get(fields.pools) or ():
                pool = ("spec", fields.pools, {"name": each["name"]})
                yield "replicas", SCALE, (*pool, fields.replicas)
                yield "resources", RESOURCES, (*pool, fields.resources, "limits", "memory")


_CONTAINERS: Final = ("spec", "template", "spec", "containers")


def _value(one: Object, path: _Path) -> str:
    """As actions write it; empty if it is not set."""
    value: Any = one.tree
    for step in path:
        if isinstance(step, str):
            value = value.get(step) if isinstance(value, Mapping) else None
        else:
            value = next((each for each in value or () if step.items() <= each.items()), None)
    return "" if value is None else str(value)


def _is_about(facts: ObjectStates, action: Object, owner: Object) -> bool:
    """Whether an action's object is this one, or is controlled by it."""
    uid = str(action.at("spec", "object", "uid", default=""))
    about = facts.of(uid)
    return uid == owner.uid or (about is not None and (about.controller or {}).get("uid") == owner.uid)


def _wrong(action: Object, was: str, is_so: str) -> str | None:
    """Why an action may not set a field so; empty if it may, None if it is about another value."""
    before, to = action.at("status", "before", default={}), str(action.at("spec", "target", "to", default=""))
    if action.spec.get("action") == SCALE and reason_of(action) == "Draining":
        last = str(action.at("status", "after", "value", default=""))
        if int(is_so) != int(was) - 1 or int(is_so) < int(to):
            return "a set that is drained shrinks by one"
        return "" if was == last else f"it has left it at {last}"
    if is_so != to:
        return None
    if reason_of(action) in _WRITTEN:
        return "it has set it already"
    found = str(before.get("value", ""))
    if action.spec.get("action") == EXPAND_POOL or was == found:
        return ""
    return f"it found {found or 'none'}"


def _is_drained_by_a_rule(pilot: Object) -> bool:
    return bool(pilot.spec.get("decommission")) and pilot.annotations.get(DECOMMISSIONED_FOR) == "rule"


def _ordinal(one: Object) -> int:
    return int(one.name.rpartition("-")[2])


def _replicas(facts: ObjectStates, namespace: str, name: str) -> int:
    found = facts.find(StatefulSet, namespace, name)
    return int(found.spec.get("replicas", 1)) if found is not None else 0


ACTION_INVARIANTS: Final[tuple[Invariant, ...]] = (
    one_pool_at_a_time_is_changed,
    an_action_ends_once,
    a_claim_is_asked_once_for_the_class_of_an_action,
    the_volumes_of_a_rebalance_move_one_by_one,
    a_pod_stops_for_a_move_when_its_node_waits_for_it,
    a_class_that_is_in_use_stays,
    a_field_is_set_once_and_from_what_was_found,
    pods_of_a_set_are_drained_one_by_one,
)
