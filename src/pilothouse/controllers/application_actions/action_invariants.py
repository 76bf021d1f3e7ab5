"""The invariants of executors, whatever fails: the simulator checks them on every write."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pilothouse.api.kind_names import (
    ApplicationAction,
    PersistentVolumeClaim,
    Pilot,
    Pod,
    StatefulSet,
    StoragePool,
)
from pilothouse.api.local_volumes import AWAITING_RESTART, VOLUME_MOVE
from pilothouse.api.objects import Object
from pilothouse.api.openstorage.actions import EXPAND_POOL, REBALANCE_POOL
from pilothouse.api.owner_chain import claims_of_pod
from pilothouse.runtime.invariants import Invariant, ObjectStates, invariant

_RUNNING: Final = "Running"
_OURS: Final = "pilothouse-"
_POOLS: Final = (EXPAND_POOL, REBALANCE_POOL)
_CLASS: Final = ("spec", "volumeAttributesClassName")


@invariant(ApplicationAction)
def one_pool_is_changed_at_a_time(
    facts: ObjectStates, before: Object | None, after: Object | None
) -> str | None:
    every = facts.all(ApplicationAction)
    found = [one.name for one in _running(every) if one.spec.get("action") in _POOLS]
    return f"{' and '.join(found)} change pools at once" if len(found) > 1 else None


@invariant(PersistentVolumeClaim, StoragePool)
def an_action_runs_before_anything_is_changed(
    facts: ObjectStates, before: Object | None, after: Object | None
) -> str | None:
    """An executor that dies between its two writes has said what it is about to do."""
    if before is None or after is None or before.uid != after.uid:
        return None
    path = _CLASS if after.noun == PersistentVolumeClaim else ("spec", "capacity")
    if before.at(*path) == after.at(*path) or not _is_ours(after, path):
        return None
    every = facts.all(ApplicationAction)
    if any(one.at("spec", "object", "uid") == after.uid for one in _running(every)):
        return None
    # A rebalance moves the volumes of claims that it names in its progress.
    key = f"{after.namespace}/{after.name}"
    if any((one.status.get("progress") or {}).get("claim") == key for one in _running(every)):
        return None
    return f"{after.kind} {after.name} is changed to {after.at(*path)}, and no action on it runs"


@invariant(Pod)
def a_pod_is_evicted_once_its_volume_is_copied(
    facts: ObjectStates, before: Object | None, after: Object | None
) -> str | None:
    """A pod that nobody else takes down goes while its volume's move waits for it."""
    if before is None or before.deleting or (after is not None and not after.deleting):
        return None
    names = claims_of_pod(before)
    for name in names:
        claim = facts.find(PersistentVolumeClaim, before.namespace, name)
        condition = (claim.condition(VOLUME_MOVE) or {}) if claim is not None else {}
        # A manager may learn of the pod that was started again before it learns that the move is over.
        if condition.get("reason") in (AWAITING_RESTART, None):
            return None
    return f"pod {before.name} is evicted, while its volume is copied" if names else None


@invariant(StatefulSet)
def a_set_shrinks_when_its_last_pod_is_empty(
    facts: ObjectStates, before: Object | None, after: Object | None
) -> str | None:
    """The last copy of what it holds may be there."""
    path = ("spec", "replicas")
    if before is None or after is None or before.uid != after.uid or not _is_ours(after, path):
        return None
    was, now = int(before.spec.get("replicas", 1)), int(after.spec.get("replicas", 1))
    for ordinal in range(now, was):
        pilot = facts.find(Pilot, after.namespace, f"{after.name}-{ordinal}")
        said = (pilot.condition("Decommissioned") or {}) if pilot is not None else {}
        if said.get("status") != "True":
            return f"{after.name} shrinks to {now}, and {after.name}-{ordinal} is not empty"
    return None


def _running(actions: Iterable[Object]) -> list[Object]:
    return [one for one in actions if one.status.get("phase") == _RUNNING]


def _is_ours(one: Object, path: tuple[str, ...]) -> bool:
    return any(name.startswith(_OURS) for name in one.managers(*path))


ACTION_INVARIANTS: Final[tuple[Invariant, ...]] = (
    one_pool_is_changed_at_a_time,
    an_action_runs_before_anything_is_changed,
    a_pod_is_evicted_once_its_volume_is_copied,
    a_set_shrinks_when_its_last_pod_is_empty,
)
