"""Evaluates rules for all claims at once, in arrays; only objects that call for a decision are named.

    table = ClaimTable(claims, pods)
    rule = EvaluatedRule(terms, uid, table, namespace_of)
    rule.evaluate(joined, now)                     # positions of the claims that call for a decision

An array has one element per claim, in the table's order. A pass in which nothing changes runs no Python per
object.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pilothouse.api.objects import Object
from pilothouse.api.openstorage.v1alpha1 import Cause
from pilothouse.base.rfc3339 import format_time
from pilothouse.rules.action_targets import capacity_of, is_bound
from pilothouse.rules.join import Joined, ObjectIndex
from pilothouse.rules.object_records import (
    AWAITING_APPROVAL,
    AWAITING_WINDOW,
    DECLINED,
    IN_PROGRESS,
    INITIALIZING,
    NORMAL,
    PENDING,
    TAKEN,
    TRIGGERED,
    RuleTerms,
)
from pilothouse.rules.past_samples import PastSamples
from pilothouse.rules.readings import NO_READING, ObjectReading, PastValue
from pilothouse.rules.rule_case import GAP
from pilothouse.rules.rule_queries import rule_queries
from pilothouse.rules.rule_selection import RuleSelection
from pilothouse.rules.targets.volume_size import maxsize_of
from pilothouse.rules.verdict import Verdict
from pilothouse.rules.verdicts import (
    MET,
    NOT_MET,
    UNKNOWN,
    Bools,
    Floats,
    Series,
    ThresholdComparison,
    Verdicts,
    approaching,
    combined,
    compared,
    is_near_any,
)

Positions = NDArray[np.intp]
NamespaceOf = Callable[[str], Object | None]

ABSENT: Final = 0
"""The code of an object without a record."""
_STATES: Final = (
    INITIALIZING, NORMAL, TRIGGERED, AWAITING_APPROVAL, AWAITING_WINDOW, PENDING, IN_PROGRESS, TAKEN,
    DECLINED,
)  # fmt: skip
CODES: Final[Mapping[str, int]] = {state: number for number, state in enumerate(_STATES, start=1)}
_MOST_SILENT: Final = 250
_LARGEST: Final = 2**63 - 1
_NEAR: Final = {UNKNOWN: None, NOT_MET: False, MET: True}


class ClaimTable:
    """The claims, in a fixed order."""

    def __init__(self, claims: Sequence[Object], pods: Sequence[Object] = ()) -> None:
        self.claims = claims
        self.index = ObjectIndex.of_claims(claims, pods)
        self.position = {claim.uid: number for number, claim in enumerate(claims)}
        self.bound: Bools = np.fromiter(map(is_bound, claims), np.bool_, len(claims))
        self._selected: dict[RuleSelection, Bools] = {}
        self._capacity: NDArray[np.int64] | None = None
        self._moved: tuple[ClaimTable, Positions, Positions] | None = None

    def moved_from(self, earlier: ClaimTable) -> tuple[Positions, Positions]:
        """The positions here, and those in an earlier table, of the claims that are in both."""
        if self._moved is None or self._moved[0] is not earlier:
            both = [
                (position, earlier.position[uid])
                for uid, position in self.position.items()
                if uid in earlier.position
            ]
            here, there = np.array(both, dtype=np.intp).reshape(-1, 2).T
            self._moved = earlier, here, there
        return self._moved[1:]

    @property
    def capacity(self) -> NDArray[np.int64]:
        """In bytes; read when it is first asked for."""
        if self._capacity is None:
            self._capacity = np.fromiter(map(_capacity, self.claims), np.int64, len(self.claims))
        return self._capacity

    def resized(self, claim: Object) -> None:
        """Note the size of a claim that has changed."""
        position = self.position.get(claim.uid)
        if position is not None and self._capacity is not None:
            self._capacity[position] = _capacity(claim)

    def __len__(self) -> int:
        return len(self.claims)

    def selected(self, selection: RuleSelection, namespace_of: NamespaceOf) -> Bools:
        """Which bound claims these selectors select."""
        if (known := self._selected.get(selection)) is not None:
            return known
        found = self.bound.copy()
        if selection.objects is not None or selection.namespaces is not None:
            matches = (selection.matches(one, namespace_of(one.namespace)) for one in self.claims)
            found &= np.fromiter(matches, np.bool_, len(self.claims))
        self._selected[selection] = found
        return found


class EvaluatedRule:
    """One rule, with what is known of every claim under it."""

    def __init__(self, terms: RuleTerms, uid: str, table: ClaimTable, namespace_of: NamespaceOf) -> None:
        """Raises ``ValueError`` for a rule that can't be evaluated."""
        self.terms = terms
        self.uid = uid
        self.queries = rule_queries(terms.spec)
        self._comparisons = tuple(map(ThresholdComparison.of, terms.spec.conditions.expressions))
        self._near_ones = tuple(map(approaching, self._comparisons))
        self.table = table
        count = len(table)
        self.selected: Bools = np.zeros(count, dtype=np.bool_)
        if self.queries.refusal is None:
            self.selected = table.selected(RuleSelection.of(terms.spec), namespace_of)
        self.objects = int(self.selected.sum())
        self._largest = min(filter(None, map(maxsize_of, terms.spec.actions)), default=None)
        self.state: NDArray[np.int8] = np.zeros(count, dtype=np.int8)
        self.until: Floats = np.full(count, np.inf)
        self.verdicts: Verdicts = np.full(count, UNKNOWN, dtype=np.int8)
        self.near: Verdicts = np.full(count, UNKNOWN, dtype=np.int8)
        """Whether the conditions would be met by values that are near their thresholds."""
        self.reported: Bools = np.zeros(count, dtype=np.bool_)
        """Whether that is on record."""
        self._held: list[Bools] | None = None
        self._silent: NDArray[np.uint8] = np.zeros(count, dtype=np.uint8)
        self.resumed: dict[str, float] = {}
        """When data of a claim came back after a gap, by its uid."""
        self._joined: tuple[Joined, ...] = ()
        self._sampled = table
        """The table to which the samples are joined."""
        self._past = PastSamples()
        self.is_edited = True
        """Whether its records may be of an earlier form of the rule."""

    def carry_over(self, earlier: EvaluatedRule) -> None:
        """Take over what was known of the same claims, in another order."""
        new, old = self.table.moved_from(earlier.table)
        self._silent[new] = earlier._silent[old]
        self.resumed = earlier.resumed
        if self.terms.generation != earlier.terms.generation:
            return
        self.is_edited = earlier.is_edited
        self.verdicts[new] = earlier.verdicts[old]
        self._joined, self._sampled = earlier._joined, earlier._sampled
        self._past = earlier._past
        if earlier._held is not None:
            self._held = [np.zeros(len(self.table), dtype=np.bool_) for _ in self._comparisons]
            for held, before in zip(self._held, earlier._held, strict=True):
                held[new] = before[old]

    @property
    def oversized(self) -> int:
        """How many objects are larger than the action's maxsize."""
        if self._largest is None:
            return 0
        return int(np.count_nonzero((self.table.capacity > self._largest) & self.selected))

    def record(
        self, position: int, state: str | None, until: float | None, *, approaching: bool = False
    ) -> None:
        """Note what is on record."""
        self.state[position] = CODES.get(state or "", ABSENT)
        self.until[position] = np.inf if until is None else until
        self.reported[position] = approaching

    def evaluate(self, joined: Sequence[Joined] | None, now: float) -> Positions:
        """The positions of the claims that call for a decision; None stands for no answer."""
        verdicts = self._verdicts(joined)
        if joined is not None:
            self._past.note(joined, self.table.position, now)
        before, self.verdicts = self.verdicts, verdicts
        known = verdicts != UNKNOWN
        back = known & (self._silent >= GAP)
        if back.any():
            claims = self.table.claims
            self.resumed.update((claims[position].uid, now) for position in np.flatnonzero(back).tolist())
        self._silent = np.where(known, 0, np.minimum(self._silent, _MOST_SILENT) + 1).astype(np.uint8)
        met, not_met, state = verdicts == MET, verdicts == NOT_MET, self.state
        over = self.until <= now
        waits = _among(state, TRIGGERED, AWAITING_APPROVAL, AWAITING_WINDOW, DECLINED)
        calls = (
            (state == ABSENT)
            | (_among(state, INITIALIZING) & known)
            | (_among(state, NORMAL) & (met | (not_met & self._near_changes())))
            | (_among(state, TRIGGERED) & (not_met | back | (met & over)))
            | (_among(state, AWAITING_APPROVAL, AWAITING_WINDOW) & not_met)
            | (_among(state, DECLINED) & known & over)
            | (_among(state, PENDING) & known)
            | (waits & (verdicts != before))
        )
        if self.is_edited:
            calls |= waits | _among(state, PENDING)
            self.is_edited = False
        return np.flatnonzero(calls & self.selected)

    def _near_changes(self) -> Bools:
        """Where values have come near the conditions, or are not near them any more."""
        near, reported = self.near, self.reported
        changes: Bools = (reported & (near == NOT_MET)) | (~reported & (near == MET))
        return changes

    def _verdicts(self, joined: Sequence[Joined] | None) -> Verdicts:
        count = len(self.table)
        if joined is None:
            self._joined = ()
            self.near = np.full(count, UNKNOWN, dtype=np.int8)
            return np.full(count, UNKNOWN, dtype=np.int8)
        if self._held is None:
            # After a restart the record says whether conditions were met.
            active = _among(self.state, TRIGGERED, AWAITING_APPROVAL, AWAITING_WINDOW, PENDING)
            self._held = [active for _ in self._comparisons]
        self._joined, self._sampled = tuple(joined), self.table
        each: list[Verdicts] = []
        near: dict[int, Verdicts] = {}
        for number, (comparison, found) in enumerate(zip(self._comparisons, joined, strict=True)):
            series = Series(found.object_of, found.values)
            verdicts = compared(comparison, series, self._held[number])
            # No data is no reason to forget that it was met.
            self._held[number] = np.where(verdicts == UNKNOWN, self._held[number], verdicts == MET)
            each.append(verdicts)
            nearer = self._near_ones[number]
            if nearer is not None and is_near_any(nearer, series):
                near[number] = np.where(verdicts == MET, MET, compared(nearer, series, self.reported))
        required = self.terms.spec.conditions.required_matches
        outcome = combined(each, required)
        self.near = outcome
        if near:
            self.near = combined([near.get(number, one) for number, one in enumerate(each)], required)
        outcome[~self.selected] = UNKNOWN
        return outcome

    def reading(self, uid: str) -> ObjectReading:
        """What is known of one claim."""
        place, position = self.table.position.get(uid), self._sampled.position.get(uid)
        if place is None or position is None or not self._joined:
            return NO_READING
        verdict = Verdict(int(self.verdicts[place]))
        causes, times = [], []
        for expression, found in zip(self.terms.spec.conditions.expressions, self._joined, strict=True):
            for sample in np.flatnonzero(found.object_of == position).tolist():
                times.append(float(found.times[sample]))
                causes.append(
                    Cause(
                        expression=expression.key_alias or expression.key or expression.expression or "",
                        value=f"{found.values[sample]:g}",
                        time=format_time(times[-1]),
                        operator=expression.operator,
                        threshold=expression.values,
                    )
                )
        return ObjectReading(
            verdict,
            min(times, default=np.inf),
            self.resumed.get(uid, -np.inf),
            tuple(causes),
            _NEAR[int(self.near[place])],
        )

    def past(self, uid: str) -> list[PastValue | None]:
        """The value of each expression up to an hour ago."""
        return [self._past.of(number, uid) for number in range(len(self._comparisons))]


