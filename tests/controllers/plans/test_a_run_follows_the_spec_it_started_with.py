"""The frozen spec, edits in a run, the next run, and the history."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kit.plan_fleet import EVERY, NEW, PlanFleet, bundle, static, update

from pilothouse.controllers.plans.plan_controller import the_plan

NEWER = "v1.32.0+k0s.0"


@pytest.mark.parametrize(
    "edit",
    [
        lambda spec: spec.update(commands=[update(workers=EVERY, version=NEWER)]),
        lambda spec: spec.update(commands=[update(workers=static("w1"))]),
        lambda spec: spec["commands"].append(update(workers=EVERY)),
        lambda spec: spec["commands"][0]["k0supdate"]["targets"]["workers"].update(limits={"concurrent": 9}),
        lambda spec: spec.update(id="another"),
        lambda spec: spec.update(rollout={"maxFailures": 9}),
        lambda spec: spec["commands"].insert(0, bundle(EVERY)),
    ],
)
def test_k0s_A28_A29_an_edit_in_a_run_is_reported_and_changes_nothing(edit: Any) -> None:
    fleet = PlanFleet(workers=3)
    fleet.add_plan(update(workers=EVERY))
    fleet.settle_decisions()
    frozen = fleet.plan_status["spec"]
    fleet.change(fleet.plan, lambda tree: edit(tree["spec"]))
    fleet.settle_decisions()
    assert fleet.condition("SpecChanged")[:2] == ("True", "RunInProgress")
    assert [reason for reason, _ in fleet.events].count("SpecChanged") == 1
    while fleet.order != ["w0", "w1", "w2"]:
        fleet.advance_all()
        fleet.settle_decisions()
    assert fleet.peak == 1
    assert (fleet.plan_status["observedGeneration"], fleet.plan_status["runGeneration"]) == (2, 1)
    assert fleet.plan_status["spec"] == frozen
    found = fleet.signal("w2")
    assert found is not None
    assert (found.plan_id, found.generation) == ("id123", 1)
    assert found.command.k0supdate is not None
    assert found.command.k0supdate.version == NEW


def test_after_the_end_a_newer_spec_runs_by_itself() -> None:
    fleet = PlanFleet(workers=1)
    fleet.add_plan(update(workers=EVERY))
    fleet.settle_decisions()
    fleet.change(
        fleet.plan, lambda tree: tree["spec"].update(commands=[update(workers=EVERY, version=NEWER)])
    )
    while not (fleet.ended and fleet.plan_status["runGeneration"] == 2):
        fleet.step_once()
        fleet.answer()
        fleet.advance_all()
    assert fleet.order == ["w0", "w0"]
    assert fleet.machine("w0").status["nodeInfo"]["kubeletVersion"] == NEWER
    assert all(each["type"] != "SpecChanged" for each in fleet.plan_status["conditions"])
    runs = [(each["generation"], each["versions"], each["state"]) for each in fleet.plan_status["history"]]
    assert runs == [(2, [NEWER], "Completed"), (1, [NEW], "Completed")]


def test_a_failed_plan_runs_again_when_it_was_mended() -> None:
    fleet = PlanFleet(workers=1)
    fleet.broken = {"w0": ("FailedDownload", "the hash is another")}
    fleet.add_plan(update(workers=EVERY))
    fleet.run()
    assert fleet.step_once() == []
    fleet.broken = {}

    def mend(tree: dict[str, Any]) -> None:
        tree["spec"]["commands"][0]["k0supdate"]["platforms"]["linux-amd64"]["sha256"] = "1" * 64

    fleet.change(fleet.plan, mend)
    assert fleet.run()["state"] == "Completed"
    assert fleet.condition("Failed")[0] == "False"
    assert [each["state"] for each in fleet.plan_status["history"]] == ["Completed", "ApplyFailed"]
    assert fleet.plan_status["history"][1]["description"] == "worker w0: the hash is another"


def test_ten_runs_are_kept_and_numbers_of_questions_do_not_come_twice() -> None:
    fleet = PlanFleet(workers=1)
    fleet.add_plan(update(workers=EVERY))
    numbers = []
    for number in range(12):
        spec = {**fleet.plan.spec, "id": f"run-{number}"}
        fleet.change(fleet.plan, lambda tree: tree.update(spec=spec))  # noqa: B023
        fleet.run()
        numbers.append(fleet.plan_status["answers"]["number"])
    assert [each["id"] for each in fleet.plan_status["history"]] == [f"run-{n}" for n in range(11, 1, -1)]
    assert numbers == sorted(set(numbers))


def test_a_plan_being_deleted_is_left_alone() -> None:
    fleet = PlanFleet(workers=1)
    fleet.add_plan(update(workers=EVERY))
    fleet.change(fleet.plan, lambda tree: tree["metadata"].update(deletionTimestamp="2026-01-01T00:00:00Z"))
    assert fleet.step_once() == []


def test_a_plan_without_an_id_is_known_by_its_uid() -> None:
    fleet = PlanFleet(workers=1)
    fleet.add_plan(update(workers=EVERY))
    fleet.change(fleet.plan, lambda tree: tree["spec"].pop("id"))
    fleet.settle_decisions()
    found = fleet.signal("w0")
    assert found is not None
    assert found.plan_id == found.plan_uid == fleet.plan.uid


def test_times_are_those_of_the_machine() -> None:
    fleet = PlanFleet(workers=1)
    fleet.add_plan(update(workers=EVERY))
    fleet.settle_decisions()
    began = fleet.targets()["w0"]["startedTime"]
    fleet.now += 30
    fleet.advance("w0")
    fleet.settle_decisions()
    found = fleet.targets()["w0"]
    assert (found["startedTime"], found["step"]) == (began, "Downloading")
    assert found["lastUpdatedTimestamp"] > began
    fleet.now += 30
    fleet.run()
    assert fleet.targets()["w0"]["completedTime"] > found["lastUpdatedTimestamp"]


def test_an_ended_plan_is_not_written_any_more() -> None:
    fleet = PlanFleet(controllers=1, workers=1)
    fleet.add_plan(update(controllers=EVERY, workers=EVERY))
    fleet.run()
    assert fleet.step_once() == []
    fleet.set_node("w0", ready=False)
    assert fleet.step_once() == []


def test_machines_trigger_a_run_in_progress_and_nothing_after_its_end() -> None:
    fleet = PlanFleet(workers=1)
    assert list(the_plan(fleet.machine("w0"), fleet.world())) == []
    fleet.add_plan(update(workers=EVERY))
    assert list(the_plan(fleet.machine("w0"), fleet.world())) == [("", "autopilot")]
    fleet.settle_decisions()
    assert list(the_plan(fleet.machine("w0"), fleet.world())) == [("", "autopilot")]
    fleet.run()
    assert list(the_plan(fleet.machine("w0"), fleet.world())) == []


def test_an_answer_that_comes_after_the_end_answers_no_later_question() -> None:
    fleet = PlanFleet(controllers=1)
    fleet.add_plan(update(controllers=EVERY))
    fleet.until_started()
    fleet.step_once()
    asked = fleet.plan_status["questions"]["number"]
    fleet.roll(aborted=True)
    fleet.step_once()
    assert fleet.state == "ApplyFailed"
    fleet.roll(aborted=False)
    fleet.step_once()
    late = {"number": asked, "readiness": [{"name": "c0", "ready": True}]}
    fleet.change(fleet.plan, lambda tree: tree["status"].update(answers=late))
    fleet.step_once()
    assert fleet.plan_status["questions"]["number"] == asked + 1
    assert fleet.state == ""
    assert fleet.run()["state"] == "Completed"
