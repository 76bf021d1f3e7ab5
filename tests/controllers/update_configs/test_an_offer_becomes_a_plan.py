"""What an UpdateConfig makes of the offers of its channel."""

from __future__ import annotations

from typing import Any

import pytest
from tests.controllers.update_configs.channels import (
    TUESDAY_NOON,
    FollowedChannel,
    config,
    cron,
    nothing,
    offer,
    periodic,
)

from pilothouse.api.objects import Tree
from pilothouse.base.rfc3339 import format_time, parse_time
from pilothouse.runtime.intents import RequeueAfter, Wait

OLD, NEW, NEWER = "v1.30.1+k0s.0", "v1.30.2+k0s.0", "v1.30.3+k0s.0"
TUESDAY = {"days": ["Tuesday"], "startTime": "13:00", "length": "2h"}


def followed(*configs: Tree, version: str = OLD, **options: Any) -> FollowedChannel:
    channel = FollowedChannel(*(configs or (periodic(),)), **options)
    channel.controller("c1", version)
    return channel


def test_k0s_A38_a_newer_version_becomes_a_plan() -> None:
    channel = followed()
    channel.check(offer(NEW, "linux-amd64", "linux-arm64", "windows-amd64"))
    assert channel.plan is not None
    every: Tree = {"discovery": {"selector": {}}}
    (command,) = channel.plan["spec"]["commands"]
    assert command["k0supdate"]["version"] == NEW
    assert sorted(command["k0supdate"]["platforms"]) == ["linux-amd64", "linux-arm64", "windows-amd64"]
    assert command["k0supdate"]["targets"] == {"controllers": every, "workers": every}
    assert "airgapupdate" not in command
    assert channel.plan["metadata"]["name"] == "autopilot"
    assert channel.plan["spec"]["id"] == channel.plan["spec"]["timestamp"] == str(int(TUESDAY_NOON))
    assert channel.plan["spec"]["rollout"]["windows"] == [{"startTime": "00:00", "length": "24h"}]
    assert channel.reason == "PlanCreated"
    assert f"c1 ({OLD})" in channel.message


@pytest.mark.parametrize("offered", [OLD, "v1.30.0+k0s.5", "v1.30.1", "v1.30.1-rc.1"])
def test_k0s_A38_what_is_not_newer_becomes_none(offered: str) -> None:
    channel = followed()
    channel.check(offer(offered))
    assert channel.plan is None
    assert channel.reason == "UpToDate"
    assert channel.status["availableVersion"] == offered


def test_k0s_A38_outside_the_window_the_channel_is_checked_and_no_plan_is_made() -> None:
    channel = followed(periodic(window=TUESDAY))
    channel.check(offer(NEW))
    assert (channel.plan, channel.checks, channel.reason) == (None, 1, "OutsideWindow")
    assert channel.status["nextWindow"] == "2030-01-01T13:00:00Z"
    assert "2030-01-01T13:00:00Z" in channel.message
    for _ in range(5):
        channel.later(600)
        channel.check(offer(NEW))
    assert channel.plan is None
    channel.later(600)
    channel.decide()
    channel.answer(offer(NEW))
    channel.decide()
    assert channel.planned == NEW
    assert "nextWindow" not in channel.status
    assert channel.plan["spec"]["rollout"]["windows"] == [TUESDAY]  # type: ignore[index]


def test_the_opening_of_a_window_is_not_slept_through() -> None:
    channel = followed(periodic(window={**TUESDAY, "startTime": "12:05"}))
    channel.check(offer(NEW))
    (wait,) = [one for one in channel.decide() if isinstance(one, Wait)]
    assert (wait.reason, wait.seconds) == ("OutsideWindow", 300)
    channel.later(300)
    channel.decide()
    assert channel.planned == NEW


def test_a_channel_is_checked_every_ten_minutes() -> None:
    channel = followed()
    channel.check(offer(OLD))
    channel.later(599)
    (again,) = [one for one in channel.decide() if isinstance(one, RequeueAfter)]
    assert (channel.checks, again.seconds) == (1, 1)
    channel.later(1)
    channel.check(offer(NEW))
    assert channel.planned == NEW


