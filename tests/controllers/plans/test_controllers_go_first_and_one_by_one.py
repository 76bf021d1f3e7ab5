"""The order of a run: commands, bundles, controllers, workers."""

from __future__ import annotations

import pytest
from tests.kit.plan_fleet import EVERY, NEW, OLD, PlanFleet, bundle, control_node, node, static, update

from pilothouse.api.k0s.signals import Signal, SignalCommand, SignalUpdate
from pilothouse.api.kind_names import ControlNode, Node, Plan

DONE = "SignalCompleted"


def test_k0s_A02_no_worker_before_both_controllers() -> None:
    fleet = PlanFleet(controllers=2, workers=2)
    fleet.add_plan(update(controllers=EVERY, workers=EVERY))
    status = fleet.run()
    assert fleet.order == ["c0", "c1", "w0", "w1"]
    assert fleet.peak == 1
    assert (status["state"], status["progress"]) == ("Completed", "4/4")
    assert [command["state"] for command in status["commands"]] == ["Completed"]
    assert fleet.condition("Complete")[0] == "True"
    assert fleet.condition("Progressing")[:2] == ("False", "Completed")
    assert fleet.condition("Failed")[0] == "False"


def test_a_controller_that_ends_with_the_old_version_is_not_done() -> None:
    fleet = PlanFleet(controllers=1, workers=1)
    fleet.add_plan(update(controllers=EVERY, workers=EVERY))
    fleet.settle_decisions()
    fleet.advance("c0", "Completed")
    fleet.change(fleet.machine("c0"), lambda tree: tree["status"].update(k0sVersion=OLD))
    fleet.settle_decisions()
    assert fleet.states("controllers") == {"c0": "SignalSent"}
    assert OLD in fleet.targets("controllers")["c0"]["description"]
    assert fleet.order == ["c0"]
    fleet.now += 3601
    fleet.settle_decisions()
    assert fleet.state == "ApplyFailed"
    assert fleet.order == ["c0"]


def test_a_controller_that_falls_back_behind_holds_the_workers() -> None:
    fleet = PlanFleet(controllers=2, workers=2)
    fleet.add_plan(update(controllers=EVERY, workers=EVERY))
    while fleet.order[-1:] != ["w0"]:
        fleet.settle_decisions()
        fleet.advance_all()
    fleet.add(control_node("c9", version=OLD))
    while fleet.advance("w0"):
        fleet.settle_decisions()
    assert fleet.order == ["c0", "c1", "w0"]
    assert fleet.condition("Progressing")[1] == "ControllersBehind"
    assert "c9" in fleet.condition("Progressing")[2]
    fleet.remove(fleet.machine("c9"))
    fleet.run()
    assert fleet.state == "Completed"


def test_k0s_A03_controllers_go_one_at_a_time_whatever_the_limit() -> None:
    fleet = PlanFleet(controllers=3)
    command = update(controllers=EVERY)
    command["k0supdate"]["targets"]["controllers"]["limits"] = {"concurrent": 3}
    fleet.add_plan(command)
    fleet.run()
    assert fleet.peak == 1
    assert fleet.order == ["c0", "c1", "c2"]


@pytest.mark.parametrize(("concurrent", "peak"), [(2, 2), ("40%", 2), ("1%", 1), (9, 5)])
def test_k0s_A04_workers_go_as_many_at_once_as_the_limit_says(concurrent: int | str, peak: int) -> None:
    fleet = PlanFleet(workers=5)
    fleet.add_plan(update(workers=EVERY, concurrent=concurrent))
    fleet.run()
    assert fleet.peak == peak
    assert set(fleet.states().values()) == {DONE}


def test_k0s_A05_without_a_limit_it_is_one() -> None:
    fleet = PlanFleet(workers=3)
    fleet.add_plan(update(workers=EVERY))
    fleet.run()
    assert fleet.peak == 1
    assert fleet.order == ["w0", "w1", "w2"]


def test_k0s_A27_two_updates_in_one_plan_both_run() -> None:
    fleet = PlanFleet(controllers=1, workers=1)
    newest = "v1.32.0+k0s.0"
    fleet.add_plan(
        update(controllers=EVERY, workers=EVERY), update(controllers=EVERY, workers=EVERY, version=newest)
    )
    status = fleet.run()
    assert fleet.order == ["c0", "w0", "c0", "w0"]
    assert status["progress"] == "4/4"
    assert fleet.machine("c0").status["k0sVersion"] == newest


def test_k0s_A30_a_bundle_is_on_the_worker_before_anything_else_begins() -> None:
    fleet = PlanFleet(controllers=1, workers=1)
    fleet.add_plan(bundle(static("w0")), update(controllers=EVERY, workers=EVERY))
    fleet.settle_decisions()
    assert fleet.order == ["w0"]
    fleet.advance("w0", "Downloading")
    fleet.settle_decisions()
    assert fleet.signal("c0") is None
    fleet.run()
    assert fleet.order == ["w0", "c0", "w0"]
    assert fleet.seen_states.index("Completed") == len(fleet.seen_states) - 1


def test_k0s_A31_both_in_one_element_run_the_bundle_first() -> None:
    fleet = PlanFleet(controllers=1, workers=1)
    fleet.add_plan({**update(controllers=EVERY, workers=EVERY), **bundle(EVERY)})
    status = fleet.run()
    assert fleet.order == ["w0", "c0", "w0"]
    assert status["progress"] == "3/3"
    assert fleet.states("workers", key="airgapupdate") == {"w0": DONE}


