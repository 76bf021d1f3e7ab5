"""What is known of an object under a rule at one moment, in words.

    explained(ruled, case, readings, world.now)     # for the status of a Question

What an object waits for is said as in the Decision about it, which ``pilothouse why`` shows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal

from pilothouse.api.openstorage.v1alpha1 import Cause, Expression
from pilothouse.api.pilothouse.v1alpha1 import ExplainedCandidate, MeasuredValue, RuleReading, Waiting
from pilothouse.base.rfc3339 import format_time, parse_time
from pilothouse.rules.action_targets import ActionTarget, target_text
from pilothouse.rules.object_records import ObjectRecord, RuleTerms
from pilothouse.rules.object_states import StateWait, advance
from pilothouse.rules.readings import CandidateReading, PastValue, Readings, RuleFindings
from pilothouse.rules.rule_case import RuleCase
from pilothouse.rules.rule_queries import text_of
from pilothouse.rules.ruled_objects import RuledObject
from pilothouse.rules.samples import QueryFailure
from pilothouse.rules.verdict import Verdict

_CONDITIONS: Final[Mapping[Verdict, Literal["Met", "NotMet", "Unknown"]]] = {
    Verdict.MET: "Met",
    Verdict.NOT_MET: "NotMet",
    Verdict.UNKNOWN: "Unknown",
}
_DIRECTIONS: Final = {"Gt": 1, "GtEq": 1, "Lt": -1, "LtEq": -1}
_SHORTEST: Final = 1800.0
"""Seconds that must have been seen, as for the alias VolumeSecondsToFull."""
_FARTHEST: Final = 365 * 86400.0


def explained(ruled: RuledObject, case: RuleCase, readings: Readings, now: float) -> RuleReading:
    """``case`` is that of the object at this moment; ``now`` is by the wall clock."""
    record = ruled.record
    return RuleReading(
        rule=ruled.rule.name,
        object=ruled.object.name,
        kind=ruled.object.kind,
        volume=ruled.subject if ruled.about == "volume" else "",
        values=tuple(_values(ruled, case, readings)),
        conditions=_CONDITIONS[case.verdict],
        unknown=_unknown(ruled, readings.findings(ruled.rule)) if case.verdict is Verdict.UNKNOWN else "",
        state=record.state or "",
        since=format_time(record.since) if record.state is not None else None,
        waiting=_waiting(ruled, case, now),
        would=_would(case),
        candidates=tuple(_candidates(ruled.reading.candidates)),
        candidate=case.situation.candidate,
    )


def _would(case: RuleCase) -> str:
    if not case.actions:
        target = case.target
        return "" if isinstance(target, ActionTarget) else target.because
    each = zip(case.actions, case.situation.targets, strict=True)
    return "; ".join(target_text(action, target) for action, target in each)


def _candidates(found: Sequence[CandidateReading] | QueryFailure) -> Iterator[ExplainedCandidate]:
    for one in () if isinstance(found, QueryFailure) else found:
        yield ExplainedCandidate(
            name=one.name, holds=one.holds, links=tuple(_measured(cause) for cause in one.causes)
        )


def _measured(cause: Cause, reached: str | None = None) -> MeasuredValue:
    return MeasuredValue(
        expression=cause.expression,
        value=cause.value,
        time=cause.time,
        operator=cause.operator or "",
        threshold=cause.threshold,
        reached=reached,
        level=cause.level or "",
        object=cause.object,
        held=cause.held,
    )


def _values(ruled: RuledObject, case: RuleCase, readings: Readings) -> Iterator[MeasuredValue]:
    # By the provider's clock, as samples are.
    last_action = case.last_action + readings.ahead
    past = [
        one if one and one.time > last_action else None for one in readings.past(ruled.rule, ruled.object)
    ]
    for number, expression in enumerate(ruled.terms.spec.conditions.expressions):
        mine = [cause for cause in ruled.reading.causes if _is_of(cause, expression)]
        before = past[number] if len(mine) == 1 and past else None
        missing = Cause(
            expression=text_of(expression),
            operator=expression.operator,
            threshold=expression.values,
            level=expression.level or ruled.about,  # type: ignore[arg-type]
        )
        for cause in mine or [missing]:
            yield _measured(cause, _reached(expression, cause, before) if before is not None else None)


def _reached(expression: Expression, cause: Cause, before: PastValue) -> str | None:
    """When the value comes to its threshold by a straight line; None if it does not within a year."""
    direction = _DIRECTIONS.get(expression.operator or "", 0)
    value, time = float(cause.value), parse_time(cause.time or "")
    # As many digits as the present value has, so that a value that stays does not change.
    elapsed, change = time - before.time, value - float(f"{before.value:g}")
    missing = float(expression.values[0]) - value if direction else 0.0
    if (
        elapsed < _SHORTEST
        or not math.isfinite(change)
        or missing * direction <= 0
        or change * direction <= 0
    ):
        return None
    seconds = missing / change * elapsed
    return format_time(time + seconds) if seconds <= _FARTHEST else None


def _is_of(cause: Cause, expression: Expression) -> bool:
    compared = cause.operator, cause.threshold
    return cause.expression == text_of(expression) and compared == (expression.operator, expression.values)


def _unknown(ruled: RuledObject, findings: RuleFindings | None) -> str:
    """Why it is not known whether the conditions are met."""
    causes = ruled.reading.causes
    if findings is None:
        return "the rule has not been evaluated since it was changed, or since the controller-manager started"
    if findings.failure is not None:
        # Its message may name servers, which not everybody who may ask may know of.
        return f"{findings.failure.reason}: the condition Ready of the rule says more"
    if ruled.reading.verdict is not Verdict.UNKNOWN:
        return "the values were measured before the last action on the object was complete"
    if not causes:
        return "no series names the object"
    if not all(math.isfinite(float(cause.value)) for cause in causes):
        return "a value is not a finite number"
    return "an expression has no value"


def _waiting(ruled: RuledObject, case: RuleCase, now: float) -> Waiting | None:
    if ruled.pause:
        return Waiting(reason="Paused", message=ruled.pause, remedy="pilothouse rule resume")
    outcome = advance(case)
    waiting = outcome.waiting or _going_on(outcome.record, case.rule)
    if waiting is None:
        return None
    # A budget is looked at with each poll, which says nothing of when it has room.
    left = outcome.wake if waiting.reason != "BudgetSpent" else None
    until = format_time(now + left) if left is not None else None
    return Waiting(reason=waiting.reason, message=waiting.because, until=until, remedy=waiting.remedy)


def _going_on(record: ObjectRecord, rule: RuleTerms) -> StateWait | None:
    """What ends a state that ends by itself."""
    match record.state:
        case "Triggered" if rule.recommends and record.until is None:
            return StateWait("Recommends", "the rule only recommends, and starts no action")
        case "Triggered":
            return StateWait("Hold", f"conditions have to hold for {rule.spec.conditions.for_} seconds")
        case "ActiveActionsInProgress":
            return StateWait("Action", f"the ApplicationAction {record.action} has to be complete")
        case "ActiveActionsTaken":
            return StateWait("CoolDown", "the cool-down after an action has to end")
        case _:
            return None
