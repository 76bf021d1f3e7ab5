"""The condition Verified of an ApplicationAction, from metrics that were measured after it."""

from __future__ import annotations

import math
from typing import Any

import pytest
from tests.kit.rule_fleet import RuleFleet, claim, rule

from pilothouse.api.kind_names import ApplicationAction
from pilothouse.api.objects import Object
from pilothouse.api.openstorage.v1alpha1 import Cause
from pilothouse.base.rfc3339 import format_time
from pilothouse.rules.action_verification import needs_verification, verification
from pilothouse.rules.readings import NoReadings, ObjectReading
from pilothouse.rules.verdict import Verdict

DONE = 1000.0
CLAIM = Object.of({**claim("data", "8Gi"), "metadata": {"name": "data", "namespace": "db", "uid": "c1"}})


def rule_object(*, generation: int = 1, uid: str = "r1", **expression: Any) -> Object:
    tree = rule("grow", "usage", "Gt", 50)
    tree["metadata"] |= {"uid": uid, "generation": generation}
    tree["spec"]["conditions"]["expressions"][0] |= expression
    return Object.of(tree)


def action(phase: str = "Succeeded", **status: Any) -> Object:
    return Object.of(
        {
            "apiVersion": ApplicationAction.api_version,
            "kind": ApplicationAction.kind,
            "metadata": {"name": "grow-1", "namespace": "db"},
            "spec": {
                "rule": "grow",
                "ruleUid": "r1",
                "ruleGeneration": 1,
                "object": {"kind": "PersistentVolumeClaim", "name": "data", "uid": "c1"},
                "action": "openstorage.io.action.volume/resize",
            },
            "status": {"phase": phase, "completionTime": format_time(DONE), **status},
        }
    )


class FixedReading(NoReadings):
    """One value, measured at one moment."""

    def __init__(self, value: float, sampled: float, verdict: Verdict) -> None:
        cause = Cause(expression="usage", value=f"{value:g}", operator="Gt", threshold=("50",))
        self._reading = ObjectReading(verdict, sampled, causes=(cause,))

    def of(self, rule: Object, claim: Object) -> ObjectReading:
        return self._reading


CLEARED = FixedReading(33.3, DONE + 10, Verdict.NOT_MET)


def test_a_later_sample_says_that_it_helped() -> None:
    found = verification(action(), rule_object(), CLAIM, CLEARED)
    assert found == (
        "True",
        "ConditionsCleared",
        "conditions are not met any more: usage is 33.3 (Gt 50)",
        None,
    )


def test_a_later_sample_says_that_it_did_not_help() -> None:
    readings = FixedReading(61, DONE + 10, Verdict.MET)
    found = verification(action(), rule_object(), CLAIM, readings)
    assert found[:3] == ("False", "ConditionsMet", "conditions are still met: usage is 61 (Gt 50)")


def test_a_value_between_threshold_and_clear_at_is_explained() -> None:
    readings = FixedReading(45, DONE + 10, Verdict.MET)
    found = verification(action(), rule_object(clearAt="40"), CLAIM, readings)
    assert found.message == "conditions are still met: usage is 45 (Gt 50, clearAt 40)"


@pytest.mark.parametrize(
    ("sampled", "verdict"),
    [
        (DONE - 1, Verdict.NOT_MET),
        # Times on record are of whole seconds: it may have been measured before.
        (DONE + 0.9, Verdict.NOT_MET),
        (DONE + 10, Verdict.UNKNOWN),
        # There is no sample, as for DoesNotExist.
        (math.inf, Verdict.MET),
    ],
)
def test_without_a_later_sample_it_is_unknown_and_looked_at_again(sampled: float, verdict: Verdict) -> None:
    found = verification(action(), rule_object(), CLAIM, FixedReading(33.3, sampled, verdict))
    assert (found.status, found.reason, found.retry) == ("Unknown", "NoSample", 10.0)


@pytest.mark.parametrize(
    ("rule_now", "claim_now", "reason"),
    [
        (None, CLAIM, "RuleGone"),
        (rule_object(uid="another"), CLAIM, "RuleGone"),
        (rule_object(generation=2), CLAIM, "RuleChanged"),
        (rule_object(), None, "ObjectGone"),
    ],
)
def test_what_can_not_be_found_out_stays_unknown(
    rule_now: Object | None, claim_now: Object | None, reason: str
) -> None:
    found = verification(action(), rule_now, claim_now, CLEARED)
    assert (found.status, found.reason, found.retry) == ("Unknown", reason, None)


def test_an_executor_that_gives_no_time_was_done_when_it_was_seen() -> None:
    seen = {"type": "Verified", "status": "Unknown", "lastTransitionTime": format_time(DONE)}
    first, later = action(completionTime=None), action(completionTime=None, conditions=[seen])
    assert verification(first, rule_object(), CLAIM, CLEARED).reason == "NoSample"
    assert verification(later, rule_object(), CLAIM, CLEARED).status == "True"


@pytest.mark.parametrize("phase", ["Running", "Failed", "Declined", "Canceled"])
def test_only_what_has_succeeded_is_verified(phase: str) -> None:
    assert needs_verification(action())
    assert not needs_verification(action(phase))


@pytest.mark.parametrize("status", ["True", "False"])
def test_a_verification_is_final(status: str) -> None:
    assert not needs_verification(action(conditions=[{"type": "Verified", "status": status}]))


def test_an_action_that_no_rule_fired_is_not_verified() -> None:
    tree = {**action().tree, "spec": {"rule": "grow"}}
    assert not needs_verification(Object.of(tree))


def _verified(fleet: RuleFleet) -> list[tuple[str, str, str]]:
    """Of each action in order: target, status and message."""
    found = sorted(fleet.actions(), key=lambda one: int(one.spec["trigger"]))
    conditions = [(one, one.condition("Verified") or {}) for one in found]
    return [(one.at("spec", "target", "to"), each.get("status", ""), each.get("message", ""))
            for one, each in conditions]  # fmt: skip


def test_each_action_of_a_volume_that_fills_is_verified_once() -> None:
    """10Gi of data: 8Gi to 12Gi and to 18Gi are not enough, 27Gi is."""
    with RuleFleet() as fleet:
        fleet.create(rule("grow", "usage", "Gt", 50), claim("grow", "8Gi"))
        fleet.fill(grow=10)
        fleet.wait(900)
        assert _verified(fleet) == [
            ("12Gi", "False", "conditions are still met: usage is 83.3333 (Gt 50)"),
            ("18Gi", "False", "conditions are still met: usage is 55.5556 (Gt 50)"),
            ("27Gi", "True", "conditions are not met any more: usage is 37.037 (Gt 50)"),
        ]
        versions = [one.revision for one in fleet.actions()]
        fleet.fill(grow=5)
        fleet.wait(300)
        assert [one.revision for one in fleet.actions()] == versions


def test_without_metrics_it_is_unknown_until_they_are_back() -> None:
    with RuleFleet() as fleet:
        fleet.create(rule("grow", "usage", "Gt", 50), claim("grow", "8Gi"))
        fleet.fill(grow=5)
        while not fleet.actions():
            fleet.wait(1)
        fleet.model(metrics="away")
        fleet.wait(120)
        (waiting,) = fleet.actions()
        assert (waiting.condition("Verified") or {}).get("reason") == "NoSample"
        fleet.wait(600)
        assert fleet.actions()[0].revision == waiting.revision
        fleet.model(metrics="ok")
        fleet.wait(60)
        assert [status for _, status, _ in _verified(fleet)] == ["True"]
