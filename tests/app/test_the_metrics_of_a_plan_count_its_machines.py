"""``plan_metrics``: computed from the status of the plan, which machines write through their signals."""

from __future__ import annotations

import re

from tests.kit.plan_fleet import EVERY, PlanFleet, update

from pilothouse.app.plan_metrics import plan_families


def shown(fleet: PlanFleet) -> dict[str, float]:
    """Every sample of the page, without the label of the plan."""
    lines = "".join(plan_families(fleet.plan)).splitlines()
    samples = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {re.sub(r'plan="autopilot",?', "", name): float(value) for name, _, value in samples}


def test_a_plan_that_has_not_started_has_none() -> None:
    fleet = PlanFleet(workers=1)
    assert list(plan_families(None)) == []
    fleet.add_plan(update(workers=EVERY, forceupdate=True))
    assert shown(fleet) == {}


def test_machines_are_counted_by_state_and_step() -> None:
    fleet = PlanFleet(workers=4)
    fleet.add_plan(update(workers=EVERY, concurrent=2, forceupdate=True))
    fleet.settle_decisions()
    fleet.now += 30
    fleet.advance("w0")
    fleet.settle_decisions()
    page = shown(fleet)
    workers = 'command="0/k0supdate",part="workers"'
    assert page['pilothouse_plan_state{state="SchedulableWait"}'] == 1
    assert page['pilothouse_plan_state{state="Completed"}'] == 0
    assert page[f'pilothouse_plan_targets{{{workers},state="SignalSent"}}'] == 2
    assert page[f'pilothouse_plan_targets{{{workers},state="SignalPending"}}'] == 2
    assert page[f'pilothouse_plan_targets{{{workers},state="SignalApplyFailed"}}'] == 0
    assert page[f'pilothouse_plan_targets_in_progress{{{workers},step="Downloading"}}'] == 1
    assert page[f'pilothouse_plan_targets_in_progress{{{workers},step="Signalled"}}'] == 1
    assert page["pilothouse_plan_last_transition_timestamp_seconds{}"] == fleet.now
    assert page[f"pilothouse_plan_target_duration_seconds_count{{{workers}}}"] == 0


def test_turns_that_have_ended_are_in_the_histogram() -> None:
    fleet = PlanFleet(workers=1)
    fleet.broken["w0"] = ("Failed", "no room")
    fleet.add_plan(update(workers=EVERY, forceupdate=True))
    fleet.settle_decisions()
    fleet.now += 45
    fleet.run()
    page = shown(fleet)
    workers = 'command="0/k0supdate",part="workers"'
    assert page['pilothouse_plan_state{state="ApplyFailed"}'] == 1
    assert page[f'pilothouse_plan_targets{{{workers},state="SignalApplyFailed"}}'] == 1
    assert page[f"pilothouse_plan_target_duration_seconds_sum{{{workers}}}"] == 45
    assert page[f'pilothouse_plan_target_duration_seconds_bucket{{{workers},le="30"}}'] == 0
    assert page[f'pilothouse_plan_target_duration_seconds_bucket{{{workers},le="60"}}'] == 1