def test_nothing_is_decided_while_a_check_is_under_way() -> None:
    channel = followed()
    channel.check(offer(OLD))
    channel.later(600)
    channel.decide()
    before = dict(channel.status)
    assert [type(one) for one in channel.decide()] == [Wait]
    assert channel.status == before


def test_a_clock_that_was_set_back_delays_no_check() -> None:
    channel = followed()
    channel.check(offer(OLD))
    channel.later(-86400)
    channel.check(offer(OLD))
    assert channel.checks == 2


def test_an_edit_is_followed_by_a_check() -> None:
    channel = followed()
    channel.check(offer(OLD))
    channel.edit(channel="edge")
    channel.check(offer(NEW))
    assert channel.planned == NEW


@pytest.mark.parametrize("state", ["", "SchedulableWait", "Schedulable"])
def test_k0s_A39_a_plan_that_runs_is_left_alone(state: str) -> None:
    channel = followed()
    channel.check(offer(NEW))
    channel.ended(state)
    channel.later(600)
    channel.check(offer(NEWER))
    assert (channel.planned, channel.applied, channel.reason) == (NEW, 1, "PlanRunning")


def test_k0s_A39_a_plan_whose_spec_is_still_to_run_is_left_alone() -> None:
    channel = followed()
    channel.check(offer(NEW))
    channel.ended("ApplyFailed")
    assert channel.plan is not None
    channel.plan["spec"]["id"] = "mended"
    channel.plan["metadata"]["generation"] += 1
    channel.later(600)
    channel.check(offer(NEWER))
    assert (channel.applied, channel.reason) == (1, "PlanRunning")


@pytest.mark.parametrize(
    "state", ["ApplyFailed", "IncompleteTargets", "InconsistentTargets", "Warning", "Restricted"]
)
def test_k0s_A39_a_failed_plan_blocks_and_says_so(state: str) -> None:
    channel = followed()
    channel.check(offer(NEW))
    channel.ended(state, conditions=[{"type": "Failed", "status": "True", "message": "c1: bad hash"}])
    channel.later(600)
    channel.check(offer(NEW))
    assert (channel.applied, channel.reason) == (1, "PlanFailed")
    assert f"ended as {state} (c1: bad hash)" in channel.message
    assert "correct or delete the plan" in channel.message
    (wait,) = [one for one in channel.decide() if isinstance(one, Wait)]
    assert wait.reason == "PlanFailed"


def test_k0s_A39_a_failed_plan_blocks_while_a_target_reports_no_version() -> None:
    channel = followed()
    channel.check(offer(NEW))
    channel.ended("ApplyFailed")
    channel.controller("c1", "")
    channel.later(600)
    channel.check(offer(NEW))
    assert (channel.applied, channel.reason) == (1, "PlanFailed")
    channel.controller("c1", NEW)
    channel.later(600)
    channel.check(offer(NEW))
    assert (channel.applied, channel.reason) == (1, "UpToDate")


def test_k0s_A39_a_newer_version_replaces_a_failed_plan() -> None:
    channel = followed()
    channel.check(offer(NEW))
    channel.ended("ApplyFailed")
    channel.later(600)
    channel.check(offer(NEWER))
    assert (channel.planned, channel.reason) == (NEWER, "PlanCreated")


def test_the_plan_after_one_that_was_aborted_runs() -> None:
    channel = followed()
    channel.check(offer(NEW))
    assert channel.plan is not None
    channel.ended("ApplyFailed")
    channel.plan["spec"]["rollout"]["aborted"] = True
    channel.plan["metadata"]["generation"] += 1
    channel.later(600)
    channel.check(offer(NEW))
    assert (channel.applied, channel.reason) == (1, "PlanFailed")
    channel.later(600)
    channel.check(offer(NEWER))
    assert channel.plan["spec"]["rollout"]["aborted"] is False


