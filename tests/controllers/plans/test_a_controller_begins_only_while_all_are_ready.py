"""Quorum safety: every ControlNode has to answer that it is ready, before each controller."""

from __future__ import annotations

import pytest
from tests.kit.controller_harness import reasons
from tests.kit.plan_fleet import EVERY, PlanFleet, control_node, static, update

REMEDY = "if this lasts, see the log of the leading controller-manager"


def test_k0s_A06_one_that_is_not_ready_ends_the_plan() -> None:
    fleet = PlanFleet(controllers=3)
    fleet.not_ready = {"c2": "500"}
    fleet.add_plan(update(controllers=EVERY))
    status = fleet.run()
    assert status["state"] == "InconsistentTargets"
    assert "c2 (500)" in fleet.condition("Failed")[2]
    assert all(not fleet.machine(name).annotations for name in ("c0", "c1", "c2"))


def test_k0s_A06_one_that_is_no_target_counts_too() -> None:
    fleet = PlanFleet(controllers=2)
    fleet.not_ready = {"c1": "connection refused"}
    fleet.add_plan(update(controllers=static("c0")))
    assert fleet.run()["state"] == "InconsistentTargets"


def test_k0s_A06_with_wait_it_goes_on_when_all_are_ready() -> None:
    fleet = PlanFleet(controllers=3)
    fleet.not_ready = {"c2": "500"}
    fleet.add_plan(update(controllers=EVERY), onNotReady="wait")
    fleet.settle_decisions()
    assert fleet.state == "Schedulable"
    assert reasons(fleet.intents) == ["ControllersNotReady"]
    assert fleet.order == []
    fleet.now += 11
    fleet.settle_decisions()
    assert fleet.plan_status["answers"]["number"] == 3
    fleet.not_ready = {}
    fleet.run()
    assert fleet.order == ["c0", "c1", "c2"]
    assert fleet.state == "Completed"


def test_waiting_for_ready_controllers_has_a_deadline() -> None:
    fleet = PlanFleet(controllers=2)
    fleet.not_ready = {"c1": "500"}
    fleet.add_plan(update(controllers=EVERY), onNotReady="wait", nodeDeadline="10m")
    began = fleet.now
    assert fleet.run()["state"] == "InconsistentTargets"
    assert fleet.now - began >= 600


def test_each_turn_needs_an_answer_of_its_own() -> None:
    fleet = PlanFleet(controllers=2)
    fleet.add_plan(update(controllers=EVERY))
    fleet.settle_decisions()
    number = fleet.plan_status["answers"]["number"]
    assert "questions" not in fleet.plan_status
    while fleet.advance("c0"):
        pass
    fleet.step_once()
    assert fleet.plan_status["questions"] == {"number": number + 1, "readiness": True}
    assert fleet.order == ["c0"]
    fleet.step_once()
    assert fleet.order == ["c0"]
    fleet.not_ready = {"c0": "503"}
    fleet.answer()
    fleet.step_once()
    assert fleet.order == ["c0"]
    assert fleet.state == "InconsistentTargets"


def test_an_answer_that_is_too_old_is_not_acted_on() -> None:
    fleet = PlanFleet(controllers=1)
    fleet.add_plan(update(controllers=EVERY))
    fleet.until_started()
    fleet.step_once()
    fleet.answer()
    fleet.now += 31
    fleet.step_once()
    assert fleet.order == []
    fleet.answer()
    fleet.step_once()
    assert fleet.order == ["c0"]


def test_a_control_node_that_the_answer_lacks_is_not_ready() -> None:
    fleet = PlanFleet(controllers=1)
    fleet.add_plan(update(controllers=EVERY))
    fleet.until_started()
    fleet.step_once()
    fleet.answer()
    fleet.add(control_node("c1"))
    fleet.step_once()
    assert fleet.order == []
    assert "c1 (no answer)" in fleet.condition("Failed")[2]


@pytest.mark.parametrize("part", ["pending", "in progress"])
def test_k0s_A07_a_control_node_that_vanishes(part: str) -> None:
    fleet = PlanFleet(controllers=2)
    fleet.add_plan(update(controllers=EVERY))
    fleet.until_started()
    if part == "in progress":
        fleet.settle_decisions()
        assert fleet.order == ["c0"]
    fleet.remove(fleet.machine("c0"))
    fleet.settle_decisions()
    assert fleet.state == "IncompleteTargets"
    assert fleet.states("controllers")["c0"] == "SignalMissingNode"
    assert "c0" in fleet.condition("Failed")[2]


