"""The checks before the first machine, ranked: Warning, IncompleteTargets, Restricted."""

from __future__ import annotations

import msgspec
import pytest
from tests.kit.controller_harness import reasons
from tests.kit.plan_fleet import EVERY, NEW, OLD, PlanFleet, bundle, control_node, node, static, update

from pilothouse.api.k0s.plan_validation import too_many_targets
from pilothouse.api.k0s.v1beta2 import TargetStatus

LOST = "removedcrds.k0s.k0sproject.example.com v1beta1 has been removed in Kubernetes v99.99.99, but there are 1 such resources in the cluster"


def unsignalled(fleet: PlanFleet) -> bool:
    return fleet.order == []


def test_it_asks_about_removed_apis_before_it_looks_for_targets() -> None:
    fleet = PlanFleet(controllers=1)
    fleet.add_plan(update(controllers=EVERY))
    intents = fleet.step_once()
    status = fleet.plan_status
    assert status["questions"] == {"number": 1, "removedApis": [NEW]}
    assert (status["observedGeneration"], status["runGeneration"]) == (1, 1)
    assert status["spec"]["id"] == "id123"
    assert "state" not in status
    assert "commands" not in status
    assert reasons(intents) == ["AwaitingAnswer"]
    fleet.answer()
    fleet.step_once()
    assert fleet.state == "SchedulableWait"
    assert fleet.states("controllers") == {"c0": "SignalPending"}


def test_k0s_A35_objects_that_would_be_lost_are_a_warning() -> None:
    fleet = PlanFleet(controllers=1)
    fleet.removed = {NEW: LOST}
    fleet.add_plan(update(controllers=EVERY))
    status = fleet.run()
    assert (status["state"], status["commands"]) == (
        "Warning",
        [{"state": "Warning", "description": LOST}],
    )
    assert fleet.condition("Failed") == ("True", "Warning", LOST)
    assert unsignalled(fleet)


def test_k0s_A35_a_forced_update_is_not_asked_about() -> None:
    fleet = PlanFleet(controllers=1)
    fleet.removed = {NEW: LOST}
    fleet.add_plan(update(controllers=EVERY, forceupdate=True))
    assert fleet.run()["state"] == "Completed"


def test_k0s_A35_a_bundle_is_always_asked_about() -> None:
    fleet = PlanFleet(workers=1)
    fleet.removed = {NEW: LOST}
    fleet.add_plan({**bundle(EVERY), **update(workers=EVERY, forceupdate=True)})
    assert fleet.run()["state"] == "Warning"


def test_k0s_A36_objects_that_stay_readable_are_no_warning() -> None:
    fleet = PlanFleet(controllers=1)
    fleet.removed = {NEW: ""}
    fleet.add_plan(update(controllers=EVERY))
    assert fleet.run()["state"] == "Completed"


def test_a_version_that_the_observer_does_not_mention_is_a_warning() -> None:
    fleet = PlanFleet(controllers=1)
    fleet.add_plan(update(controllers=EVERY))
    fleet.step_once()
    fleet.change(fleet.plan, lambda tree: tree["status"].update(answers={"number": 1}))
    fleet.step_once()
    assert fleet.state == "Warning"


@pytest.mark.parametrize("running", [OLD, ""])
def test_workers_must_not_become_newer_than_a_controller_that_stays_behind(running: str) -> None:
    fleet = PlanFleet(workers=1)
    fleet.add(control_node("c0", version=running))
    fleet.add_plan(update(workers=EVERY))
    status = fleet.run()
    assert status["state"] == "Warning"
    assert f"c0 ({running or 'unknown version'})" in status["commands"][0]["description"]
    assert unsignalled(fleet)


def test_workers_may_become_as_new_as_the_controllers_will_be() -> None:
    fleet = PlanFleet(controllers=2, workers=1)
    fleet.add_plan(update(controllers=EVERY), update(workers=EVERY))
    assert fleet.run()["state"] == "Completed"
    assert fleet.order == ["c0", "c1", "w0"]


def test_one_controller_of_two_is_not_enough() -> None:
    fleet = PlanFleet(controllers=2, workers=1)
    fleet.add_plan(update(controllers=static("c0"), workers=EVERY))
    assert fleet.run()["state"] == "Warning"


def test_k0s_A08_an_unknown_worker() -> None:
    fleet = PlanFleet(workers=1)
    fleet.add_plan(update(workers=static("w0", "ghost")))
    assert fleet.run()["state"] == "IncompleteTargets"
    assert fleet.states() == {"ghost": "SignalMissingNode", "w0": "SignalPending"}
    assert "ghost" in fleet.condition("Failed")[2]
    assert unsignalled(fleet)


def test_an_unknown_controller() -> None:
    fleet = PlanFleet(controllers=1, workers=1)
    fleet.add_plan(update(controllers=static("c0", "ghost"), workers=EVERY))
    assert fleet.run()["state"] == "IncompleteTargets"
    assert fleet.states("controllers") == {"c0": "SignalPending", "ghost": "SignalMissingNode"}
    assert fleet.states() == {"w0": "SignalPending"}


