"""Rules over recorded series, on a virtual clock, through the state machine that runs live.

    run = VirtualRun(rules, claims, series, start=0.0)
    run.until(3600.0)
    run.state("resize", "db/data"), run.actions

The effect of each action is modelled on the series: a larger volume has a larger capacity and more room from
then on, whatever the recording says. Recorded changes of capacity are left out, since they are the effect of
what was done then. An approval that is asked for is granted at once if ``approves``. With ``refuses_after``
the storage grows each volume so many times; later requests are stored, have no effect, and fail.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, Self

import msgspec
import numpy as np

from pilothouse.api.kind_names import PersistentVolumeClaim
from pilothouse.api.objects import Object
from pilothouse.api.openstorage.action_windows import seconds_until_open
from pilothouse.api.openstorage.v1alpha1 import ActionBudget
from pilothouse.base.quantity import parse_quantity
from pilothouse.base.rfc3339 import format_time
from pilothouse.rules.action_budgets import GLOBAL_BUDGET, spent, with_defaults
from pilothouse.rules.action_targets import ActionTarget, NoObjects, TargetResult
from pilothouse.rules.join import ObjectIndex, join
from pilothouse.rules.join_labels import DEFAULT_LABELS, JoinLabels, object_key
from pilothouse.rules.object_records import (
    IN_PROGRESS,
    NORMAL,
    PENDING,
    TAKEN,
    TRIGGERED,
    ActionRecord,
    ApprovalRecord,
    ObjectRecord,
    RuleTerms,
    Situation,
)
from pilothouse.rules.object_states import advance
from pilothouse.rules.promql.label_sets import NAME
from pilothouse.rules.promql.memory_series import MemorySeries
from pilothouse.rules.promql.queries import Query, compile_query
from pilothouse.rules.promql.query_evaluation import evaluate
from pilothouse.rules.promql.vectors import Floats, Times
from pilothouse.rules.rule_case import GAP, RuleCase
from pilothouse.rules.rule_queries import rule_queries
from pilothouse.rules.rule_selection import RuleSelection
from pilothouse.rules.samples import Sample
from pilothouse.rules.state_requests import (
    AskApproval,
    DescribeApproval,
    DiscardApproval,
    Recommend,
    StartAction,
    WithdrawApproval,
)
from pilothouse.rules.targets.target_table import target_of
from pilothouse.rules.verdict import Verdict
from pilothouse.rules.verdicts import Bools, Series, ThresholdComparison, combined, compared

ACTION_SECONDS: Final = 5.0
"""From the start of an action to its end."""
REFUSED_SECONDS: Final = 600.0
"""From the start of an action that the storage refuses to its failure."""
CAPACITY: Final = (
    "kubelet_volume_stats_capacity_bytes",
    "px_volume_capacity_bytes",
    "px_volume_fs_capacity_bytes",
)
AVAILABLE: Final = {"kubelet_volume_stats_available_bytes": "kubelet_volume_stats_used_bytes"}
_MOST_STEPS: Final = 8

_SizedSeries = tuple[Mapping[str, str], Times, Floats]


class VirtualAction(msgspec.Struct, rename="camel"):
    """An action that was started."""

    time: float
    rule: str
    object: str
    action: str
    target: Mapping[str, str]
    refused: bool = False
    """Whether the storage did not grow the volume."""


class VirtualTransition(msgspec.Struct, frozen=True, rename="camel"):
    time: float
    rule: str
    object: str
    source: str
    to: str


def why_not_modelled(terms: RuleTerms) -> str:
    """What a rule has that is not modelled here; empty if it can be run."""
    queries = rule_queries(terms.spec)
    if queries.refusal is not None:
        return queries.refusal.message
    if queries.about != "volume":
        return f"rule {terms.name} is about a {queries.about}, and only volumes are modelled"
    if queries.candidates:
        return f"rule {terms.name} has candidates, which are not modelled; see `rule test`"
    if any(one.level != "volume" for one in queries.conditions):
        return f"rule {terms.name} looks at other levels (on), and only volumes are modelled"
    return ""


class ModelledRules(msgspec.Struct, frozen=True):
    """Those of some rules that can be run, and why the others can't."""

    rules: tuple[RuleTerms, ...]
    skipped: tuple[str, ...] = ()

    @classmethod
    def of(cls, rules: Sequence[RuleTerms]) -> Self:
        found = [(rule, why_not_modelled(rule)) for rule in rules]
        return cls(tuple(rule for rule, why in found if not why), tuple(why for _, why in found if why))


