"""Whether two actions pull one object both ways, so that one would undo what the other does.

    up = RuleAction(name=SET_IOPS, params={"classes": "bronze,silver,gold", "step": "up"})
    down = RuleAction(name=SET_IOPS, params={"classes": "bronze,silver,gold", "step": "down"})
    are_opposite(up, down)          # True

Volumes and pools only grow, so what resizes or expands them is opposite to nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pilothouse.api.openstorage.actions import MOVE, REDUNDANCY, RESOURCES, SCALE, SET_IOPS
from pilothouse.api.openstorage.v1alpha1 import RuleAction

_BOTH_WAYS: Final = frozenset({MOVE, REDUNDANCY, RESOURCES, SCALE, SET_IOPS})
_PART: Final = ("container", "resource")
"""The parameters that say what of the object is changed."""


def any_opposite(some: Iterable[RuleAction], others: Iterable[RuleAction]) -> bool:
    """Whether one of these is opposite to one of the others."""
    every = tuple(others)
    return any(are_opposite(one, other) for one in some for other in every)


def are_opposite(one: RuleAction, other: RuleAction) -> bool:
    """Whether one would undo what the other does: they go up and down, or one of them names a value."""
    if one.name != other.name or one.name not in _BOTH_WAYS or one.params == other.params:
        return False
    if any(one.params.get(part) != other.params.get(part) for part in _PART):
        return False
    return direction(one) * direction(other) <= 0


def direction(action: RuleAction) -> int:
    """1 if it raises what it changes, -1 if it lowers it, 0 if it names a value."""
    amount = action.params.get("step") or action.params.get("scalepercentage")
    if amount is None:
        return 0
    return -1 if amount == "down" or amount.startswith("-") else 1
