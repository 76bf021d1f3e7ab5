"""What the watch has measured, as decisions read it.

reading = readings.of(rule, claim)
reading.verdict, reading.causes
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import NamedTuple, Protocol

import msgspec

from pilothouse.api.objects import Object
from pilothouse.api.openstorage.v1alpha1 import ActionBudget, Cause
from pilothouse.rules.samples import QueryFailure
from pilothouse.rules.verdict import Verdict


class CandidateReading(msgspec.Struct, frozen=True):
    """The comparisons of a candidate, for one object."""

    name: str
    links: tuple[tuple[Cause, ...], ...] = ()
    """For each expression, the values that were compared; one without a value if there is none."""

    @property
    def holds(self) -> bool:
        """Every expression holds for at least one of its values."""
        return all(any(cause.held for cause in link) for link in self.links)

    @property
    def causes(self) -> tuple[Cause, ...]:
        return tuple(cause for link in self.links for cause in link)


class ObjectReading(msgspec.Struct, frozen=True):
    """Whether a rule's conditions are met by an object."""

    verdict: Verdict = Verdict.UNKNOWN
    sampled: float = math.inf
    """When the oldest sample was measured, in seconds since 1970 by the provider's clock."""
    resumed: float = -math.inf
    """When data came back after the last gap, by the steady clock."""
    causes: tuple[Cause, ...] = ()
    """The values that were compared."""
    near: bool | None = None
    """Whether they are near the conditions; None if that is not known."""
    candidates: tuple[CandidateReading, ...] | QueryFailure = ()
    """In the order of the rule; empty if they were not looked at, or why they are not known."""


NO_READING = ObjectReading()


class PastValue(NamedTuple):
    """A value of an expression some time ago, and when, by the provider's clock."""

    value: float
    time: float


class RuleFindings(msgspec.Struct, frozen=True):
    """How it went to evaluate a rule."""

    objects: int = 0
    """How many it selects."""
    failure: QueryFailure | None = None
    unmatched: int = 0
    """How many series name no object."""
    several: int = 0
    """How many objects have more than one series of an expression."""
    without_object: int = 0
    """How many objects have no AutopilotRuleObject, because there are too many."""
    oversized: int = 0
    """How many objects are larger than the rule's maxsize."""
    others: tuple[str, ...] = ()
    """The names of rules that select one of the objects too."""
    missing: tuple[str, ...] = ()
    """Expressions without any series."""


class NoReadings:
    """Nothing has been measured."""

    ahead = 0.0
    aheads: Collection[float] = (0.0,)
    crowded = False
    budget: ActionBudget | None = None

    def of(self, rule: Object, one: Object) -> ObjectReading:
        return NO_READING

    def moment(self, wall: float) -> float:
        return wall

    def past(self, rule: Object, one: Object) -> Sequence[PastValue | None]:
        return ()

    def due(self, one: Object) -> Sequence[str]:
        return ()

    def findings(self, rule: Object) -> RuleFindings | None:
        return None

    def reached(self, about: str, one: Object, level: str) -> Sequence[Object] | None:
        return None


class Readings(Protocol):
    """What is known at one moment."""

    @property
    def ahead(self) -> float:
        """By how much the wall clock is ahead of the steady clock."""
        ...

    @property
    def aheads(self) -> Collection[float]:
        """By how much it has been ahead at any time."""
        ...

    @property
    def crowded(self) -> bool:
        """There are more AutopilotRuleObjects than are kept of objects in the state Normal."""
        ...

    @property
    def budget(self) -> ActionBudget | None:
        """Of all rules together; None, and what it leaves out, stand for the default."""
        ...

    def of(self, rule: Object, one: Object) -> ObjectReading: ...

    def moment(self, wall: float) -> float:
        """The time of the steady clock at which the wall clock had this time."""
        ...

    def past(self, rule: Object, one: Object) -> Sequence[PastValue | None]:
        """The value of each expression up to an hour ago; empty if nothing was measured."""
        ...

    def due(self, one: Object) -> Sequence[str]:
        """The names of the rules to which the last values of the object matter."""
        ...

    def findings(self, rule: Object) -> RuleFindings | None:
        """None as long as the rule has not been evaluated in its present form."""
        ...

    def reached(self, about: str, one: Object, level: str) -> Sequence[Object] | None:
        """The objects of a level to which an object of a rule leads; None if that is not known yet. ``about``
        is its type."""
        ...
