"""Evaluates rules for all objects at once, in arrays; only objects that call for a decision are named.

    table = ObjectTable.of_claims(claims, pods)
    rule = EvaluatedRule(terms, uid, table, namespace_of)
    rule.evaluate(joined, now)                     # positions of the objects that call for a decision
    if rule.has_met:
        rule.look_for_causes(joined_of_candidates)

An array has one element per object, in the table's order. A pass in which nothing changes runs no Python per
object. Candidates are looked at while conditions are met.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pilothouse.api.openstorage.v1alpha1 import Cause
from pilothouse.rules.causes import ComparedExpression
from pilothouse.rules.join import Joined
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
from pilothouse.rules.object_table import NamespaceOf, ObjectTable, Positions
from pilothouse.rules.object_types import full_name
from pilothouse.rules.past_samples import PastSamples
from pilothouse.rules.readings import NO_READING, CandidateReading, ObjectReading, PastValue
from pilothouse.rules.rule_case import GAP
from pilothouse.rules.rule_queries import every_action, rule_queries
from pilothouse.rules.rule_selection import RuleSelection
from pilothouse.rules.samples import QueryFailure
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

ABSENT: Final = 0
"""The code of an object without a record."""
_STATES: Final = (
    INITIALIZING, NORMAL, TRIGGERED, AWAITING_APPROVAL, AWAITING_WINDOW, PENDING, IN_PROGRESS, TAKEN,
    DECLINED,
)  # fmt: skip
CODES: Final[Mapping[str, int]] = {state: number for number, state in enumerate(_STATES, start=1)}
_MOST_SILENT: Final = 250
_NEAR: Final = {UNKNOWN: None, NOT_MET: False, MET: True}


class EvaluatedRule:
    """One rule, with what is known of every object under it."""

    def __init__(self, terms: RuleTerms, uid: str, table: ObjectTable, namespace_of: NamespaceOf) -> None:
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
        self._largest = min(filter(None, map(maxsize_of, every_action(terms.spec))), default=None)
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
        """When data of an object came back after a gap, by its uid."""
        self._joined: tuple[Joined, ...] = ()
        self._causes: tuple[tuple[ComparedExpression, ...], ...] | QueryFailure = ()
        """What the candidates look at; empty if that was not asked, or why it is not known."""
        self._sampled = table
        """The table to which the samples are joined."""
        self._past = PastSamples()
        self.is_edited = True
        """Whether its records may be of an earlier form of the rule."""

    def carry_over(self, earlier: EvaluatedRule) -> None:
        """Take over what was known of the same objects, in another order."""
        new, old = self.table.moved_from(earlier.table)
        self._silent[new] = earlier._silent[old]
        self.resumed = earlier.resumed
        if self.terms.generation != earlier.terms.generation:
            return
        self.is_edited = earlier.is_edited
        self.verdicts[new] = earlier.verdicts[old]
        self._joined, self._sampled = earlier._joined, earlier._sampled
        self._causes = earlier._causes
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
        """The positions of the objects that call for a decision; None stands for no answer."""
        verdicts = self._verdicts(joined)
        if joined is not None:
            self._past.note(joined, self.table.position, now)
        before, self.verdicts, self._causes = self.verdicts, verdicts, ()
        known = verdicts != UNKNOWN
        back = known & (self._silent >= GAP)
        if back.any():
            objects = self.table.objects
            self.resumed.update((objects[position].uid, now) for position in np.flatnonzero(back).tolist())
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
        """What is known of one object."""
        place, position = self.table.position.get(uid), self._sampled.position.get(uid)
        if place is None or position is None or not self._joined:
            return NO_READING
        own = full_name(self.table.objects[place])
        causes: list[Cause] = []
        times: list[float] = []
        for number, looked in enumerate(self._looked()):
            held = self._held is not None and bool(self._held[number][place])
            causes.extend(looked.of(position, own, held=held))
            times.extend(looked.joined.times[looked.joined.object_of == position].tolist())
        return ObjectReading(
            Verdict(int(self.verdicts[place])),
            min(times, default=np.inf),
            self.resumed.get(uid, -np.inf),
            tuple(causes),
            _NEAR[int(self.near[place])],
            self._candidates(position, own),
        )

    def _looked(self) -> list[ComparedExpression]:
        expressions, queries = self.terms.spec.conditions.expressions, self.queries.conditions
        each = zip(expressions, self._comparisons, queries, self._joined, strict=True)
        return [
            ComparedExpression(one, comparison, query.level, joined)
            for one, comparison, query, joined in each
        ]

    @property
    def has_met(self) -> bool:
        """Whether conditions are met by any object, so that its cause is to be looked for."""
        return bool(self.queries.candidates) and bool((self.verdicts == MET).any())

    def look_for_causes(self, joined: Sequence[Sequence[Joined]] | QueryFailure) -> None:
        """Take the samples of the expressions of each candidate, of the same moment as the last verdicts."""
        if isinstance(joined, QueryFailure):
            self._causes = joined
            return
        self._causes = tuple(
            tuple(
                ComparedExpression(
                    expression, ThresholdComparison.of(expression), query.level, found, candidate.name
                )
                for expression, query, found in zip(candidate.when, queries, each, strict=True)
            )
            for candidate, queries, each in zip(
                self.terms.spec.candidates, self.queries.candidates, joined, strict=True
            )
        )

    def _candidates(self, position: int, own: str) -> tuple[CandidateReading, ...] | QueryFailure:
        if isinstance(self._causes, QueryFailure):
            return self._causes
        return tuple(
            CandidateReading(
                each[0].candidate,
                tuple(tuple(looked.of(position, own)) or (looked.missing(own),) for looked in each),
            )
            for each in self._causes
        )

    def past(self, uid: str) -> list[PastValue | None]:
        """The value of each expression up to an hour ago."""
        return [self._past.of(number, uid) for number in range(len(self._comparisons))]


def shared_by(rules: Sequence[EvaluatedRule], most: int) -> dict[str, tuple[str, ...]]:
    """The names of the first few other rules on an object of each rule, by the uid of the rule."""
    by_table: dict[int, list[EvaluatedRule]] = defaultdict(list)
    for rule in rules:
        by_table[id(rule.table)].append(rule)
    found: dict[str, tuple[str, ...]] = {}
    for each in by_table.values():
        found |= _shared(each, most)
    return found


def _shared(rules: Sequence[EvaluatedRule], most: int) -> dict[str, tuple[str, ...]]:
    """The same for rules about objects of one type."""
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


def _among(state: NDArray[np.int8], *states: str) -> Bools:
    found = np.zeros(state.shape, dtype=np.bool_)
    for one in states:
        found |= state == CODES[one]
    return found
