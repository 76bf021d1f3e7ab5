"""What is next in a move between tiers: pure functions of its journal, the claim and the pods.

if is_another_pass_worthwhile(last, before): ...   # whether it leaves much less to copy than the last one
match after_switch(move, pods, now): ...        # keep the old copy, remove it, or return to it
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import Final

import msgspec

from pilothouse.api.objects import Object
from pilothouse.base.rfc3339 import parse_time
from pilothouse.node.volumes.move_journal import MoveRecord
from pilothouse.node.volumes.tree_copy import CopyPass

_SMALL: Final = 4 << 20
"""Bytes that are copied as fast as the tree is walked."""
_SECOND: Final = 1.0
"""What the API's times are rounded to."""


class PodReadiness(msgspec.Struct, frozen=True):
    """A pod that has a moved volume."""

    ready: bool
    since: float
    """When that last changed."""


class AfterSwitch(Enum):
    WAIT = auto()
    REMOVE = auto()
    """Remove the old copy."""
    RETURN = auto()
    """Return to the old copy, once no pod uses the volume."""


def readiness(pod: Object) -> PodReadiness:
    condition = pod.condition("Ready") or {}
    since = condition.get("lastTransitionTime")
    return PodReadiness(condition.get("status") == "True", parse_time(since) if since else 0.0)


def is_another_pass_worthwhile(last: CopyPass, before: CopyPass | None) -> bool:
    """Whether another pass would leave much less to copy than the last one did."""
    if last.copied <= _SMALL:
        return False
    return before is None or last.copied * 2 <= before.copied


def is_wanted(move: MoveRecord, claim: Object | None) -> bool:
    """Whether the claim still asks for the move."""
    if claim is None or claim.deleting:
        return False
    return claim.spec.get("volumeAttributesClassName") == move.attributes


def observed(move: MoveRecord, pods: Sequence[PodReadiness], now: float) -> MoveRecord:
    """The journal with what is seen of the pods. A pod that has become not ready while it
    had the copy was ready on it before."""
    if not pods:
        return move
    mounted = move.mounted or now
    was_ready = move.was_ready or any(pod.ready or pod.since > mounted + _SECOND for pod in pods)
    return msgspec.structs.replace(move, mounted=mounted, was_ready=was_ready)


def after_switch(move: MoveRecord, pods: Sequence[PodReadiness], now: float) -> AfterSwitch:
    if any(pod.ready and now - max(pod.since, move.mounted) >= move.keep for pod in pods):
        return AfterSwitch.REMOVE
    if move.mounted and not move.was_ready and now - move.mounted >= move.deadline:
        return AfterSwitch.RETURN
    return AfterSwitch.WAIT
