"""Failures, deadlines, and the way back."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kit.controller_harness import reasons
from tests.kit.plan_fleet import EVERY, NEW, OLD, PlanFleet, bundle, node, update

from pilothouse.api.k0s.v1beta2 import RUNNING_VERSION
from pilothouse.api.kind_names import Node
from pilothouse.base.rfc3339 import parse_time


def finish(fleet: PlanFleet, name: str) -> None:
    while fleet.advance(name):
        pass
    fleet.settle_decisions()


@pytest.mark.parametrize("step", ["FailedDownload", "Failed"])
def test_k0s_A13_a_failure_ends_the_plan_with_its_reason(step: str) -> None:
    fleet = PlanFleet(workers=3)
    fleet.broken = {"w0": (step, "404 Not Found")}
    fleet.add_plan(update(workers=EVERY))
    assert fleet.run()["state"] == "ApplyFailed"
    assert fleet.states() == {"w0": "SignalApplyFailed", "w1": "SignalPending", "w2": "SignalPending"}
    found = fleet.targets()["w0"]
    assert (found["step"], found["description"]) == (step, "404 Not Found")
    assert found["completedTime"] >= found["startedTime"]
    assert ("UpdateFailed", "w0: 404 Not Found") in fleet.events
    assert fleet.condition("Failed") == ("True", "WorkerFailed", "worker w0: 404 Not Found")
    assert fleet.plan_status["commands"][0]["state"] == "ApplyFailed"


def test_k0s_A16_the_others_in_progress_finish() -> None:
    fleet = PlanFleet(workers=3)
    fleet.add_plan(update(workers=EVERY, concurrent=2))
    fleet.settle_decisions()
    fleet.advance("w1", "Cordoning")
    fleet.advance("w0", "FailedDownload", "broken")
    fleet.settle_decisions()
    assert fleet.condition("Failed")[0] == "True"
    assert reasons(fleet.intents) == ["Stopping"]
    finish(fleet, "w1")
    assert fleet.state == "ApplyFailed"
    assert fleet.states() == {
        "w0": "SignalApplyFailed",
        "w1": "SignalCompleted",
        "w2": "SignalPending",
    }


def test_as_many_workers_may_fail_as_the_rollout_says() -> None:
    fleet = PlanFleet(workers=4)
    fleet.broken = {"w0": ("Failed", "x"), "w2": ("Failed", "y")}
    fleet.add_plan(update(workers=EVERY), maxFailures=1)
    assert fleet.run()["state"] == "ApplyFailed"
    assert fleet.order == ["w0", "w1", "w2"]
    assert fleet.plan_status["progress"] == "1/4"


def test_failures_within_the_limit_do_not_keep_it_from_completing() -> None:
    fleet = PlanFleet(workers=2)
    fleet.broken = {"w0": ("Failed", "x")}
    fleet.add_plan(update(workers=EVERY), maxFailures=1)
    assert fleet.run()["state"] == "Completed"
    assert fleet.plan_status["progress"] == "1/2"
    text = "1 of 2 targets are updated; failed: w0"
    assert fleet.plan_status["history"][0]["description"] == text
    assert fleet.condition("Progressing") == ("False", "Completed", text)


def test_a_worker_whose_bundle_failed_is_not_updated_and_counts_once() -> None:
    fleet = PlanFleet(workers=3)
    fleet.add_plan({**bundle(EVERY), **update(workers=EVERY)}, maxFailures=1)
    fleet.settle_decisions()
    fleet.advance("w0", "FailedDownload", "404 Not Found")
    assert fleet.run()["state"] == "Completed"
    assert fleet.order == ["w0", "w1", "w2", "w1", "w2"]
    assert fleet.states(key="airgapupdate")["w0"] == "SignalApplyFailed"
    found = fleet.targets()["w0"]
    assert (found["state"], found["description"]) == (
        "SignalApplyFailed",
        "it is not updated, because its bundle failed: 404 Not Found",
    )
    assert fleet.plan_status["history"][0]["description"] == "4 of 6 targets are updated; failed: w0"


def test_a_bundle_that_failed_in_another_command_is_no_obstacle() -> None:
    fleet = PlanFleet(workers=1)
    fleet.add_plan(bundle(EVERY), update(workers=EVERY), maxFailures=1)
    fleet.settle_decisions()
    fleet.advance("w0", "FailedDownload", "404 Not Found")
    assert fleet.run()["state"] == "Completed"
    assert fleet.states(command=1) == {"w0": "SignalCompleted"}


def test_a_deadline_with_a_soak_names_both() -> None:
    fleet = PlanFleet(workers=1)
    fleet.silent = {"w0"}
    fleet.add_plan(update(workers=EVERY), nodeDeadline="30m", soak="10m")
    fleet.run()
    assert "its nodeDeadline of 30m and soak of 10m: " in fleet.targets()["w0"]["description"]


@pytest.mark.parametrize("part", ["pending", "in progress"])
def test_a_worker_that_vanished_has_failed(part: str) -> None:
    fleet = PlanFleet(workers=2)
    fleet.add_plan(update(workers=EVERY))
    fleet.until_started()
    if part == "in progress":
        fleet.settle_decisions()
    fleet.remove(fleet.machine("w0"))
    fleet.settle_decisions()
    assert fleet.state == "ApplyFailed"
    assert fleet.states()["w0"] == "SignalMissingNode"


def test_an_agent_that_never_answers_fails_at_its_deadline() -> None:
    fleet = PlanFleet(workers=2)
    fleet.silent = {"w0", "w1"}
    fleet.add_plan(update(workers=EVERY), nodeDeadline="30m")
    began = fleet.now
    assert fleet.run()["state"] == "ApplyFailed"
    assert fleet.now - began >= 1800
    assert "its agent has not answered" in fleet.targets()["w0"]["description"]


def test_a_drain_that_is_blocked_is_named_and_fails_at_the_deadline() -> None:
    fleet = PlanFleet(workers=1)
    fleet.add_plan(update(workers=EVERY))
    fleet.settle_decisions()
    fleet.advance("w0", "Cordoning", "pod default/es-0 may not be evicted: budget default/es allows 0")
    fleet.settle_decisions()
    found = fleet.targets()["w0"]
    assert (found["step"], "budget default/es" in found["description"]) == ("Cordoning", True)
    fleet.now += 3601
    fleet.settle_decisions()
    assert fleet.state == "ApplyFailed"
    assert "Cordoning" in fleet.condition("Failed")[2]
    assert "budget default/es" in fleet.condition("Failed")[2]


def test_the_plan_has_a_deadline() -> None:
    fleet = PlanFleet(workers=3)
    fleet.add_plan(update(workers=EVERY), planDeadline="45m", nodeDeadline="2h")
    fleet.settle_decisions()
    fleet.now += 2700
    fleet.settle_decisions()
    assert fleet.condition("Failed")[1] == "PlanDeadlineExceeded"
    finish(fleet, "w0")
    assert fleet.state == "ApplyFailed"
    assert fleet.order == ["w0"]


def test_a_signal_that_cannot_be_read_is_no_progress() -> None:
    fleet = PlanFleet(workers=1)
    fleet.add_plan(update(workers=EVERY))
    fleet.settle_decisions()
    fleet.change(
        fleet.machine("w0"),
        lambda tree: tree["metadata"]["annotations"].update({"k0sproject.io/autopilot-signal-data": "{"}),
    )
    fleet.settle_decisions()
    found = fleet.signal("w0")
    assert found is not None
    assert found.plan_uid == fleet.plan.uid
    assert fleet.run()["state"] == "Completed"


def rolling_back(*, workers: int = 4, concurrent: int = 1, **rollout: Any) -> PlanFleet:
    """A fleet of which all workers but the last are updated, and that one has failed."""
    fleet = PlanFleet(workers=workers, now=parse_time("2026-03-03T12:00:00Z"))  # a Tuesday
    last = f"w{workers - 1}"
    fleet.broken = {last: ("Failed", "it crashes")}
    fleet.add_plan(update(workers=EVERY, concurrent=concurrent), onFailure="rollback", **rollout)
    while not fleet.plan_status.get("rollingBack"):
        fleet.step_once()
        fleet.answer()
        fleet.advance_all()
    fleet.broken = {}
    fleet.settle_decisions()
    return fleet


class TestRollbackWithinLimits:
    def test_a_pause_holds_it_and_what_is_in_progress_finishes(self) -> None:
        fleet = rolling_back()
        fleet.roll(paused=True)
        finish(fleet, "w0")
        assert fleet.states()["w0"] == "SignalRolledBack"
        assert reasons(fleet.intents) == ["Paused"]
        assert fleet.condition("Progressing")[1:] == (
            "Paused",
            "the plan is paused; to be rolled back: w1, w2; "
            "set spec.rollout.paused to false, or run: pilothouse plan resume",
        )
        assert fleet.condition("Failed")[1] == "WorkerFailed"
        fleet.now += 7200
        fleet.settle_decisions()
        assert not fleet.in_progress
        fleet.roll(paused=False)
        fleet.run()
        assert [fleet.states()[name] for name in ("w0", "w1", "w2")] == ["SignalRolledBack"] * 3

    def test_an_abort_ends_it_when_what_is_in_progress_has_finished(self) -> None:
        fleet = rolling_back()
        fleet.roll(aborted=True)
        fleet.settle_decisions()
        assert reasons(fleet.intents) == ["Stopping"]
        assert fleet.condition("Failed")[1] == "WorkerFailed"
        finish(fleet, "w0")
        assert fleet.state == "ApplyFailed"
        assert fleet.states() == {
            "w0": "SignalRolledBack",
            "w1": "SignalCompleted",
            "w2": "SignalCompleted",
            "w3": "SignalApplyFailed",
        }
        assert fleet.condition("Failed")[1:] == (
            "Aborted",
            "the plan was aborted during the rollback, and these keep the update: w1, w2; "
            "it was begun because of worker w3: it crashes",
        )
        assert fleet.plan_status["history"][0]["description"] == fleet.condition("Failed")[2]
        fleet.roll(aborted=False)
        fleet.settle_decisions()
        assert fleet.state == "SchedulableWait"

    def test_the_deadline_of_the_plan_is_reported_and_does_not_stop_it(self) -> None:
        fleet = rolling_back(planDeadline="30m")
        fleet.now += 1801
        fleet.settle_decisions()
        text = "the plan has taken longer than its planDeadline of 30m"
        assert fleet.condition("Progressing")[1] == "RollingBack"
        assert f"{text}, which does not stop a rollback" in fleet.condition("Progressing")[2]
        fleet.run()
        assert set(fleet.states().values()) == {"SignalRolledBack", "SignalApplyFailed"}
        assert fleet.condition("Failed")[1:] == ("WorkerFailed", f"worker w3: it crashes; {text}")

    def test_it_goes_on_outside_of_windows(self) -> None:
        window = {"days": ["Tuesday"], "startTime": "11:00", "length": "2h"}
        fleet = rolling_back(windows=[window])
        fleet.now = parse_time("2026-03-03T13:00:00Z")
        fleet.run()
        assert fleet.order == ["w0", "w1", "w2", "w3", "w0", "w1", "w2"]
        assert fleet.now < parse_time("2026-03-04T00:00:00Z")

    @pytest.mark.parametrize(("concurrent", "limit", "begun"), [(2, 9, 2), (3, 2, 2), (3, "20%", 1)])
    def test_no_more_at_once_than_updates(self, concurrent: int, limit: int | str, begun: int) -> None:
        fleet = rolling_back(workers=5, concurrent=concurrent, maxUnavailable=limit)
        assert len(fleet.in_progress) == begun
        fleet.peak = 0
        fleet.run()
        assert fleet.peak == begun
        assert list(fleet.states().values()) == ["SignalRolledBack"] * 4 + ["SignalApplyFailed"]

    def test_one_that_is_unavailable_already_costs_nothing(self) -> None:
        fleet = rolling_back(maxUnavailable=1)
        finish(fleet, "w0")
        assert fleet.in_progress == ["w1"]
        fleet.roll(paused=True)
        finish(fleet, "w1")
        fleet.set_node("w2", ready=False)
        fleet.roll(paused=False)
        fleet.settle_decisions()
        assert fleet.in_progress == ["w2"]

    def test_too_many_that_stay_unavailable_are_waited_for_until_the_deadline(self) -> None:
        fleet = rolling_back(maxUnavailable=1, nodeDeadline="30m")
        fleet.set_node("w3", ready=False)
        finish(fleet, "w0")
        assert fleet.in_progress == []
        assert fleet.condition("Progressing")[1] == "RollingBack"
        assert "maxUnavailable allows; to be rolled back: w1, w2" in fleet.condition("Progressing")[2]
        fleet.roll(paused=True)
        fleet.settle_decisions()
        fleet.now += 3600
        fleet.roll(paused=False)
        fleet.settle_decisions()
        assert not fleet.ended
        began = fleet.now
        assert fleet.run()["state"] == "ApplyFailed"
        assert fleet.now - began == pytest.approx(1800, abs=1)
        assert fleet.states()["w0"] == "SignalRolledBack"
        found = fleet.targets()["w1"]
        assert (found["state"], found["step"]) == ("SignalApplyFailed", "RollbackFailed")
        assert "for longer than the nodeDeadline of 30m" in found["description"]


class TestRollback:
    def test_the_updated_workers_of_the_wave_go_back(self) -> None:
        fleet = PlanFleet()
        for name, wave in (("a", "1"), ("b", "2"), ("c", "2"), ("d", "2"), ("e", "2")):
            fleet.add(node(name, wave=wave))
        waves = [{"selector": {"labels": "wave=1"}}]
        fleet.broken = {"d": ("Failed", "it crashes")}
        fleet.add_plan(update(workers=EVERY), waves=waves, onFailure="rollback")
        fleet.settle_decisions()
        while not fleet.plan_status.get("rollingBack"):
            fleet.step_once()
            fleet.answer()
            fleet.advance_all()
        fleet.broken = {}
        assert fleet.order == ["a", "b", "c", "d", "b"]
        found = fleet.signal("b")
        assert found is not None
        assert found.rollback
        status = fleet.run()
        assert status["state"] == "ApplyFailed"
        assert "rollingBack" not in status
        assert fleet.states() == {
            "a": "SignalCompleted",
            "b": "SignalRolledBack",
            "c": "SignalRolledBack",
            "d": "SignalApplyFailed",
            "e": "SignalPending",
        }
        assert fleet.condition("Failed") == ("True", "WorkerFailed", "worker d: it crashes")
        versions = {one.name: one.status["nodeInfo"]["kubeletVersion"] for one in fleet.all(Node)}
        assert versions == {"a": NEW, "b": OLD, "c": OLD, "d": OLD, "e": OLD}
        assert fleet.targets()["b"]["description"] == f"returned to {OLD}"

    def test_the_version_to_which_a_worker_returns_is_that_of_the_program_that_is_updated(self) -> None:
        """Its agent reports it; the kubelet is another program."""
        fleet = PlanFleet(workers=2)
        reported = {RUNNING_VERSION: "v2.3.4"}
        fleet.change(fleet.machine("w0"), lambda tree: tree["metadata"].update(annotations=reported))
        fleet.broken = {"w1": ("Failed", "it crashes")}
        fleet.add_plan(update(workers=EVERY), onFailure="rollback")
        fleet.run()
        assert fleet.states() == {"w0": "SignalRolledBack", "w1": "SignalApplyFailed"}
        assert fleet.targets()["w0"]["description"] == "returned to v2.3.4"

    def test_a_worker_that_failed_after_its_update_goes_back_too(self) -> None:
        gate = {"name": "g", "apiVersion": "v1", "kind": "ConfigMap", "expression": "true", "when": "after"}
        fleet = PlanFleet(workers=2)
        fleet.shut = {"g": "red"}
        fleet.add_plan(update(workers=EVERY), gates=[gate], onFailure="rollback")
        status = fleet.run()
        assert status["state"] == "ApplyFailed"
        assert fleet.states() == {"w0": "SignalRolledBack", "w1": "SignalPending"}
        assert fleet.order == ["w0", "w0"]
        assert "gate g: red" in fleet.condition("Failed")[2]

    @pytest.mark.parametrize("labels", ["gone with its Node", "edited"])
    def test_a_worker_stays_in_its_wave(self, labels: str) -> None:
        fleet = PlanFleet()
        for name, wave in (("a", "1"), ("b", "1"), ("c", "2")):
            fleet.add(node(name, wave=wave))
        waves = [{"selector": {"labels": "wave=1"}}]
        fleet.add_plan(update(workers=EVERY), waves=waves, onFailure="rollback")
        fleet.settle_decisions()
        finish(fleet, "a")
        assert fleet.order == ["a", "b"]
        if labels == "edited":
            fleet.change(fleet.machine("b"), lambda tree: tree["metadata"]["labels"].update(wave="2"))
            fleet.advance("b", "Failed", "it crashes")
        else:
            fleet.remove(fleet.machine("b"))
        fleet.settle_decisions()
        assert fleet.run()["state"] == "ApplyFailed"
        assert fleet.states()["a"] == "SignalRolledBack"
        assert fleet.states()["c"] == "SignalPending"
        waves_found = {name: found.get("wave") for name, found in fleet.targets().items()}
        assert waves_found == {"a": 1, "b": 1, "c": None}

    def test_a_worker_that_did_not_get_ready_goes_back_too(self) -> None:
        fleet = PlanFleet(workers=2)
        fleet.add_plan(update(workers=EVERY), nodeDeadline="30m", onFailure="rollback")
        fleet.settle_decisions()
        fleet.advance("w0", "UnCordoning", "waiting until node w0 is ready")
        fleet.set_node("w0", ready=False)
        fleet.settle_decisions()
        fleet.now += 1801
        fleet.settle_decisions()
        found = fleet.signal("w0")
        assert found is not None
        assert found.rollback
        fleet.set_node("w0", ready=True)
        assert fleet.run()["state"] == "ApplyFailed"
        assert fleet.states() == {"w0": "SignalRolledBack", "w1": "SignalPending"}
        assert "the last step was UnCordoning" in fleet.condition("Failed")[2]

    def test_a_worker_still_in_its_update_is_waited_for(self) -> None:
        gate = {"name": "g", "apiVersion": "v1", "kind": "ConfigMap", "expression": "true", "when": "during"}
        fleet = PlanFleet(workers=2)
        fleet.add_plan(update(workers=EVERY), gates=[gate], onFailure="rollback")
        fleet.settle_decisions()
        fleet.advance("w0", "Restart")
        fleet.shut = {"g": "red"}
        fleet.now += 11
        fleet.settle_decisions()
        assert fleet.states()["w0"] == "SignalApplyFailed"
        assert fleet.order == ["w0"]
        assert not fleet.ended
        status = fleet.run()
        assert status["state"] == "ApplyFailed"
        assert fleet.states() == {"w0": "SignalRolledBack", "w1": "SignalPending"}

    @pytest.mark.parametrize("failed_by", ["a gate", "its deadline"])
    @pytest.mark.parametrize("ready", [False, True])
    def test_a_worker_that_reaches_its_last_steps_late_goes_back_too(
        self, failed_by: str, ready: bool
    ) -> None:
        gate = {"name": "g", "apiVersion": "v1", "kind": "ConfigMap", "expression": "true", "when": "during"}
        fleet = PlanFleet(workers=2)
        fleet.add_plan(update(workers=EVERY), gates=[gate], onFailure="rollback")
        fleet.settle_decisions()
        fleet.advance("w0", "Restart")
        if failed_by == "a gate":
            fleet.shut = {"g": "red"}
        fleet.now += 11 if failed_by == "a gate" else 3601
        fleet.settle_decisions()
        assert fleet.states()["w0"] == "SignalApplyFailed"
        assert not fleet.ended
        fleet.set_node("w0", ready=ready)
        fleet.advance("w0", "UnCordoning", "waiting until node w0 is ready")
        fleet.settle_decisions()
        assert fleet.in_progress == ["w0"]
        found = fleet.signal("w0")
        assert found is not None
        assert found.rollback
        fleet.set_node("w0", ready=True)
        assert fleet.run()["state"] == "ApplyFailed"
        assert fleet.states() == {"w0": "SignalRolledBack", "w1": "SignalPending"}

    def test_a_worker_whose_update_never_ends_is_not_waited_for_forever(self) -> None:
        fleet = PlanFleet(workers=2)
        fleet.add_plan(update(workers=EVERY), nodeDeadline="30m", onFailure="rollback")
        fleet.settle_decisions()
        fleet.advance("w0", "Restart")
        fleet.silent = {"w0"}
        began = fleet.now
        assert fleet.run()["state"] == "ApplyFailed"
        assert fleet.now - began == pytest.approx(3600, abs=1)
        found = fleet.targets()["w0"]
        assert (found["state"], found["step"]) == ("SignalApplyFailed", "RollbackFailed")
        assert "did not end within another nodeDeadline of 30m" in found["description"]
        assert "the last step was Restart" in fleet.condition("Failed")[2]

    def test_one_that_cannot_go_back_is_named(self) -> None:
        fleet = PlanFleet(workers=2)
        fleet.broken = {"w1": ("Failed", "x")}
        fleet.add_plan(update(workers=EVERY), onFailure="rollback")
        while not fleet.plan_status.get("rollingBack"):
            fleet.step_once()
            fleet.answer()
            fleet.advance_all()
        fleet.broken = {"w0": ("Failed", "nothing was kept")}
        assert fleet.run()["state"] == "ApplyFailed"
        assert fleet.states() == {"w0": "SignalApplyFailed", "w1": "SignalApplyFailed"}
        assert "nothing was kept" in fleet.targets()["w0"]["description"]

    def test_a_crash_between_record_and_signal_sends_it_again(self) -> None:
        fleet = PlanFleet(workers=2)
        fleet.broken = {"w1": ("Failed", "x")}
        fleet.add_plan(update(workers=EVERY), onFailure="rollback")
        while not fleet.plan_status.get("rollingBack"):
            fleet.step_once(crash_after=1)
            fleet.answer()
            fleet.advance_all()
        fleet.broken = {}
        assert fleet.run()["state"] == "ApplyFailed"
        assert fleet.states()["w0"] == "SignalRolledBack"

    def test_bundles_and_controllers_do_not_go_back(self) -> None:
        fleet = PlanFleet(workers=2)
        fleet.broken = {"w1": ("FailedDownload", "x")}
        fleet.add_plan(bundle(EVERY), onFailure="rollback")
        assert fleet.run()["state"] == "ApplyFailed"
        assert fleet.order == ["w0", "w1"]
