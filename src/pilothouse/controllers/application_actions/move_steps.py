"""The steps of moving a volume to another tier, for executors that move one or several.

    match move_step(change, "fast", since, because, world):
        case MoveDone(): ...
        case MoveFailed(reason, message): ...
        case MoveWaits(message, left, intents): ...

The claim gets a class with another tier, and the node copies. When it waits for the pod to stop once, the pod
is evicted within its disruption budget (``controllers.disruptions``), by name and with the reason. The node
holds the pod's start until the copy is whole. The move is done once a pod has been ready on the copy. If none
is in time, the pod is evicted again, the node returns to the old copy, and the move has failed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from pilothouse.api.kind_names import Pod, PodDisruptionBudget
from pilothouse.api.local_volumes import (
    AWAITING_READY,
    AWAITING_RESTART,
    FAILED,
    KEPT,
    RETURNED,
    VOLUME_MOVE,
)
from pilothouse.api.objects import Object
from pilothouse.api.owner_chain import pods_of_claim
from pilothouse.api.pod_health import ended
from pilothouse.base.rfc3339 import format_time, parse_time
from pilothouse.controllers.application_actions.class_changes import (
    CLASS_READS,
    ClassChange,
    NotChanged,
    progress_of,
)
from pilothouse.controllers.disruptions import DisruptionAccount
from pilothouse.runtime.intents import Intent, SeenCondition
from pilothouse.runtime.snapshot import Snapshot

MOVE_READS: Final = (*CLASS_READS, Pod, PodDisruptionBudget)
MOVE_SECONDS: Final = 86400.0
"""How long a move may take."""
UNUSED_SECONDS: Final = 600.0
"""How long no pod has to want a moved volume, until the move is done without one that became ready."""
_BY: Final = "volume-move"
_POLL: Final = 10.0
"""Seconds until a budget is looked at again."""


class MoveDone(msgspec.Struct, frozen=True):
    """The volume is in the other tier."""

    message: str


class MoveFailed(msgspec.Struct, frozen=True):
    reason: str
    message: str


class MoveWaits(msgspec.Struct, frozen=True):
    """What it waits for; ``intents`` help it on."""

    message: str
    left: float
    intents: tuple[Intent, ...] = ()
    is_held: bool = False
    """Whether a pod that has to stop once can't be evicted, as its owner has arranged."""
    unused_since: str = ""
    """Since when no pod wants the moved volume; empty if one does. For the next call."""


MoveStep = MoveDone | MoveFailed | MoveWaits


def move_step(
    change: ClassChange, tier: str, since: float, because: str, world: Snapshot, unused_since: str = ""
) -> MoveStep:
    """How far a move is whose class the claim has asked for since then."""
    claim = change.claim
    condition: Mapping[str, Any] = claim.condition(VOLUME_MOVE) or {}
    under_way, reason = condition.get("status") == "True", str(condition.get("reason", ""))
    # A step that failed after the switch is retried by the node.
    retried = change.is_reached and condition.get("status") == "False" and reason == FAILED
    if change.is_reached and not retried and (not under_way or reason == KEPT):
        return MoveDone(f"the volume of claim {claim.name} is in tier {tier}")
    if reason == RETURNED and _answered(claim) == change.to:
        message = f"the volume of claim {claim.name} does not stay in tier {tier}: {condition.get('message')}"
        return MoveFailed(RETURNED, message)
    left = since + MOVE_SECONDS - world.now
    if (under_way or retried) and left > 0:
        message = f"the volume of claim {claim.name} moves to tier {tier}"
        message += f": {condition.get('message') or reason}"
        if reason == AWAITING_RESTART:
            return _restarted(claim, message, left, because, world)
        if reason == AWAITING_READY and all(ended(pod) for pod in pods_of_claim(claim, world)):
            return _unused(claim, tier, message, left, unused_since, world)
        return MoveWaits(message, left)
    if under_way or retried:
        hours = f"{MOVE_SECONDS / 3600:g} hours"
        what = f"the volume of claim {claim.name} is not in tier {tier} after {hours}"
        return MoveFailed("NotMoved", f"{what}: {condition.get('message') or reason}")
    progress = progress_of(change, since, world.now, longest=MOVE_SECONDS)
    if isinstance(progress, NotChanged):
        return MoveFailed(progress.reason, progress.message)
    return MoveWaits(progress.message, progress.left)


def _answered(claim: Object) -> str:
    """The class that the node's last answer is about."""
    modify: Mapping[str, Any] = claim.status.get("modifyVolumeStatus") or {}
    return str(modify.get("targetVolumeAttributesClassName") or "")


def _unused(
    claim: Object, tier: str, message: str, left: float, unused_since: str, world: Snapshot
) -> MoveStep:
    """Wait a while for a pod that wants the volume: its owner may be about to create one."""
    since = unused_since or format_time(world.now)
    remaining = parse_time(since) + UNUSED_SECONDS - world.now
    if remaining <= 0:
        return MoveDone(f"the volume of claim {claim.name} is in tier {tier}, and no pod uses it")
    return MoveWaits(f"{message}; no pod uses it", min(left, remaining), unused_since=since)


def _has_started(pod: Object) -> bool:
    """Whether a pod has its volumes. One that has not is held by the node."""
    if pod.status.get("phase") != "Pending":
        return True
    containers = [
        *(pod.status.get("initContainerStatuses") or ()),
        *(pod.status.get("containerStatuses") or ()),
    ]
    return any(
        one.get("restartCount")
        or any((one.get("state") or {}).get(state) for state in ("running", "terminated"))
        for one in containers
    )


def _restarted(claim: Object, message: str, left: float, because: str, world: Snapshot) -> MoveStep:
    """Evict the pods that use the volume, if the node still waits for that: the claim of this snapshot may be
    older than its pods, and the next pod, which has the copy, need not stop."""
    account, intents, kept = DisruptionAccount(world), [], []
    premise = SeenCondition(claim, VOLUME_MOVE)
    for pod in pods_of_claim(claim, world):
        if pod.deleting or ended(pod) or not _has_started(pod):
            continue
        if pod.controller is None:
            kept.append(f"pod {pod.name} has no controller that would start it again: restart it yourself")
        elif why := account.why_kept(pod):
            kept.append(f"pod {pod.name} can't be evicted: {why}")
        else:
            intents.append(account.evict(pod, by=_BY, because=because, premise=premise))
    if kept:
        return MoveWaits(f"{message}; {'; '.join(kept)}", min(left, _POLL), tuple(intents), is_held=True)
    return MoveWaits(message, left, tuple(intents))