class _Evaluated:
    """A rule, with what is known of each claim."""

    def __init__(self, terms: RuleTerms, count: int, selected: Sequence[bool]) -> None:
        """Raises ``ValueError``, ``QueryError`` or ``NotInSubset``."""
        if problem := why_not_modelled(terms):
            raise ValueError(problem)
        queries = rule_queries(terms.spec)
        self.terms = terms
        self.selected = selected
        self.queries: list[Query] = [compile_query(text) for text in queries.expressions]
        self.comparisons = tuple(map(ThresholdComparison.of, terms.spec.conditions.expressions))
        self.held: list[Bools] = [np.zeros(count, np.bool_) for _ in self.comparisons]
        self.records = [ObjectRecord() for _ in range(count)]
        self.verdicts = [Verdict.UNKNOWN] * count
        self.sampled = [math.inf] * count
        self.silent = [0] * count
        self.resumed = [-math.inf] * count
        self.approvals: dict[int, ApprovalRecord] = {}
        self.wakes = [math.inf] * count
        """When a timer of each claim ends."""


class VirtualRun:
    def __init__(
        self,
        rules: Sequence[RuleTerms],
        claims: Sequence[Object],
        series: MemorySeries,
        *,
        start: float,
        namespaces: Sequence[Object] = (),
        pods: Sequence[Object] = (),
        labels: JoinLabels = DEFAULT_LABELS,
        approves: bool = False,
        refuses_after: int | None = None,
        budget: ActionBudget = GLOBAL_BUDGET,
    ) -> None:
        """``budget`` is of all rules together.

        Raises ``ValueError`` for a rule that can't be evaluated, ``QueryError`` or ``NotInSubset``."""
        self._claims = list(claims)
        self._series = series
        self._labels = labels
        self._index = ObjectIndex.of_claims(claims, pods)
        self._approves = approves
        self._refuses_after = refuses_after
        self._budget = budget
        self._resizes = [0] * len(claims)
        known = {one.name: one for one in namespaces}
        self._rules = [
            _Evaluated(
                terms,
                len(claims),
                [RuleSelection.of(terms.spec).matches(one, known.get(one.namespace)) for one in claims],
            )
            for terms in sorted(rules, key=lambda one: (-one.spec.weight, one.name))
        ]
        self.now = start
        self._start = start
        self._polls = [(start, number) for number in range(len(self._rules))]
        self._ending: list[tuple[float, int, str]] = []
        """When actions end: the time, the claim and the name."""
        self._waking: list[tuple[float, int, int]] = []
        """When timers end: the time, the rule and the claim."""
        self._on_object: list[dict[str, ActionRecord]] = [{} for _ in claims]
        self._objects: dict[str, Object] = {}
        """ApplicationActions, for budgets, by name."""
        self.actions: list[VirtualAction] = []
        self.transitions: list[VirtualTransition] = []
        self.recommendations: list[VirtualAction] = []
        self._sized = self._sized_series()
        self._forget_recorded_resizes()

    def name(self, position: int) -> str:
        claim = self._claims[position]
        return f"{claim.namespace}/{claim.name}"

    @property
    def claims(self) -> Sequence[Object]:
        """As they are now."""
        return self._claims

    def state(self, rule: str, name: str) -> str | None:
        """The state of an object under a rule; None if the rule does not select it. Raises ``KeyError``."""
        positions = {self.name(position): position for position in range(len(self._claims))}
        found = {one.terms.name: one for one in self._rules}[rule]
        position = positions[name]
        return found.records[position].state if found.selected[position] else None

    def until(self, end: float) -> None:
        """Go on to a time, and take what is due then."""
        while True:
            poll = self._polls[0][0] if self._polls else math.inf
            ending = self._ending[0][0] if self._ending else math.inf
            waking = self._waking[0][0] if self._waking else math.inf
            if min(poll, ending, waking) > end:
                break
            if ending <= min(poll, waking):
                time, position, name = heapq.heappop(self._ending)
                self.now = time
                self._end_action(position, name)
            elif poll <= waking:
                self.now = poll
                _, number = heapq.heappop(self._polls)
                rule = self._rules[number]
                heapq.heappush(self._polls, (poll + rule.terms.spec.poll_interval, number))
                self._poll(rule)
            else:
                self.now, number, position = heapq.heappop(self._waking)
                if self._rules[number].wakes[position] == self.now:
                    self._wake(position)
        self.now = end

    def _poll(self, rule: _Evaluated) -> None:
        outcome, times = self._measure(rule)
        for position, verdict in enumerate(outcome):
            if not rule.selected[position]:
                continue
            if verdict is not Verdict.UNKNOWN:
                if rule.silent[position] >= GAP:
                    rule.resumed[position] = self.now
                rule.silent[position] = 0
            else:
                rule.silent[position] += 1
            rule.verdicts[position], rule.sampled[position] = verdict, times[position]
            self._advance_if_needed(rule, position)

    def _wake(self, position: int) -> None:
        """A timer of a rule has ended, for which its other rules on the claim may have waited."""
        for rule in self._rules:
            if rule.selected[position]:
                self._advance_if_needed(rule, position)

    def _advance_if_needed(self, rule: _Evaluated, position: int) -> None:
        if rule.records[position].state != NORMAL or rule.verdicts[position] is Verdict.MET:
            self._advance(rule, position)

    def _measure(self, rule: _Evaluated) -> tuple[list[Verdict], list[float]]:
        count = len(self._claims)
        each = []
        times = np.full(count, np.inf)
        for number, (query, comparison) in enumerate(zip(rule.queries, rule.comparisons, strict=True)):
            found = evaluate(query, self._series, self.now)
            samples = [
                Sample(labels.labels, value, time / 1000)
                for labels, value, time in zip(
                    found.labels, found.values.tolist(), found.times.tolist(), strict=True
                )
            ]
            joined = join(samples, self._index, self._labels)
            verdicts = compared(comparison, Series(joined.object_of, joined.values), rule.held[number])
            rule.held[number] = np.where(
                verdicts == Verdict.UNKNOWN, rule.held[number], verdicts == Verdict.MET
            )
            np.minimum.at(times, joined.object_of, joined.times)
            each.append(verdicts)
        outcome = combined(each, rule.terms.spec.conditions.required_matches)
        return [Verdict(int(one)) for one in outcome], times.tolist()

    def _advance(self, rule: _Evaluated, position: int) -> None:
        for _ in range(_MOST_STEPS):
            before = rule.records[position]
            outcome = advance(self._case(rule, position))
            rule.records[position] = outcome.record
            for moved in outcome.transitions:
                self.transitions.append(
                    VirtualTransition(
                        self.now, rule.terms.name, self.name(position), moved.source or "", moved.to
                    )
                )
            for request in outcome.requests:
                self._do(rule, position, request)
            if outcome.record == before and not outcome.requests:
                break
        self._set_timer(rule, position, outcome.wake)

    def _set_timer(self, rule: _Evaluated, position: int, seconds: float | None) -> None:
        # Timers end at whole seconds, which the sum of two floats may miss.
        wake = round(self.now + seconds, 3) if seconds is not None else math.inf
        if wake > self.now and wake != rule.wakes[position]:
            rule.wakes[position] = wake
            if wake < math.inf:
                heapq.heappush(self._waking, (wake, self._rules.index(rule), position))

    def _case(self, rule: _Evaluated, position: int) -> RuleCase:
        claim, record = self._claims[position], rule.records[position]
        targets = self._targets(rule, position)
        budget = self._spent(rule, position, targets) if record.state in (PENDING, IN_PROGRESS) else ""
        situation = Situation(
            verdict=rule.verdicts[position],
            sampled=rule.sampled[position],
            resumed=rule.resumed[position],
            targets=targets,
            actions=self._on_object[position],
            approval=rule.approvals.get(position),
            blocked=self._blocked(rule, position),
            window_opens=seconds_until_open(rule.terms.spec.action_window, self.now),
            budget=budget,
        )
        return RuleCase(rule.terms, claim.uid, record, situation, self.now)

    def _spent(self, rule: _Evaluated, position: int, targets: Sequence[TargetResult]) -> str:
        claim = self._claims[position]
        target = next((one for one in targets if isinstance(one, ActionTarget)), ActionTarget())
        everything = list(self._objects.values())
        mine = [one for one in everything if one.spec["rule"] == rule.terms.name]
        own = with_defaults(rule.terms.spec.budget)
        return spent(own, mine, claim.uid, target, self.now) or spent(
            self._budget, everything, claim.uid, target, self.now
        )

    def _targets(self, rule: _Evaluated, position: int) -> tuple[TargetResult, ...]:
        claim = self._claims[position]
        return tuple(target_of(action, claim, NoObjects()) for action in rule.terms.spec.actions)

    def _blocked(self, rule: _Evaluated, position: int) -> str:
        """Rules are in the order in which they go first."""
        first = True
        for other in self._rules:
            if other is rule:
                first = False
                continue
            if not other.selected[position]:
                continue
            state, name = other.records[position].state, other.terms.name
            if state in (IN_PROGRESS, TAKEN):
                return f"rule {name} has acted on the object, and its cool-down is not over"
            if state == PENDING:
                waits = not self._spent(other, position, self._targets(other, position))
            else:
                waits = state == TRIGGERED and other.verdicts[position] is Verdict.MET
            if waits and first and not other.terms.recommends:
                return f"rule {name} goes first (weight {other.terms.spec.weight})"
        return ""

    def _do(self, rule: _Evaluated, position: int, request: object) -> None:
        match request:
            case StartAction():
                self._start_action(rule, position, request)
            case AskApproval() | DescribeApproval():
                known = rule.approvals.get(position)
                granted = known is not None and self._approves
                rule.approvals[position] = ApprovalRecord(
                    uid=f"{rule.terms.name}-{position}-{rule.records[position].triggers}",
                    state="approved" if granted else "pending",
                    generation=rule.terms.generation,
                    target=request.target.fields,
                )
            case WithdrawApproval() | DiscardApproval():
                rule.approvals.pop(position, None)
            case Recommend():
                self.recommendations.append(
                    VirtualAction(self.now, rule.terms.name, self.name(position), request.message, {})
                )

    def _start_action(self, rule: _Evaluated, position: int, request: StartAction) -> None:
        claim, action = self._claims[position], rule.terms.spec.actions[request.number]
        target = request.target.fields
        refused = self._refuses_after is not None and self._resizes[position] >= self._refuses_after
        self.actions.append(
            VirtualAction(
                self.now,
                rule.terms.name,
                self.name(position),
                action.name,
                target,
                refused and "to" in target,
            )
        )
        self._on_object[position][request.name] = ActionRecord(rule.terms.name, request.trigger, "Running")
        self._objects[request.name] = Object.of(
            {
                "apiVersion": "autopilot.libopenstorage.org/v1alpha1",
                "kind": "ApplicationAction",
                "metadata": {"name": request.name, "creationTimestamp": format_time(self.now)},
                "spec": {"rule": rule.terms.name, "object": {"uid": claim.uid}, "target": target},
                "status": {"phase": "Running"},
            }
        )
        rule.approvals.pop(position, None)
        if self.actions[-1].refused:
            self._request(position, target["to"])
        seconds = REFUSED_SECONDS if self.actions[-1].refused else ACTION_SECONDS
        heapq.heappush(self._ending, (self.now + seconds, position, request.name))

    def _end_action(self, position: int, name: str) -> None:
        """The action has succeeded, and its effect shows; or the storage has refused it."""
        done = self._objects[name].thawed()
        target = done["spec"]["target"]
        refused = "to" in target and self._has_requested(position, target["to"])
        phase = "Failed" if refused else "Succeeded"
        record = self._on_object[position][name]
        self._on_object[position][name] = msgspec.structs.replace(record, phase=phase, completed=self.now)
        done["status"]["phase"] = phase
        self._objects[name] = Object.of(done)
        if "to" in target and not refused:
            self._resizes[position] += 1
            self._resize(position, target["to"])
        for rule in self._rules:
            if rule.selected[position] and rule.records[position].state == IN_PROGRESS:
                self._advance(rule, position)

    def _has_requested(self, position: int, to: str) -> bool:
        """Whether the size was requested when the action started, and refused."""
        claim = self._claims[position]
        requested = claim.at("spec", "resources", "requests", "storage")
        return bool(requested == to != claim.at("status", "capacity", "storage"))

    def _request(self, position: int, to: str) -> None:
        """The claim asks for a size; its capacity stays."""
        tree: dict[str, Any] = self._claims[position].thawed()
        tree["spec"]["resources"]["requests"]["storage"] = to
        self._claims[position] = Object(PersistentVolumeClaim, tree)

    def _resize(self, position: int, to: str) -> None:
        tree: dict[str, Any] = self._claims[position].thawed()
        before = parse_quantity(tree["status"]["capacity"]["storage"]).to_int()
        tree["spec"]["resources"]["requests"]["storage"] = to
        tree["status"]["capacity"]["storage"] = to
        self._claims[position] = Object(PersistentVolumeClaim, tree)
        factor = parse_quantity(to).to_int() / before
        since = round(self.now * 1000)
        grown: dict[tuple[str, ...], float] = {}
        for labels, times, values in self._of(position, CAPACITY):
            later = int(np.searchsorted(times, since))
            if later < len(values):
                key = object_key(labels, self._labels) or ()
                grown[key] = float(values[later] * (factor - 1))
                values[later:] *= factor
        for labels, times, values in self._of(position, tuple(AVAILABLE)):
            later = int(np.searchsorted(times, since))
            values[later:] += grown.get(object_key(labels, self._labels) or (), 0.0)

    def _of(self, position: int, names: Sequence[str]) -> list[_SizedSeries]:
        """The series of a claim that have one of these names."""
        return [each for each in self._sized[position] if each[0].get(NAME) in names]

    def _sized_series(self) -> list[list[_SizedSeries]]:
        """Those of each claim that an action changes."""
        found: list[list[_SizedSeries]] = [[] for _ in self._claims]
        for labels, times, values in self._series.all():
            if labels.labels.get(NAME) in (*CAPACITY, *AVAILABLE):
                key = object_key(labels.labels, self._labels) or ()
                for position in self._index.places.get(key, ()):
                    found[position].append((labels.labels, times, values))
        return found

    def _forget_recorded_resizes(self) -> None:
        """Every capacity is what it was first."""
        for position in range(len(self._claims)):
            first: dict[tuple[str, ...], Any] = {}
            for labels, times, values in self._of(position, CAPACITY):
                known = values[np.isfinite(values)]
                if len(known):
                    change = np.where(np.isfinite(values), known[0] - values, 0.0)
                    values += change
                    first[object_key(labels, self._labels) or ()] = times, change
            for labels, times, values in self._of(position, tuple(AVAILABLE)):
                found = first.get(object_key(labels, self._labels) or ())
                if found is not None and len(found[0]) == len(times):
                    values += found[1]