def test_k0s_A09_a_platform_without_a_download() -> None:
    fleet = PlanFleet()
    fleet.add(node("arm", arch="arm64"))
    fleet.add_plan(update(workers=EVERY))
    assert fleet.run()["state"] == "IncompleteTargets"
    assert fleet.states() == {"arm": "SignalMissingPlatform"}
    assert "linux-arm64" in fleet.targets()["arm"]["description"]


def test_a_machine_without_labels_has_no_platform() -> None:
    fleet = PlanFleet()
    bare = node("w0")
    bare["metadata"]["labels"] = {}
    fleet.add(bare)
    fleet.add_plan(update(workers=EVERY))
    fleet.run()
    assert fleet.states() == {"w0": "SignalMissingPlatform"}


@pytest.mark.parametrize(
    ("excluded", "command", "state"),
    [
        ("worker", update(workers=EVERY, forceupdate=True), "Restricted"),
        ("worker", update(controllers=EVERY), "Completed"),
        ("worker", bundle(EVERY), "Restricted"),
        ("controller", update(controllers=EVERY), "Restricted"),
        ("controller", update(workers=EVERY, forceupdate=True), "Completed"),
        ("worker", update(workers=static("ghost"), forceupdate=True), "IncompleteTargets"),
    ],
)
def test_k0s_A10_A11_what_the_manager_excludes_is_restricted(
    excluded: str, command: dict[str, object], state: str
) -> None:
    fleet = PlanFleet(controllers=1, workers=1, exclude={excluded})
    fleet.add_plan(command)
    assert fleet.run()["state"] == state
    assert unsignalled(fleet) is (state != "Completed")


def test_commands_after_the_one_with_a_problem_have_no_status() -> None:
    fleet = PlanFleet(workers=1)
    fleet.add_plan(update(workers=EVERY), update(workers=static("ghost")), update(workers=EVERY))
    status = fleet.run()
    assert [each["state"] for each in status["commands"]] == ["SchedulableWait", "IncompleteTargets"]


def test_targets_are_found_once() -> None:
    fleet = PlanFleet(workers=1)
    fleet.add_plan(update(workers=EVERY))
    fleet.until_started()
    fleet.add(node("w1"))
    fleet.run()
    assert fleet.order == ["w0"]


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ({}, ["a", "b", "c"]),
        ({"labels": "zone=1"}, ["a", "b"]),
        ({"fields": "metadata.name=b"}, ["b"]),
        ({"fields": "metadata.name!=b"}, ["a", "c"]),
        ({"labels": "zone=1", "fields": "metadata.name=a"}, ["a"]),
        ({"labels": "zone=9"}, []),
    ],
)
def test_selectors(selector: dict[str, str], found: list[str]) -> None:
    fleet = PlanFleet()
    for name, zone in (("a", "1"), ("b", "1"), ("c", "2")):
        fleet.add(node(name, zone=zone))
    fleet.add_plan(update(workers={"selector": selector}))
    fleet.until_started()
    assert sorted(fleet.states()) == found


def test_names_win_over_selectors_and_neither_finds_none() -> None:
    fleet = PlanFleet(workers=2)
    fleet.add_plan(update(workers={**static("w1"), **EVERY}), update(workers={}))
    fleet.until_started()
    assert list(fleet.states()) == ["w1"]
    assert fleet.states(command=1) == {}


def test_more_targets_than_a_status_can_hold() -> None:
    fleet = PlanFleet(workers=1)
    for number in range(6500):
        fleet.trees[fleet.machine("w0").noun]["", f"n{number}"] = node(f"n{number}")
    fleet.add_plan(update(workers=EVERY))
    assert fleet.run()["state"] == "IncompleteTargets"
    _, reason, text = fleet.condition("Failed")
    assert reason == "TooManyTargets"
    assert text.startswith("6501 targets are too many: ")
    assert fleet.states() == {}
    assert fleet.order == []


def test_a_plan_as_large_as_may_start_can_be_stored_when_it_is_finished() -> None:
    names = [f"worker-{number:04}" for number in range(5400)]
    time = "2026-01-01T00:00:00Z"
    finished = TargetStatus(
        name="",
        state="SignalCompleted",
        last_updated_timestamp=time,
        step="Completed",
        started_time=time,
        completed_time=time,
        previous_version=NEW,
        wave=10,
    )
    targets = [msgspec.structs.replace(finished, name=name) for name in names]
    spec = {"commands": [update(workers=static(*names))]}
    plan = {"spec": spec, "status": {"spec": spec, "commands": [{"k0supdate": {"workers": targets}}]}}
    assert too_many_targets(spec, names) == ""
    assert len(msgspec.json.encode(plan)) < 1.5 * 2**20