def test_a_plan_that_was_aborted_before_its_start_blocks() -> None:
    channel = followed()
    channel.check(offer(NEW))
    assert channel.plan is not None
    channel.plan["spec"]["rollout"]["aborted"] = True
    channel.decide()
    assert channel.reason == "PlanFailed"
    assert "ended as aborted" in channel.message


def test_k0s_A39_a_failed_plan_that_was_deleted_blocks_no_more() -> None:
    channel = followed()
    channel.check(offer(NEW))
    channel.ended("ApplyFailed")
    channel.plan = None
    channel.decide()
    assert channel.planned == NEW


def test_k0s_A40_a_completed_plan_is_replaced_by_the_next_version() -> None:
    channel = followed()
    channel.check(offer(NEW))
    channel.ended("Completed", done=("c1",))
    channel.controller("c1", NEW)
    channel.later(600)
    channel.check(offer(NEWER))
    assert channel.plan is not None
    assert (channel.planned, channel.plan["metadata"]["generation"]) == (NEWER, 2)


def test_k0s_A40_nothing_runs_again_without_need() -> None:
    channel = followed()
    channel.worker("w1", "v1.30.1+k0s")
    channel.check(offer(NEW))
    channel.ended("Completed", done=("c1", "w1"))
    channel.controller("c1", NEW)
    for _ in range(3):
        channel.later(600)
        channel.check(offer(NEW))
    assert (channel.applied, channel.reason) == (1, "UpToDate")


def test_a_machine_that_joined_late_follows() -> None:
    channel = followed()
    channel.check(offer(NEW))
    channel.ended("Completed", done=("c1",))
    channel.controller("c1", NEW)
    channel.later(600)
    channel.controller("c2", OLD)
    channel.check(offer(NEW))
    assert channel.plan is not None
    assert (channel.planned, channel.plan["metadata"]["generation"]) == (NEW, 2)
    assert f"c2 ({OLD})" in channel.message


@pytest.mark.parametrize(
    ("kubelet", "older"),
    [
        ("v1.30.1+k0s", True),
        ("v1.29.9", True),
        ("v1.30.2+k0s", False),
        ("v1.30.2", False),
        ("v1.31.0+k0s", False),
        ("v1.32.4+pilothouse0.1.0", False),
        ("v1.20.0+pilothouse0.1.0", False),
        ("unknown", False),
        ("", False),
    ],
)
def test_workers_are_compared_by_the_release_of_their_kubelet(kubelet: str, older: bool) -> None:
    channel = followed(version=NEW)
    channel.worker("w1", kubelet)
    channel.check(offer(NEW))
    assert (channel.plan is not None) is older


@pytest.mark.parametrize(("version", "older"), [(OLD, True), (NEW, False)])
def test_an_annotation_of_the_agent_counts_more_than_the_kubelet(version: str, older: bool) -> None:
    channel = followed(version=NEW)
    channel.worker("w1", "v1.20.0")
    channel.machines["w/w1"]["metadata"]["annotations"] = {"autopilot.k0sproject.io/version": version}
    channel.check(offer(NEW))
    assert (channel.plan is not None) is older


def test_only_targets_count() -> None:
    target = {"discovery": {"selector": {"labels": "ring=canary", "fields": "metadata.name!=c3"}}}
    named = {"discovery": {"static": {"nodes": ["w9"]}}}
    commands = [{"k0supdate": {"forceupdate": True, "targets": {"controllers": target, "workers": named}}}]
    channel = FollowedChannel(periodic(planSpec={"commands": commands}))
    channel.controller("c1", OLD)
    channel.controller("c2", NEW, ring="canary")
    channel.controller("c3", OLD, ring="canary")
    channel.worker("w1", "v1.20.0")
    channel.check(offer(NEW))
    assert (channel.plan, channel.reason) == (None, "UpToDate")
    channel.controller("c4", OLD, ring="canary")
    channel.decide()
    assert channel.plan is not None
    update = channel.plan["spec"]["commands"][0]["k0supdate"]
    assert (update["targets"], update["forceupdate"]) == (commands[0]["k0supdate"]["targets"], True)