def shared_by(rules: Sequence[EvaluatedRule], most: int) -> dict[str, tuple[str, ...]]:
    """The names of the first few other rules on an object of each rule, by the uid of the rule."""
    if len(rules) < 2:
        return {}
    count = np.zeros(len(rules[0].table), dtype=np.int32)
    for rule in rules:
        count += rule.selected
    found: dict[str, tuple[str, ...]] = {}
    by_selection: dict[int, list[str]] = {}
    ordered = sorted(rules, key=lambda rule: rule.terms.name)
    for rule in rules:
        # Rules with the same selectors share the array.
        if (names := by_selection.get(id(rule.selected))) is None:
            places = np.flatnonzero(rule.selected & (count > 1))[:1].tolist()
            names = [other.terms.name for other in ordered for place in places if other.selected[place]]
            by_selection[id(rule.selected)] = names = names[: most + 1]
        if others := tuple(name for name in names if name != rule.terms.name)[:most]:
            found[rule.uid] = others
    return found


def _capacity(claim: Object) -> int:
    try:
        return min(capacity_of(claim), _LARGEST)
    except ValueError:
        return 0


def _among(state: NDArray[np.int8], *states: str) -> Bools:
    found = np.zeros(state.shape, dtype=np.bool_)
    for one in states:
        found |= state == CODES[one]
    return found