@pytest.mark.parametrize("step", ["Completed", "FailedDownload", "Restart"])
def test_k0s_A25_A26_a_plan_created_again_under_the_same_id_runs(step: str) -> None:
    """What the earlier plan left on the machines is of another plan."""
    fleet = PlanFleet(controllers=1, workers=1)
    command = SignalCommand(0, k0supdate=SignalUpdate("http://updates.example/k0s", NEW))
    old = Signal("id123", "1970-01-01T00:00:00Z", command, plan_uid="another", generation=1)
    left = old.advanced(step, "1970-01-01T00:00:00Z").annotations()
    for name in ("c0", "w0"):
        fleet.change(fleet.machine(name), lambda tree: tree["metadata"].update(annotations=left))
    fleet.add_plan(update(controllers=EVERY, workers=EVERY))
    status = fleet.run()
    assert status["state"] == "Completed"
    assert fleet.order == ["c0", "w0"]


@pytest.mark.parametrize("reported", ["1970-01-12T13:46:40Z", "9999-01-01T00:00:00Z", "1970-01-12T12:00:00Z"])
def test_a_controller_in_an_update_of_another_plan_holds_the_others(reported: str) -> None:
    """For as long as a machine may take, whatever its clock says."""
    fleet = PlanFleet(controllers=2)
    command = SignalCommand(0, k0supdate=SignalUpdate("http://updates.example/k0s", NEW))
    other = Signal("x", "1970-01-12T13:46:40Z", command, plan_uid="another", generation=1)
    left = other.advanced("ApplyingUpdate", reported).annotations()
    fleet.change(fleet.machine("c1"), lambda tree: tree["metadata"].update(annotations=left))
    fleet.add_plan(update(controllers=static("c0")))
    fleet.settle_decisions()
    assert fleet.order == []
    assert fleet.condition("Progressing")[1] == "OtherUpdateInProgress"
    fleet.now += 3601
    fleet.settle_decisions()
    assert fleet.order == ["c0"]


def test_a_controller_that_was_just_signalled_by_another_plan_may_be_about_to_begin() -> None:
    """Its agent may have read that plan before it ended."""
    fleet = PlanFleet(controllers=2)
    command = SignalCommand(0, k0supdate=SignalUpdate("http://updates.example/k0s", NEW))
    other = Signal("x", "1970-01-12T13:46:40Z", command, plan_uid="another", generation=1)
    fleet.change(fleet.machine("c1"), lambda tree: tree["metadata"].update(annotations=other.annotations()))
    fleet.add_plan(update(controllers=static("c0")))
    fleet.settle_decisions()
    assert fleet.order == []
    assert fleet.condition("Progressing")[1] == "OtherUpdateInProgress"
    fleet.now += 30
    fleet.settle_decisions()
    assert fleet.order == ["c0"]


def test_k0s_A19_a_controller_that_is_a_worker_too_is_updated_once() -> None:
    fleet = PlanFleet(controllers=1, workers=1)
    fleet.add(node("c0"))
    fleet.add_plan(update(controllers=EVERY, workers=EVERY))
    fleet.until_started()
    assert fleet.states("controllers") == {"c0": "SignalPending"}
    assert fleet.states("workers") == {"w0": "SignalPending"}


def test_a_bundle_goes_to_the_node_of_a_controller_too() -> None:
    fleet = PlanFleet(controllers=1)
    fleet.add(node("c0"))
    fleet.add_plan(bundle(static("c0")))
    fleet.until_started()
    fleet.settle_decisions()
    carried = fleet.get(Node, "c0")
    assert carried is not None
    assert fleet.signal(carried) is not None
    assert fleet.get(ControlNode, "c0").annotations == {}  # type: ignore[union-attr]


def test_k0s_A33_a_selector_that_matches_nothing_is_complete_at_once() -> None:
    fleet = PlanFleet()
    fleet.add_plan(update(controllers=EVERY, workers=EVERY))
    assert fleet.run()["state"] == "Completed"
    assert fleet.plan_status["progress"] == "0/0"


def test_a_plan_without_commands_is_complete() -> None:
    fleet = PlanFleet(workers=1)
    fleet.add_plan()
    assert fleet.run()["state"] == "Completed"


def test_a_name_twice_counts_once() -> None:
    fleet = PlanFleet(workers=2)
    fleet.add_plan(update(workers=static("w1", "w0", "w1")))
    status = fleet.run()
    assert fleet.order == ["w0", "w1"]
    assert status["progress"] == "2/2"


def test_k0s_A01_a_plan_of_another_name_has_no_state_and_says_why() -> None:
    fleet = PlanFleet(controllers=1, workers=1)
    other = fleet.add_plan(update(controllers=EVERY, workers=EVERY), name="foo")
    fleet.step(fleet.controller, other)
    found = fleet.get(Plan, "foo")
    assert found is not None
    assert "state" not in found.status
    [condition] = found.status["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == (
        "Progressing",
        "False",
        "NotCarriedOut",
    )
    assert "autopilot" in condition["message"]
    assert fleet.step(fleet.controller, other) == []
    assert fleet.machine("c0").annotations == {}