def test_bundles_and_rollouts_are_taken_from_the_plan_spec() -> None:
    workers = {"discovery": {"selector": {"labels": "a=b"}}, "limits": {"concurrent": 5}}
    spec = {
        "commands": [{"airgapupdate": {"workers": workers}}, {"k0supdate": {}}],
        "rollout": {"maxFailures": 2, "windows": [{"startTime": "03:00", "length": "1h"}]},
    }
    channel = followed(periodic(planSpec=spec))
    channel.check(offer(NEW, airgap=True))
    assert channel.plan is not None
    bundle, program = channel.plan["spec"]["commands"]
    assert bundle["airgapupdate"] == {
        "version": NEW,
        "platforms": {"linux-amd64": {"url": f"https://x/{NEW}/linux-amd64.tar"}},
        "workers": workers,
    }
    assert program["k0supdate"]["version"] == NEW
    assert channel.plan["spec"]["rollout"] == {
        "maxFailures": 2,
        "windows": [{"startTime": "03:00", "length": "1h"}, {"startTime": "00:00", "length": "24h"}],
    }


def test_a_bundle_that_is_not_offered_makes_no_plan() -> None:
    channel = followed(periodic(planSpec={"commands": [{"airgapupdate": {}}]}))
    channel.check(offer(NEW))
    assert (channel.plan, channel.reason) == (None, "NoOffer")
    assert "without a bundle" in channel.message


def test_a_bundle_alone_is_brought_once() -> None:
    channel = followed(periodic(planSpec={"commands": [{"airgapupdate": {}}]}))
    channel.check(offer(NEW, airgap=True))
    assert channel.applied == 1
    channel.ended("Completed")
    channel.later(600)
    channel.check(offer(NEW, airgap=True))
    assert channel.applied == 1
    channel.later(600)
    channel.check(offer(NEWER, airgap=True))
    assert channel.applied == 2
    channel.ended("ApplyFailed")
    channel.later(600)
    channel.check(offer(NEWER, airgap=True))
    assert (channel.applied, channel.reason) == (2, "PlanFailed")


def test_k0s_A41_a_check_that_failed_is_reported_and_repeated() -> None:
    channel = followed()
    channel.check(nothing("https://x answered 500"))
    assert (channel.plan, channel.reason, channel.message) == (None, "NoOffer", "https://x answered 500")
    assert channel.condition("Checked") == ("CheckFailed", "https://x answered 500")
    channel.later(600)
    channel.check(offer(NEW))
    assert channel.condition("Checked") == ("Answered", "")
    assert channel.planned == NEW


@pytest.mark.parametrize(
    ("moment", "is_open"),
    [
        ("2030-01-01T12:59:59Z", False),
        ("2030-01-01T13:00:01Z", True),
        ("2030-01-01T14:59:59Z", True),
        ("2030-01-01T15:00:00Z", False),
        ("2030-01-02T13:30:00Z", False),
    ],
)
def test_k0s_A42_plans_are_made_within_the_window(moment: str, is_open: bool) -> None:
    channel = followed(periodic(window=TUESDAY), now=parse_time(moment))
    channel.check(offer(NEW))
    assert (channel.plan is not None) is is_open
    assert ("nextWindow" in channel.status) is not is_open


def test_k0s_A43_a_window_goes_on_after_midnight() -> None:
    window = {"days": ["Monday"], "startTime": "23:00", "length": "2h"}
    channel = followed(periodic(window=window), now=TUESDAY_NOON - 11.5 * 3600)
    channel.check(offer(NEW))
    assert channel.planned == NEW


def test_a_window_is_in_its_time_zone() -> None:
    window = {"startTime": "21:30", "length": "1h", "timeZone": "Asia/Tokyo"}
    channel = followed(periodic(window=window), now=TUESDAY_NOON + 1800)
    channel.check(offer(NEW))
    assert channel.planned == NEW


