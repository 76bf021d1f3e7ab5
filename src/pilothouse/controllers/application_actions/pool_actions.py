"""``openstorage.io.action.storagepool/expand`` and ``…/rebalance``: one pool at a time in the whole cluster.

    spec:
      action: openstorage.io.action.storagepool/expand
      object: {kind: StoragePool, name: w1-fast, uid: …}
      target: {from: 2Gi, to: 3Gi}

    spec:
      action: openstorage.io.action.storagepool/rebalance
      object: {kind: StoragePool, name: w1-default, uid: …}
      target: {moves: "db/data-0=fast,db/data-1=fast", summary: "Rebalance summary: …"}

An expansion is asked for in ``spec.capacity`` of the pool, and has succeeded when its node reports as much.
One that has failed is withdrawn: the pool asks for what it has, so that a smaller one can follow. A rebalance
moves one volume after the other, by the steps of ``volume_move``; ``status.progress`` says which one, and
which are done. A volume that can't be moved ends it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pilothouse.api.attributes_classes import computed_name, current_class, driver_of, parameters_of
from pilothouse.api.kind_names import (
    ApplicationAction,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    StoragePool,
    VolumeAttributesClass,
)
from pilothouse.api.objects import Object
from pilothouse.api.openstorage.actions import EXPAND_POOL, REBALANCE_POOL
from pilothouse.base.quantity import Quantity, parse_quantity
from pilothouse.base.rfc3339 import format_time, parse_time
from pilothouse.controllers.application_actions.action_attempts import Attempt, first_attempt, next_attempt
from pilothouse.controllers.application_actions.action_pauses import PAUSE_READS, pause_of, pause_under_way
from pilothouse.controllers.application_actions.action_status import (
    COMPLETE,
    SERVICE_ACCOUNT,
    changed_by,
    finished,
    gone,
    is_finished,
    object_of,
    reason_of,
    running,
)
from pilothouse.controllers.application_actions.class_changes import ClassChange
from pilothouse.controllers.application_actions.move_steps import (
    MOVE_READS,
    MoveDone,
    MoveFailed,
    move_step,
)
from pilothouse.runtime.controller import Names, controller
from pilothouse.runtime.intents import Intent, PatchObject, RecordEvent, RequeueAfter, Wait
from pilothouse.runtime.snapshot import Snapshot

EXPAND_SECONDS: Final = 3600.0
"""How long a node may take to grow a pool."""
REFUSED_SECONDS: Final = 600.0
"""How long it may say that it can't."""
HELD_SECONDS: Final = 3600.0
"""How long a pod that can't be evicted may hold up the move of its volume, and so all other pools."""
_ACTIONS: Final = (EXPAND_POOL, REBALANCE_POOL)
_EXPANDING, _WITHDRAWING, _MOVING = "Expanding", "Withdrawing", "Moving"
_EXPANDED: Final = "Expanded"
"""The condition of a pool that, while False, says why it can't grow."""
_CAPACITY: Final = ("spec", "capacity")


def unfinished(changed: Object, world: Snapshot) -> Names:
    """The unfinished actions on pools: any of them may be what another waits for, or have a volume or a pod
    that has changed. There are few."""
    for name in _ACTIONS:
        for action in world.where(ApplicationAction, "spec.action", name):
            if not is_finished(action):
                yield action.key


def others(action: Object, world: Snapshot) -> Names:
    """After the end of an action on a pool, those that wait for it."""
    return unfinished(action, world) if action.spec.get("action") in _ACTIONS else ()


@controller(
    ApplicationAction,
    also={
        ApplicationAction: others,
        StoragePool: unfinished,
        PersistentVolumeClaim: unfinished,
        Pod: unfinished,
    },
    reads=(*MOVE_READS, *PAUSE_READS),
    impersonate=SERVICE_ACCOUNT,
    serial=True,
)
def storage_pools(action: Object, world: Snapshot) -> Iterator[Intent]:
    """Expand or rebalance the pool that an action names, when no other pool is being changed."""
    name = action.spec.get("action")
    if name not in _ACTIONS or action.deleting or is_finished(action):
        return
    pool = object_of(action, StoragePool, world)
    if pool is None:
        yield gone(action, now=world.now)
    elif action.status.get("phase") != "Running" and (other := _other(action, world)):
        message = f"{other.name} changes pool {other.at('spec', 'object', 'name')}; one pool at a time"
        yield Wait("OtherPool", because=message, remedy=f"kubectl get aa {other.name} -n {other.namespace}")
    elif name == EXPAND_POOL:
        yield from _expand(action, pool, world)
    else:
        yield from _rebalance(action, pool, world)


def _other(action: Object, world: Snapshot) -> Object | None:
    """The action that goes first: one that runs, else the oldest."""
    every = [each for name in _ACTIONS for each in world.where(ApplicationAction, "spec.action", name)]
    open_ones = [each for each in every if not is_finished(each) and not each.deleting and each != action]
    running_ones = [each for each in open_ones if each.status.get("phase") == "Running"]
    if running_ones:
        return running_ones[0]
    earlier = [each for each in open_ones if _order(each) < _order(action) and not _is_held(each, world)]
    return min(earlier, key=_order, default=None)