def test_a_controller_that_fails_ends_the_plan_whatever_may_fail() -> None:
    fleet = PlanFleet(controllers=2, workers=1)
    fleet.broken = {"c0": ("FailedDownload", "the hash is another")}
    fleet.add_plan(update(controllers=EVERY, workers=EVERY), maxFailures=5)
    assert fleet.run()["state"] == "ApplyFailed"
    assert fleet.order == ["c0"]
    assert fleet.targets("controllers")["c0"]["description"] == "the hash is another"
    assert fleet.condition("Failed") == ("True", "ControllerFailed", "controller c0: the hash is another")


class TestAfterACrash:
    def test_long_after_the_record_all_are_asked_again(self) -> None:
        fleet = PlanFleet(controllers=2)
        fleet.add_plan(update(controllers=EVERY))
        fleet.until_started()
        fleet.step_once()
        fleet.answer()
        fleet.step_once(crash_after=1)
        assert fleet.states("controllers")["c0"] == "SignalSent"
        assert fleet.signal("c0") is None
        fleet.order.clear()
        fleet.not_ready = {"c1": "500"}
        fleet.now += 31
        fleet.settle_decisions()
        assert fleet.order == []
        assert fleet.state == "InconsistentTargets"

    def test_between_record_and_signal_it_is_sent(self) -> None:
        fleet = PlanFleet(controllers=2)
        fleet.add_plan(update(controllers=EVERY))
        fleet.until_started()
        fleet.step_once()
        fleet.answer()
        fleet.step_once(crash_after=1)
        fleet.order.clear()
        fleet.settle_decisions()
        assert fleet.order == ["c0"]

    def test_k0s_A21_a_new_leader_continues_and_signals_nobody_twice(self) -> None:
        fleet = PlanFleet(controllers=2, workers=2)
        fleet.add_plan(update(controllers=EVERY, workers=EVERY))
        writes: list[str] = []
        fleet.before_write = lambda intent: writes.append(type(intent).__name__)
        signalled: set[tuple[str, str]] = set()
        for _ in range(200):
            # The process dies after every single write; the next one starts from the objects alone.
            fleet.order.clear()
            fleet.step_once(crash_after=1)
            fleet.answer()
            for machine in ("c0", "c1", "w0", "w1"):
                found = fleet.signal(machine)
                if found is not None:
                    signalled.add((machine, found.created))
            fleet.advance_all()
            if fleet.ended:
                break
        assert fleet.state == "Completed"
        assert len(signalled) == 4
        assert "PatchObject" in writes

    def test_a_signal_that_is_there_already_is_adopted(self) -> None:
        fleet = PlanFleet(controllers=2)
        fleet.add_plan(update(controllers=EVERY))
        fleet.settle_decisions()
        assert fleet.order == ["c0"]

        def forget(tree: dict[str, object]) -> None:
            [command] = tree["status"]["commands"]  # type: ignore[index]
            command["k0supdate"]["controllers"][0] = {"name": "c0", "state": "SignalPending"}

        fleet.change(fleet.plan, forget)
        fleet.settle_decisions()
        assert fleet.order == ["c0"]
        assert fleet.states("controllers") == {"c0": "SignalSent", "c1": "SignalPending"}

    def test_an_answer_from_its_turn_does_not_count_after_it(self) -> None:
        """The signal was not in view at first, so all were asked again while it was in progress."""
        fleet = PlanFleet(controllers=2)
        fleet.add_plan(update(controllers=EVERY))
        fleet.settle_decisions()
        number = fleet.plan_status["answers"]["number"] + 1

        def asked_early(tree: dict[str, object]) -> None:
            status = tree["status"]
            [command] = status["commands"]  # type: ignore[index]
            command["k0supdate"]["controllers"][0] = {"name": "c0", "state": "SignalPending"}
            status.update(questions={"number": number, "readiness": True})  # type: ignore[attr-defined]

        fleet.change(fleet.plan, asked_early)
        fleet.answer()
        while fleet.advance("c0"):
            pass
        fleet.not_ready = {"c0": "503"}
        fleet.settle_decisions()
        assert fleet.order == ["c0"]
        assert fleet.state == "InconsistentTargets"


def test_a_wait_for_the_observer_names_what_was_asked() -> None:
    fleet = PlanFleet(controllers=1)
    fleet.add_plan(update(controllers=EVERY))
    fleet.step_once()
    about = "being looked up: the APIs that the version removes; "
    assert fleet.condition("Progressing")[1:] == ("AwaitingAnswer", about + REMEDY)
    fleet.answer()
    fleet.step_once()
    fleet.step_once()
    about = "being looked up: the readiness of the controllers; "
    assert fleet.condition("Progressing")[1:] == ("AwaitingAnswer", about + REMEDY)
