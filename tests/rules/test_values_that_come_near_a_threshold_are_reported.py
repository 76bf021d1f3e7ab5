"""The event ConditionApproaching: once for each approach, at 90 % of a threshold."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from tests.kit.rule_cases import UID, rule, situation
from tests.kit.rule_fleet import RuleFleet, claim
from tests.kit.rule_fleet import rule as rule_tree

from pilothouse.api.objects import Object
from pilothouse.api.openstorage.v1alpha1 import AutopilotRuleSpec
from pilothouse.rules.evaluation import EvaluatedRule
from pilothouse.rules.join import Joined
from pilothouse.rules.object_records import ObjectRecord, RuleTerms
from pilothouse.rules.object_states import StateOutcome, advance
from pilothouse.rules.object_table import ObjectTable
from pilothouse.rules.rule_case import RuleCase
from pilothouse.rules.state_requests import ReportApproach
from pilothouse.rules.verdict import Verdict
from pilothouse.rules.verdicts import MET, NOT_MET, Series, ThresholdComparison, approaching, compared

NOT, YES = NOT_MET, MET


@pytest.mark.parametrize(
    ("operator", "threshold", "held", "values", "expected"),
    [
        ("Gt", 50, False, (40, 44.9, 45, 60), [NOT, NOT, YES, YES]),
        ("GtEq", 50, True, (39.9, 40, 45), [NOT, YES, YES]),
        ("Lt", 90, False, (120, 101, 100, 50), [NOT, NOT, YES, YES]),
        ("LtEq", 80, True, (100.1, 100, 88), [NOT, YES, YES]),
    ],
)
def test_near_is_from_ninety_percent_on_and_down_to_eighty(
    operator: str, threshold: float, held: bool, values: tuple[float, ...], expected: list[int]
) -> None:
    nearer = approaching(ThresholdComparison(operator, (threshold,)))
    assert nearer is not None
    series = Series(np.arange(len(values), dtype=np.int32), np.array(values, dtype=np.float64))
    assert list(compared(nearer, series, np.full(len(values), held))) == expected


@pytest.mark.parametrize(
    "comparison",
    [
        ThresholdComparison("Gt", (0.0,)),
        ThresholdComparison("Lt", (-5.0,)),
        ThresholdComparison("InRange", (1.0, 2.0)),
        ThresholdComparison("In", (1.0,)),
        ThresholdComparison("Exists"),
    ],
)
def test_other_operators_and_thresholds_have_no_approach(comparison: ThresholdComparison) -> None:
    assert approaching(comparison) is None


def _step(record: ObjectRecord, verdict: Verdict, near: bool | None) -> StateOutcome:
    return advance(RuleCase(rule(), UID, record, situation(verdict, near=near), 1000.0))


def test_an_approach_is_on_record_and_reported_once() -> None:
    normal = ObjectRecord(state="Normal", generation=1)
    first = _step(normal, Verdict.NOT_MET, True)
    assert (first.record.approaching, first.requests) == (True, (ReportApproach(),))
    assert first.transitions == ()
    second = _step(first.record, Verdict.NOT_MET, True)
    assert (second.record, second.requests) == (first.record, ())
    unknown = _step(first.record, Verdict.UNKNOWN, None)
    assert (unknown.record, unknown.requests) == (first.record, ())
    over = _step(first.record, Verdict.NOT_MET, False)
    assert (over.record.approaching, over.requests) == (False, ())


def test_coming_back_from_above_is_no_approach() -> None:
    triggered = _step(ObjectRecord(state="Normal", generation=1), Verdict.MET, True).record
    assert (triggered.state, triggered.approaching) == ("Triggered", True)
    back = _step(triggered, Verdict.NOT_MET, True)
    assert (back.record.state, back.requests) == ("Normal", ())


def test_after_an_action_an_approach_is_a_new_one() -> None:
    taken = ObjectRecord(state="ActiveActionsTaken", until=990.0, generation=1, approaching=True)
    outcome = _step(taken, Verdict.NOT_MET, True)
    assert (outcome.record.state, outcome.requests) == ("Normal", (ReportApproach(),))


def _evaluated(count: int, *expressions: Any, **conditions: Any) -> EvaluatedRule:
    trees = (
        {
            **claim(f"c{number}", "8Gi"),
            "metadata": {"name": f"c{number}", "namespace": "db", "uid": f"uid-{number}"},
            "status": {"phase": "Bound"},
        }
        for number in range(count)
    )
    claims = [Object.of({**tree, "spec": {"volumeName": f"pv-{tree['metadata']['name']}"}}) for tree in trees]
    spec = {
        "conditions": {"expressions": list(expressions), **conditions},
        "actions": [{"name": "openstorage.io.action.volume/resize"}],
    }
    terms = RuleTerms("grow", 1, msgspec.convert(spec, AutopilotRuleSpec))
    found = EvaluatedRule(terms, "r1", ObjectTable.of_claims(claims), lambda _: None)
    found.is_edited = False
    for position in range(count):
        found.record(position, "Normal", None)
    return found


def _joined(*values: float) -> Joined:
    positions = np.arange(len(values), dtype=np.int32)
    return Joined(positions, np.array(values, dtype=np.float64), np.full(len(values), 10.0), 0)


USAGE = {"key": "usage", "operator": "Gt", "values": ["50"]}
CAPACITY = {"key": "capacity", "operator": "Lt", "values": ["90"]}


def test_only_changes_call_for_a_decision() -> None:
    evaluated = _evaluated(4, USAGE)
    assert list(evaluated.evaluate([_joined(10, 46, 30, 44)], 10.0)) == [1]
    evaluated.record(1, "Normal", None, approaching=True)
    assert list(evaluated.evaluate([_joined(10, 47, 30, 44)], 20.0)) == []
    assert list(evaluated.evaluate(None, 30.0)) == []
    assert list(evaluated.evaluate([_joined(10, 41, 45, 44)], 40.0)) == [2]
    assert list(evaluated.evaluate([_joined(10, 39, 44, 44)], 50.0)) == [1]
    assert [evaluated.reading(f"uid-{number}").near for number in range(4)] == [False, False, False, False]


def test_all_expressions_that_are_required_have_to_be_near() -> None:
    both = _evaluated(3, USAGE, CAPACITY)
    assert list(both.evaluate([_joined(46, 46, 10), _joined(50, 200, 50)], 10.0)) == [0]
    either = _evaluated(3, USAGE, CAPACITY, requiredMatches=1)
    assert list(either.evaluate([_joined(46, 10, 10), _joined(200, 99, 200)], 10.0)) == [0, 1]


def test_an_event_for_each_approach_of_a_volume() -> None:
    with RuleFleet() as fleet:
        fleet.create(rule_tree("grow", "usage", "Gt", 50), claim("grow", "10Gi"))
        fleet.fill(grow=2)
        fleet.wait(60)
        assert not fleet.events("ConditionApproaching")
        fleet.fill(grow=4.6)
        fleet.wait(120)
        name = fleet.objects()["grow/grow"].name
        near = f"rule: grow:{name} comes near its conditions: usage is 46 (Gt 50)"
        assert fleet.events("ConditionApproaching") == {near: 1}
        fleet.manager.crash()
        fleet.manager.start()
        fleet.wait(60)
        fleet.fill(grow=4.2)
        fleet.wait(60)
        assert fleet.events("ConditionApproaching") == {near: 1}
        fleet.fill(grow=2)
        fleet.wait(60)
        fleet.fill(grow=4.6)
        fleet.wait(60)
        assert fleet.events("ConditionApproaching") == {near: 2}
        assert fleet.actions() == []