def _is_held(action: Object, world: Snapshot) -> bool:
    """Whether it can't begin, so that it holds up no other: its pool is gone or paused."""
    pool = object_of(action, StoragePool, world)
    return pool is None or pause_of(action, pool, world) is not None


def _order(action: Object) -> tuple[float, str, str]:
    return action.created, action.namespace, action.name


def _expand(action: Object, pool: Object, world: Snapshot) -> Iterator[Intent]:
    now = world.now
    try:
        to = parse_quantity(action.at("spec", "target", "to"))
    except (ValueError, TypeError) as problem:
        message = f"spec.target.to: {problem}"
        yield finished(action, "Failed", "InvalidTarget", message, now=now)
        return
    capacity, asked = _size(pool.status.get("capacity")), _size(pool.spec.get("capacity"))
    began = action.status.get("phase") == "Running"
    if capacity >= to:
        size = {"capacity": str(capacity)}
        before = action.at("status", "before", default=size)
        message = f"pool {pool.name} holds {capacity}"
        yield finished(
            action, "Succeeded", "Expanded", message, now=now, event="Expanded", before=before, after=size
        )
    elif began and reason_of(action) == _WITHDRAWING:
        yield from _withdrawn(action, pool, to, world)
    elif began and asked >= to:
        yield from _expanding(action, pool, to, now)
    elif began and reason_of(action) == _EXPANDING:
        message = f"the capacity of pool {pool.name} was changed from {to} to {asked}"
        message += changed_by(pool, *_CAPACITY)
        yield finished(action, "Failed", "Undone", message, now=now, event="Undone")
    elif pause := pause_of(action, pool, world):
        yield pause
    else:
        attempt = _expansion(action, pool, to)
        if began:
            yield from next_attempt(action, attempt, world)
        else:
            yield from first_attempt(action, attempt, world, before={"capacity": str(capacity)})


def _expansion(action: Object, pool: Object, to: Quantity) -> Attempt:
    rule, capacity = action.spec.get("rule"), pool.status.get("capacity")
    because = f"rule {rule} expands pool {pool.name} from {capacity} to {to}"
    return Attempt(
        doing=f"asking for {to} of pool {pool.name}",
        failed=f"the capacity of pool {pool.name} could not be set to {to}",
        writes=(PatchObject(pool, {"spec": {"capacity": str(to)}}, exact=True, because=because),),
        then=(_EXPANDING, f"pool {pool.name} grows from {capacity} to {to}"),
        events=(RecordEvent(pool, event="ExpandRequested", because=f"{because}: {action.name}"),),
    )


def _expanding(action: Object, pool: Object, to: Quantity, now: float) -> Iterator[Intent]:
    """The capacity is asked for; the node has to follow."""
    began = action.moment("status", "startTime") or now
    condition = pool.condition(_EXPANDED) or {}
    problem = str(condition.get("message") or "") if condition.get("status") == "False" else ""
    left = began + (REFUSED_SECONDS if problem else EXPAND_SECONDS) - now
    message = f"pool {pool.name} grows from {pool.status.get('capacity')} to {to}"
    message += f": {problem}" if problem else ""
    if left <= 0:
        message = f"pool {pool.name} has not grown to {to}: {problem or 'its node has not answered'}"
        yield running(action, _WITHDRAWING, message, now=now)
        yield RequeueAfter(0.0, because="the request for a larger pool is withdrawn")
        return
    yield running(action, _EXPANDING, message, now=now)
    remedy = f"kubectl describe storagepool {pool.name}"
    yield Wait(_EXPANDING, because=message, remedy=remedy, seconds=left)


def _withdrawn(action: Object, pool: Object, to: Quantity, world: Snapshot) -> Iterator[Intent]:
    """The expansion has failed, as the condition says; what others ask of the pool stays."""
    message = str((action.condition(COMPLETE) or {}).get("message", ""))
    if _size(pool.spec.get("capacity")) == to:
        if pause := pause_of(action, pool, world):
            yield pause
            return
        fields = {"spec": {"capacity": pool.status.get("capacity")}}
        yield PatchObject(pool, fields, exact=True, because=f"{message}; the request is withdrawn")
    yield finished(action, "Failed", "NotExpanded", message, now=world.now, event="NotExpanded")


