"""Targets of actions: what exactly an action would bring about, decided before anything is done.

    target_of(RuleAction(name=RESIZE, params={"maxsize": "1Gi"}), claim)
    # ActionTarget({"from": "320Mi", "to": "480Mi"}, growth=167772160)

A target is absolute (``to: 480Mi``), so that carrying it out twice does no more than once. It is computed
from the claim's actual capacity, and only while no other size is requested: a resize that is still under way,
or that the storage refuses, is never built upon.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final

import msgspec

from pilothouse.api.objects import Object
from pilothouse.api.openstorage.actions import RESIZE
from pilothouse.api.openstorage.v1alpha1 import RuleAction
from pilothouse.base.quantity import BINARY, NANO, Quantity, parse_quantity

MEBIBYTE: Final = 1024 * 1024
DEFAULT_PERCENTAGE: Final = "50"
_STORAGE: Final = ("resources", "requests", "storage")


class ActionTarget(msgspec.Struct, frozen=True):
    """What an action brings about."""

    fields: dict[str, str] = {}
    growth: int = 0
    """By how many bytes a volume grows."""

    @property
    def summary(self) -> str:
        """For people: ``from 320Mi to 480Mi``."""
        return " ".join(f"{name} {value}" for name, value in self.fields.items())


class TargetDeclined(msgspec.Struct, frozen=True):
    """The rule itself rules the action out, such as by its maximal size."""

    because: str


class TargetNotReady(msgspec.Struct, frozen=True):
    """The object is not in a state from which a target can be computed; it will be."""

    because: str


TargetResult = ActionTarget | TargetDeclined | TargetNotReady


def target_of(action: RuleAction, claim: Object) -> TargetResult:
    """The target of an action on a claim. One that is carried out by others has none but its parameters."""
    return _size(action, claim) if action.name == RESIZE else ActionTarget()


def maxsize_of(action: RuleAction) -> int | None:
    """The size in bytes above which the action does nothing; None if there is none."""
    if action.name != RESIZE or "maxsize" not in action.params:
        return None
    try:
        return parse_quantity(action.params["maxsize"]).to_int()
    except ValueError:
        return None


def capacity_of(claim: Object) -> int:
    """In bytes; 0 if it is not known."""
    return _bytes(claim.at("status", "capacity", "storage"))


def target_text(action: RuleAction, target: TargetResult) -> str:
    """What would be done, for people: ``volume/resize from 320Mi to 480Mi``."""
    verb = action.name.rpartition(".")[2]
    if isinstance(target, ActionTarget):
        return f"{verb} {target.summary}".strip()
    if isinstance(target, TargetDeclined):
        return f"{verb} is declined: {target.because}"
    return f"{verb} waits: {target.because}"


def is_bound(claim: Object) -> bool:
    """Whether the claim has a volume."""
    return bool(claim.spec.get("volumeName")) and claim.at("status", "phase") == "Bound"


def _size(action: RuleAction, claim: Object) -> TargetResult:
    requested = _bytes(claim.at("spec", *_STORAGE))
    capacity = capacity_of(claim)
    if not is_bound(claim) or not capacity:
        return TargetNotReady("the claim is not bound to a volume")
    if requested != capacity:
        return TargetNotReady(
            f"{_text(requested)} is requested and the volume has {_text(capacity)}: a resize is under way"
        )
    try:
        size = _grown(action.params, capacity)
        largest = parse_quantity(action.params["maxsize"]).to_int() if "maxsize" in action.params else size
    except ValueError as problem:
        return TargetDeclined(f"the parameters of {action.name} can't be used: {problem}")
    if capacity >= largest:
        return TargetDeclined(f"the volume has {_text(capacity)}, and maxsize is {_text(largest)}")
    size = min(size, largest)
    return ActionTarget({"from": _text(capacity), "to": _text(size)}, size - capacity)


def _grown(params: dict[str, str], capacity: int) -> int:
    """The larger size, in whole mebibytes."""
    if "scalesize" in params:
        step = Fraction(parse_quantity(params["scalesize"]).to_int())
    else:
        step = capacity * Fraction(params.get("scalepercentage", DEFAULT_PERCENTAGE)) / 100
    if "minstep" in params:
        step = max(step, Fraction(parse_quantity(params["minstep"]).to_int()))
    if step <= 0:
        raise ValueError("the volume would not grow")
    size = Fraction(capacity) + step
    return -(-size.numerator // (size.denominator * MEBIBYTE)) * MEBIBYTE


def _bytes(value: str | int | None) -> int:
    return parse_quantity(value).to_int() if value else 0


def _text(size: int) -> str:
    return str(Quantity(size * NANO, BINARY))
