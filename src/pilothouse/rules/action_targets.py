"""Targets of actions: what exactly an action would bring about, decided before anything is done.

    target_of(RuleAction(name=RESIZE, params={"maxsize": "1Gi"}), claim, world)
    # ActionTarget({"from": "320Mi", "to": "480Mi"}, growth=167772160)

A target is absolute (``to: 480Mi``), so that carrying it out twice does no more than once. ``targets`` has a
module for each action.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

import msgspec

from pilothouse.api.kind_names import KindName
from pilothouse.api.objects import Object
from pilothouse.api.openstorage.v1alpha1 import RuleAction
from pilothouse.base.quantity import BINARY, NANO, Quantity, parse_quantity

TRIAL: Final = "summary"
"""The field of a target with what a trial says, for people."""


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


class ObjectLookup(Protocol):
    """Finds other objects that a target depends on; a ``Snapshot`` is one."""

    def find(self, kind: KindName, namespace: str, name: str, /) -> Object | None: ...

    def all(self, kind: KindName, namespace: str = "", /) -> Sequence[Object]: ...


class NoObjects:
    """A lookup that finds nothing, where no API server is asked."""

    def find(self, kind: KindName, namespace: str, name: str, /) -> Object | None:
        return None

    def all(self, kind: KindName, namespace: str = "", /) -> Sequence[Object]:
        return ()


TargetFunction = Callable[[RuleAction, Object, ObjectLookup], TargetResult]


def has_same_effect(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Whether the fields of two targets bring about the same. What a trial says besides, such as the usage of
    disks, changes all the time."""
    return {**one, TRIAL: ""} == {**other, TRIAL: ""}


def capacity_of(claim: Object) -> int:
    """In bytes; 0 if it is not known."""
    return bytes_of(claim.at("status", "capacity", "storage"))


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


def bytes_of(value: str | int | None) -> int:
    return parse_quantity(value).to_int() if value else 0


def size_text(size: int) -> str:
    return str(Quantity(size * NANO, BINARY))