def _rebalance(action: Object, pool: Object, world: Snapshot) -> Iterator[Intent]:
    now = world.now
    moves = [each.partition("=") for each in str(action.at("spec", "target", "moves", default="")).split(",")]
    progress = dict(action.status.get("progress") or {})
    moved = [each for each in progress.get("moved", "").split(",") if each]
    remaining = [(claim, tier) for claim, _, tier in moves if claim and tier and claim not in moved]
    if not remaining:
        message = f"{len(moved)} volumes of node {pool.status.get('node')} were moved: {', '.join(moved)}"
        after = {"moved": ",".join(moved)}
        yield finished(action, "Succeeded", "Rebalanced", message, now=now, event="Rebalanced", after=after)
        return
    if action.status.get("phase") != "Running":
        if pause := pause_of(action, pool, world):
            yield pause
            return
        summary = str(action.at("spec", "target", "summary", default=f"{len(remaining)} volumes are moved"))
        yield running(action, _MOVING, summary, now=now, progress={"moved": ""})
        yield RequeueAfter(0.0, because="the first volume is moved")
        return
    claim_name, tier = remaining[0]
    namespace, _, name = claim_name.partition("/")
    claim = world.find(PersistentVolumeClaim, namespace, name)
    if claim is None or claim.deleting:
        # Its space is freed, which is what the move is for.
        yield _moved(action, moved, claim_name, f"claim {claim_name} is gone", now)
        return
    yield from _move(action, claim, tier, moved, world)


def _move(action: Object, claim: Object, tier: str, moved: list[str], world: Snapshot) -> Iterator[Intent]:
    """The move of one volume."""
    now, name = world.now, f"{claim.namespace}/{claim.name}"
    progress = dict(action.status.get("progress") or {})
    change = _change(progress, claim, name, tier, world)
    if change is None:
        message = f"the volume of claim {name} is not known"
        yield finished(action, "Failed", "VolumeGone", message, now=now, event="VolumeGone")
        return
    because = f"rule {action.spec.get('rule')} moves the volume of claim {name} to tier {tier}"
    if progress.get("claim") != name:
        if other := change.other_change() or change.problem(world):
            yield finished(action, "Failed", "NotMoved", other, now=now, event="NotMoved")
        elif pause := pause_of(action, claim, world):
            yield pause
        else:
            fields = {"moved": ",".join(moved), "claim": name, "class": change.to}
            fields["since"] = format_time(now)
            yield running(action, _MOVING, because, now=now, progress=fields)
            yield from change.writes(world, because=because)
            yield RecordEvent(claim, event="MoveRequested", because=f"{because}: {action.name}")
            yield running(action, _MOVING, because, now=now, progress={**fields, "requested": "true"})
        return
    since = parse_time(progress["since"])
    if not change.is_requested:
        if progress.get("requested") or now - since > REFUSED_SECONDS:
            message = change.undone() if progress.get("requested") else f"claim {name} could not be changed"
            reason = "Undone" if progress.get("requested") else "RequestRefused"
            yield finished(action, "Failed", reason, message, now=now, event=reason)
        elif problem := change.other_change() or change.problem(world):
            yield finished(action, "Failed", "NotMoved", problem, now=now, event="NotMoved")
        elif pause := pause_under_way(action, claim, world):
            yield pause
        else:
            yield from change.writes(world, because=because)
            yield running(action, _MOVING, because, now=now, progress={**progress, "requested": "true"})
        return
    step = move_step(change, tier, since, because, world, progress.pop("unused", ""))
    if isinstance(step, MoveDone):
        yield _moved(action, moved, name, step.message, now)
    elif isinstance(step, MoveFailed):
        message = f"{step.message}; moved before: {', '.join(moved) or 'none'}"
        yield finished(action, "Failed", step.reason, message, now=now, event=step.reason)
    else:
        if step.unused_since:
            progress["unused"] = step.unused_since
        pause = pause_under_way(action, claim, world) if step.intents else None
        waiting = f"{step.message}; {pause.because}" if pause is not None else step.message
        is_held = step.is_held or pause is not None
        if is_held:
            progress.setdefault("held", format_time(now))
        else:
            progress.pop("held", None)
        if is_held and now - parse_time(progress["held"]) > HELD_SECONDS:
            message = f"{waiting}; moved before: {', '.join(moved) or 'none'}"
            yield finished(action, "Failed", "NotEvicted", message, now=now, event="NotEvicted")
            return
        yield running(action, _MOVING, waiting, now=now, progress=progress)
        if pause is not None:
            yield pause
            return
        yield from step.intents
        remedy = f"kubectl describe pvc {claim.name} -n {claim.namespace}"
        yield Wait(_MOVING, because=step.message, remedy=remedy, seconds=step.left)


def _moved(action: Object, moved: list[str], name: str, message: str, now: float) -> Intent:
    return running(action, _MOVING, message, now=now, progress={"moved": ",".join([*moved, name])})


def _change(
    progress: dict[str, str], claim: Object, name: str, tier: str, world: Snapshot
) -> ClassChange | None:
    """The class with the tier. Once it is asked for, it stays the same one."""
    changes = {"tier": tier}
    if progress.get("claim") == name:
        return ClassChange(claim, progress["class"], changes)
    volume = world.find(PersistentVolume, "", str(claim.spec.get("volumeName") or ""))
    if volume is None:
        return None
    present = current_class(claim)
    found = world.find(VolumeAttributesClass, "", present) if present else None
    return ClassChange(claim, computed_name(driver_of(volume), {**parameters_of(found), **changes}), changes)


def _size(text: str | None) -> Quantity:
    return parse_quantity(text) if text else Quantity(0)
