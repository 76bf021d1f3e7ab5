"""Timers are in the record: they outlive a crash at any point, gaps in the data, and clocks that are set."""

from __future__ import annotations

import pytest
from tests.kit.rule_cases import SteppedObject, rule

from pilothouse.rules.verdict import Verdict

MET, NOT_MET, UNKNOWN = Verdict.MET, Verdict.NOT_MET, Verdict.UNKNOWN


def test_a_crash_between_the_action_and_the_record_starts_no_second_action() -> None:
    """px-T14: killed at Pending => InProgress, it acts exactly once."""
    volume = SteppedObject()
    volume.at(0, MET)
    volume.at(30, budget="spent")
    outcome = volume.step()
    assert outcome.record.state == "ActiveActionsInProgress"
    volume.crash(outcome)
    for verdict in (UNKNOWN, NOT_MET, MET):
        volume.verdict = verdict
        again = volume.step(budget="spent", blocked="another", window_opens=5.0)
        assert again.record.state == "ActiveActionsInProgress"
        assert again.requests == ()
    volume.at(1)
    assert list(volume.actions) == [volume.expect_name(1)]


@pytest.mark.parametrize("every", [1, 2, 3])
def test_a_process_that_dies_after_its_requests_and_before_its_record_loses_and_repeats_nothing(
    every: int,
) -> None:
    volume = SteppedObject()
    steps = 0
    for second in range(0, 2000, 5):
        volume.now += 5
        volume.verdict = MET if second < 1200 else NOT_MET
        for _ in range(4):
            outcome = volume.step()
            steps += 1
            if steps % (every + 1):
                volume.crash(outcome)
                continue
            volume.write(outcome)
        if volume.state == "ActiveActionsInProgress" and second % 35 == 0:
            volume.end("Succeeded")
    names = [volume.expect_name(number) for number in range(1, len(volume.actions) + 1)]
    assert list(volume.actions) == names
    assert len(names) >= 2
    assert volume.state == "Normal"


def test_holding_goes_on_over_a_restart() -> None:
    volume = SteppedObject()
    volume.at(0, MET)
    volume.at(20, UNKNOWN)
    volume.at(5, UNKNOWN)
    volume.at(10, MET)
    assert volume.state == "ActiveActionsInProgress"


def test_the_cool_down_goes_on_over_a_restart() -> None:
    volume = SteppedObject()
    volume.at(0, MET)
    volume.at(30)
    volume.end("Succeeded")
    volume.at(1)
    volume.at(250, UNKNOWN)
    assert volume.state == "ActiveActionsTaken"
    volume.at(50, UNKNOWN)
    assert volume.state == "Normal"


def test_after_a_gap_conditions_have_to_hold_anew() -> None:
    volume = SteppedObject(rule(hold=600))
    volume.at(0, MET)
    volume.at(300, UNKNOWN)
    resumed = volume.now + 60
    outcome = volume.at(60, MET, resumed=resumed)
    assert outcome.wake == 600
    before = volume.record
    volume.at(10, resumed=resumed)
    assert volume.record == before, "once, not with every look"
    volume.at(589, resumed=resumed)
    assert volume.state == "Triggered"
    volume.at(1, resumed=resumed)
    assert volume.state == "ActiveActionsInProgress"


def test_after_a_long_time_without_a_look_conditions_have_to_hold_anew() -> None:
    """px-T18: the engine or its metrics were away for ten minutes."""
    volume = SteppedObject()
    volume.at(0, MET)
    volume.at(600)
    assert volume.state == "Triggered"
    assert volume.actions == {}
    volume.at(30)
    assert volume.state == "ActiveActionsInProgress"


def test_a_short_time_without_data_does_not_interrupt() -> None:
    volume = SteppedObject()
    volume.at(0, MET)
    volume.at(40, UNKNOWN)
    volume.at(10, MET)
    assert volume.state == "ActiveActionsInProgress"


@pytest.mark.parametrize(
    "state", ["Triggered", "ActiveActionsTaken", "ActiveActionsPending", "ActionsDeclined"]
)
def test_a_timer_of_a_clock_that_was_ahead_starts_anew(state: str) -> None:
    """The manager that wrote it had a clock an hour ahead of this one's."""
    volume = SteppedObject(now=100_000.0)
    volume.at(0, MET)
    if state != "Triggered":
        volume.at(30)
        ends = {
            "ActiveActionsTaken": "Succeeded",
            "ActiveActionsPending": "Failed",
            "ActionsDeclined": "Declined",
        }
        volume.end(ends[state])
        volume.at(1)
    assert volume.state == state
    volume.now -= 7200
    outcome = volume.at(0)
    assert volume.state == state
    assert outcome.wake is not None
    assert outcome.wake <= 3600
    before = volume.record
    volume.at(1)
    assert volume.record == before


def test_an_action_of_a_clock_that_was_ahead_does_not_hide_all_values() -> None:
    volume = SteppedObject(rule(actionsCoolDownPeriod=0), now=100_000.0)
    volume.at(0, MET)
    volume.at(30)
    volume.end("Succeeded")
    volume.now -= 7200
    volume.at(1)
    volume.at(31)
    volume.at(31)
    assert len(volume.actions) == 2


def test_a_shorter_time_in_an_edited_rule_counts_at_once() -> None:
    volume = SteppedObject(rule(hold=3600))
    volume.at(0, MET)
    volume.rule = rule(hold=10, generation=2)
    volume.at(1)
    volume.at(10)
    assert volume.state == "ActiveActionsInProgress"