@pytest.mark.parametrize(
    ("running", "offered"),
    [
        ("v1.30.1+k0s.0", "v1.30.1+k0s.1"),
        ("v1.30.1", "v1.30.1+k0s.0"),
        ("v1.30.1-rc.1", "v1.30.1"),
    ],
)
def test_k0s_A44_the_order_of_versions_decides(running: str, offered: str) -> None:
    channel = followed(version=running)
    channel.check(offer(offered))
    assert channel.planned == offered
    other = followed(version=offered)
    other.check(offer(running))
    assert other.plan is None


def test_k0s_A45_a_schedule_makes_a_plan_without_comparing() -> None:
    channel = followed(cron("* * * * *"), version=NEW)
    channel.decide()
    assert (channel.checks, channel.reason) == (0, "NotChecked")
    channel.later(60)
    channel.check(offer(NEW))
    assert channel.planned == NEW
    assert channel.plan is not None
    assert "rollout" not in channel.plan["spec"]
    assert "forceupdate" not in channel.plan["spec"]["commands"][0]["k0supdate"]
    channel.ended("Completed", done=("c1",))
    channel.later(60)
    channel.check(offer(NEW))
    assert channel.applied == 1


def test_a_schedule_follows_an_offer_that_is_older() -> None:
    channel = followed(cron("* * * * *"), version=NEW)
    channel.later(60)
    channel.check(offer(NEW))
    channel.ended("Completed", done=("c1",))
    channel.later(60)
    channel.check(offer(OLD))
    assert channel.planned == OLD


def test_a_failed_plan_of_a_schedule_is_named_if_no_version_is_known() -> None:
    channel = followed(cron("* * * * *"), version="")
    channel.later(60)
    channel.check(offer(NEW))
    channel.ended("ApplyFailed")
    channel.later(60)
    channel.check(offer(NEW))
    assert (channel.applied, channel.reason) == (1, "PlanFailed")
    channel.later(60)
    channel.check(offer(NEWER))
    assert channel.planned == NEWER


def test_a_schedule_that_is_never_due_says_so() -> None:
    channel = followed(cron("0 0 30 2 *"))
    channel.decide()
    channel.later(3600)
    channel.decide()
    assert (channel.checks, channel.reason) == (0, "NotChecked")
    assert channel.message.endswith("never")


def test_missed_times_of_a_schedule_are_made_up_for_once() -> None:
    channel = followed(cron("0 * * * *"))
    channel.later(5 * 3600)
    channel.check(offer(NEW))
    (again,) = [one for one in channel.decide() if isinstance(one, RequeueAfter)]
    assert (channel.checks, again.seconds) == (1, 3600)


def test_a_window_in_cron_is_a_window() -> None:
    channel = followed(cron({**TUESDAY}))
    channel.check(offer(NEW))
    assert (channel.plan, channel.reason) == (None, "OutsideWindow")


def test_of_several_the_first_by_name_acts() -> None:
    channel = followed(periodic("b"), periodic("a"))
    channel.check(offer(NEW))
    assert channel.planned == NEW
    channel.decide("b")
    reason, message = channel.condition(name="b")
    assert reason == "NotFirst"
    assert "UpdateConfig a comes first" in message
    assert "check" not in channel.configs["b"]["status"]
    del channel.configs["a"]
    channel.plan = None
    channel.check(offer(NEW))
    assert channel.planned == NEW


def test_one_that_is_being_deleted_does_nothing() -> None:
    channel = followed()
    channel.configs["updates"]["metadata"]["deletionTimestamp"] = format_time(TUESDAY_NOON)
    assert channel.decide() == []


def test_the_same_answer_makes_the_same_plan() -> None:
    channel = followed()
    channel.check(offer(NEW))
    first = channel.plan
    channel.plan = None
    channel.later(30)
    channel.decide()
    assert channel.plan == first


def test_without_a_schedule_the_channel_is_checked_hourly() -> None:
    channel = followed(config("updates", {"type": "cron"}))
    channel.later(3600)
    channel.check(offer(NEW))
    assert channel.planned == NEW
