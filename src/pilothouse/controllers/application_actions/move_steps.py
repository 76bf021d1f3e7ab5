"""The steps of moving a volume to another tier, for executors that move one or several.

    match move_step(change, "fast", since, because, world):
        case MoveDone(): ...
        case MoveFailed(reason, message): ...
        case MoveWaits(message, left, intents): ...

The claim gets a class with another tier, and the node copies. When it waits for the pod to stop once, the pod
is evicted within its disruption budget (``controllers.disruptions``), by name and with the reason. The node
holds the pod's start until the copy is whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from pilothouse.api.kind_names import Pod, PodDisruptionBudget
from pilothouse.api.local_volumes import AWAITING_RESTART, VOLUME_MOVE
from pilothouse.api.objects import Object
from pilothouse.api.owner_chain import pods_of_claim
from pilothouse.controllers.application_actions.class_changes import (
    CLASS_READS,
    ClassChange,
    NotChanged,
    progress_of,
)
from pilothouse.controllers.disruptions import DisruptionAccount, is_down
from pilothouse.runtime.intents import Intent
from pilothouse.runtime.snapshot import Snapshot

MOVE_READS: Final = (*CLASS_READS, Pod, PodDisruptionBudget)
MOVE_SECONDS: Final = 86400.0
"""How long a move may take."""
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


MoveStep = MoveDone | MoveFailed | MoveWaits


def move_step(change: ClassChange, tier: str, since: float, because: str, world: Snapshot) -> MoveStep:
    """How far a move is whose class the claim has asked for since then."""
    claim = change.claim
    condition: Mapping[str, Any] = claim.condition(VOLUME_MOVE) or {}
    under_way, reason = condition.get("status") == "True", str(condition.get("reason", ""))
    if change.is_reached and (not under_way or reason == "Kept"):
        return MoveDone(f"the volume of claim {claim.name} is in tier {tier}")
    left = since + MOVE_SECONDS - world.now
    if under_way and left > 0:
        message = f"the volume of claim {claim.name} moves to tier {tier}"
        message += f": {condition.get('message') or reason}"
        if reason == AWAITING_RESTART:
            return _restarted(claim, message, left, because, world)
        return MoveWaits(message, left)
    if under_way:
        hours = f"{MOVE_SECONDS / 3600:g} hours"
        what = f"the volume of claim {claim.name} is not in tier {tier} after {hours}"
        return MoveFailed("NotMoved", f"{what}: {condition.get('message') or reason}")
    progress = progress_of(change, since, world.now, longest=MOVE_SECONDS)
    if isinstance(progress, NotChanged):
        return MoveFailed(progress.reason, progress.message)
    return MoveWaits(progress.message, progress.left)


def _restarted(claim: Object, message: str, left: float, because: str, world: Snapshot) -> MoveStep:
    """Evict the pods that use the volume. A pod that has not started is one that the node holds."""
    account, intents, kept = DisruptionAccount(world), [], []
    for pod in pods_of_claim(claim, world):
        if is_down(pod):
            continue
        if pod.controller is None:
            kept.append(f"pod {pod.name} has no controller that would start it again: restart it yourself")
        elif why := account.why_kept(pod):
            kept.append(f"pod {pod.name} can't be evicted: {why}")
        else:
            intents.append(account.evict(pod, by=_BY, because=because))
    if kept:
        return MoveWaits(f"{message}; {'; '.join(kept)}", min(left, _POLL), tuple(intents), is_held=True)
    return MoveWaits(message, left, tuple(intents))
