"""``spec.rollout``: pauses, windows, waves, limits, gates, soak."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.kit.controller_harness import reasons
from tests.kit.plan_fleet import EVERY, PlanFleet, bundle, node, update

from pilothouse.api.kind_names import Node
from pilothouse.base.rfc3339 import parse_time
from pilothouse.controllers.drains.drain_controller import drains
from pilothouse.runtime.intents import RequeueAfter, Wait

GATE = {"name": "health", "apiVersion": "v1", "kind": "ConfigMap", "expression": "true"}


def next_look(fleet: PlanFleet) -> float:
    return min(each.seconds for each in fleet.intents if isinstance(each, RequeueAfter))


def finish(fleet: PlanFleet, name: str) -> None:
    while fleet.advance(name):
        pass
    fleet.settle_decisions()


def by_clock_of_machine(fleet: PlanFleet, ahead: int, act: Callable[[], object]) -> None:
    """What a machine writes whose clock is not that of the leader."""
    fleet.now += ahead
    act()
    fleet.now -= ahead


class TestPaused:
    def test_nothing_begins_and_what_is_in_progress_finishes(self) -> None:
        fleet = PlanFleet(workers=3)
        fleet.add_plan(update(workers=EVERY))
        fleet.settle_decisions()
        fleet.roll(paused=True)
        finish(fleet, "w0")
        assert fleet.order == ["w0"]
        assert fleet.states()["w0"] == "SignalCompleted"
        assert fleet.condition("Paused")[:2] == ("True", "Paused")
        assert fleet.condition("Progressing")[1] == "Paused"
        assert reasons(fleet.intents) == ["Paused"]
        fleet.roll(paused=False)
        fleet.run()
        assert fleet.state == "Completed"
        assert fleet.condition("Paused")[0] == "False"

    def test_no_run_follows_because_of_it(self) -> None:
        fleet = PlanFleet(workers=1)
        fleet.add_plan(update(workers=EVERY))
        fleet.settle_decisions()
        fleet.roll(paused=True)
        fleet.settle_decisions()
        fleet.roll(paused=False)
        fleet.run()
        assert fleet.order == ["w0"]
        assert len(fleet.plan_status["history"]) == 1
        fleet.roll(paused=True)
        fleet.step_once()
        assert len(fleet.plan_status["history"]) == 1
        assert fleet.plan_status["observedGeneration"] == fleet.plan.generation
        assert fleet.step_once() == []


class TestAborted:
    def test_what_is_in_progress_finishes_and_then_it_ends(self) -> None:
        fleet = PlanFleet(workers=3)
        fleet.add_plan(update(workers=EVERY, concurrent=2))
        fleet.settle_decisions()
        fleet.roll(aborted=True)
        finish(fleet, "w0")
        assert fleet.state == "SchedulableWait"
        assert reasons(fleet.intents) == ["Stopping"]
        finish(fleet, "w1")
        assert fleet.state == "ApplyFailed"
        assert fleet.condition("Failed")[1] == "Aborted"
        assert fleet.states() == {
            "w0": "SignalCompleted",
            "w1": "SignalCompleted",
            "w2": "SignalPending",
        }

    def test_without_it_the_plan_runs_again(self) -> None:
        fleet = PlanFleet(workers=2)
        fleet.add_plan(update(workers=EVERY))
        fleet.settle_decisions()
        fleet.roll(aborted=True)
        finish(fleet, "w0")
        fleet.roll(aborted=False)
        assert fleet.run()["state"] == "Completed"
        assert fleet.order == ["w0", "w0", "w1"]
        assert [each["state"] for each in fleet.plan_status["history"]] == ["Completed", "ApplyFailed"]

    def test_a_plan_that_is_aborted_from_the_start_does_not_start(self) -> None:
        fleet = PlanFleet(workers=1)
        fleet.add_plan(update(workers=EVERY), aborted=True)
        fleet.settle_decisions()
        assert fleet.state == ""
        assert fleet.condition("Progressing")[:2] == ("False", "Aborted")

    def test_a_spec_that_is_edited_after_the_end_says_why_it_does_not_run(self) -> None:
        fleet = PlanFleet(workers=2)
        fleet.add_plan(update(workers=EVERY))
        fleet.settle_decisions()
        fleet.roll(aborted=True)
        finish(fleet, "w0")
        ended = fleet.condition("Progressing")
        assert ended[1] == "Ended"
        fleet.roll(maxFailures=1)
        fleet.settle_decisions()
        assert fleet.condition("Progressing") == (
            "False",
            "Aborted",
            "spec.rollout.aborted is true: no run starts",
        )
        fleet.roll(maxFailures=0)
        fleet.settle_decisions()
        assert fleet.condition("Progressing") == ended
        fleet.roll(maxFailures=1, aborted=False)
        assert fleet.run()["state"] == "Completed"


class TestWindows:
    def test_nothing_begins_outside_of_them(self) -> None:
        fleet = PlanFleet(workers=2, now=parse_time("2026-03-03T12:00:00Z"))  # a Tuesday
        window = {"days": ["Tuesday"], "startTime": "23:00", "length": "2h"}
        fleet.add_plan(update(workers=EVERY), windows=[window])
        fleet.settle_decisions()
        assert fleet.order == []
        assert fleet.condition("Progressing")[1] == "OutsideWindow"
        assert "2026-03-03T23:00:00Z" in fleet.condition("Progressing")[2]
        assert next_look(fleet) <= 3600.0
        fleet.now = parse_time("2026-03-04T00:59:00Z")
        fleet.settle_decisions()
        assert fleet.order == ["w0"]
        fleet.now = parse_time("2026-03-04T01:00:00Z")
        finish(fleet, "w0")
        assert fleet.order == ["w0"]
        assert fleet.states()["w0"] == "SignalCompleted"
        fleet.run()
        assert fleet.now == parse_time("2026-03-10T23:00:00Z")

    def test_any_of_several_counts_in_its_time_zone(self) -> None:
        fleet = PlanFleet(workers=1, now=parse_time("2026-03-03T12:00:00Z"))
        windows = [
            {"startTime": "03:00", "length": "1h"},
            {"startTime": "13:00", "length": "30m", "timeZone": "Europe/Berlin"},
        ]
        fleet.add_plan(update(workers=EVERY), windows=windows)
        fleet.settle_decisions()
        assert fleet.order == ["w0"]


class TestWorkers:
    def test_k0s_A37_one_that_is_not_ready_is_passed_over(self) -> None:
        fleet = PlanFleet(workers=3)
        fleet.set_node("w0", ready=False)
        fleet.add_plan(update(workers=EVERY))
        fleet.silent = {"w0"}
        for _ in range(60):
            fleet.step_once()
            fleet.answer()
            fleet.advance_all()
        assert fleet.order == ["w1", "w2"]
        assert fleet.state == "Schedulable"
        assert reasons(fleet.intents) == ["WorkersNotReady"]
        assert fleet.targets()["w0"]["description"]
        fleet.silent = set()
        fleet.set_node("w0", ready=True)
        fleet.run()
        assert fleet.order == ["w1", "w2", "w0"]
        assert fleet.state == "Completed"

    def test_one_that_never_gets_ready_fails_after_the_deadline(self) -> None:
        fleet = PlanFleet(workers=2)
        fleet.set_node("w0", ready=False)
        fleet.add_plan(update(workers=EVERY), nodeDeadline="20m")
        began = fleet.now
        assert fleet.run()["state"] == "ApplyFailed"
        assert fleet.now - began >= 1200
        assert "20m" in fleet.targets()["w0"]["description"]

    def test_done_is_who_is_ready_again(self) -> None:
        fleet = PlanFleet(workers=2)
        fleet.add_plan(update(workers=EVERY))
        fleet.settle_decisions()
        fleet.set_node("w0", ready=False)
        finish(fleet, "w0")
        assert fleet.states()["w0"] == "SignalSent"
        assert "not Ready" in fleet.targets()["w0"]["description"]
        fleet.set_node("w0", ready=True)
        fleet.settle_decisions()
        assert fleet.states()["w0"] == "SignalCompleted"
        assert fleet.order == ["w0", "w1"]

    def test_soak_begins_again_when_it_was_not_ready(self) -> None:
        fleet = PlanFleet(workers=2)
        fleet.add_plan(update(workers=EVERY), soak="5m")
        fleet.settle_decisions()
        finish(fleet, "w0")
        assert fleet.states()["w0"] == "SignalSent"
        fleet.now += 200
        fleet.set_node("w0", ready=False)
        fleet.now += 10
        fleet.set_node("w0", ready=True)
        fleet.now += 299
        fleet.settle_decisions()
        assert fleet.order == ["w0"]
        assert next_look(fleet) == pytest.approx(1.0)
        fleet.now += 1
        fleet.settle_decisions()
        assert fleet.order == ["w0", "w1"]

    @pytest.mark.parametrize("kind", ["update", "bundle"])
    @pytest.mark.parametrize("ahead", [3900, -3900])
    def test_soak_is_by_the_clock_of_the_leader(self, ahead: int, kind: str) -> None:
        fleet = PlanFleet(workers=2)
        fleet.add_plan(update(workers=EVERY) if kind == "update" else bundle(EVERY), soak="5m")
        fleet.settle_decisions()
        by_clock_of_machine(fleet, ahead, lambda: fleet.set_node("w0", ready=False))
        by_clock_of_machine(fleet, ahead, lambda: [*iter(lambda: fleet.advance("w0"), False)])
        fleet.settle_decisions()
        fleet.now += 100
        by_clock_of_machine(fleet, ahead, lambda: fleet.set_node("w0", ready=True))
        fleet.settle_decisions()
        fleet.now += 299
        fleet.settle_decisions()
        assert fleet.order == ["w0"]
        fleet.now += 1
        fleet.settle_decisions()
        assert fleet.order == ["w0", "w1"]

    def test_soak_begins_again_when_the_clock_of_the_leader_is_set_back(self) -> None:
        fleet = PlanFleet(workers=2)
        fleet.add_plan(update(workers=EVERY), soak="5m")
        fleet.settle_decisions()
        finish(fleet, "w0")
        fleet.now -= 3600
        fleet.settle_decisions()
        fleet.now += 300
        fleet.settle_decisions()
        assert fleet.order == ["w0", "w1"]

    @pytest.mark.parametrize(
        ("limit", "begun"),
        [(1, []), (2, ["w0"]), ("60%", ["w0", "w1"]), (9, ["w0", "w1", "w3"])],
    )
    @pytest.mark.parametrize("is_ready", [True, False])
    def test_max_unavailable_counts_who_is_down_or_cordoned_by_anyone(
        self, limit: int | str, begun: list[str], is_ready: bool
    ) -> None:
        fleet = PlanFleet(workers=5)
        fleet.set_node("w2", cordoned=is_ready, ready=is_ready)
        fleet.add_plan(update(workers=EVERY, concurrent=3), maxUnavailable=limit)
        fleet.settle_decisions()
        others = [name for name in fleet.order if name != "w2"]
        assert others == (begun if limit != 9 or not is_ready else ["w0", "w1"])
        # The one that is cordoned costs nothing, so it begins when there is room for no other.
        assert ("w2" in fleet.order) == is_ready
        if len(fleet.order) < 3:
            assert reasons(fleet.intents)[0] == "TooManyUnavailable"

    def test_one_that_is_down_and_takes_the_last_place_fails_after_the_deadline(self) -> None:
        fleet = PlanFleet(workers=3)
        fleet.set_node("w0", ready=False)
        fleet.add_plan(update(workers=EVERY), maxUnavailable=1)
        began = fleet.now
        fleet.settle_decisions()
        assert reasons(fleet.intents) == ["TooManyUnavailable", "WorkersNotReady"]
        assert "maxUnavailable allows: w0" in fleet.condition("Progressing")[2]
        assert fleet.run()["state"] == "ApplyFailed"
        assert fleet.order == []
        assert fleet.now - began == pytest.approx(3600, abs=1)
        assert "did not get Ready within its nodeDeadline of 1h" in fleet.targets()["w0"]["description"]

    def test_one_that_is_down_is_not_due_while_others_take_their_turns(self) -> None:
        fleet = PlanFleet(workers=4)
        fleet.set_node("w3", ready=False)
        fleet.add_plan(update(workers=EVERY, concurrent=3), maxUnavailable=2)
        fleet.settle_decisions()
        assert fleet.order == ["w0"]
        fleet.now += 3599
        fleet.settle_decisions()
        assert "step" not in fleet.targets()["w3"]
        fleet.set_node("w3", ready=True)
        assert fleet.run()["state"] == "Completed"

    def test_one_that_an_admin_has_cordoned_is_updated_and_stays_cordoned(self) -> None:
        fleet = PlanFleet(workers=2)
        fleet.set_node("w1", cordoned=True)
        fleet.add_plan(update(workers=EVERY), maxUnavailable=1)
        fleet.settle_decisions()
        assert fleet.order == ["w1"]
        while fleet.in_progress == ["w1"]:
            fleet.step(drains, fleet.machine("w1"))
            signal = fleet.signal("w1")
            assert signal is not None
            if signal.step not in ("Cordoning", "UnCordoning"):
                fleet.advance("w1")
            fleet.settle_decisions()
        assert fleet.states() == {"w0": "SignalPending", "w1": "SignalCompleted"}
        assert fleet.machine("w1").spec["unschedulable"] is True
        assert reasons(fleet.intents) == ["TooManyUnavailable"]
        fleet.set_node("w1", cordoned=False)
        assert fleet.run()["state"] == "Completed"

    def test_waves_go_one_after_the_other(self) -> None:
        fleet = PlanFleet()
        for name, wave in (("a", "late"), ("b", ""), ("c", "canary"), ("d", "canary"), ("e", "late")):
            fleet.add(node(name, wave=wave))
        waves = [
            {"name": "canary", "selector": {"labels": "wave=canary"}},
            {"name": "late", "selector": {"labels": "wave=late"}},
        ]
        fleet.add_plan(update(workers=EVERY, concurrent=5), waves=waves)
        fleet.settle_decisions()
        assert fleet.order == ["c", "d"]
        finish(fleet, "c")
        assert fleet.order == ["c", "d"]
        finish(fleet, "d")
        assert fleet.order == ["c", "d", "a", "e"]
        fleet.run()
        assert fleet.order == ["c", "d", "a", "e", "b"]
        assert any("of wave canary" in text for _, text in fleet.events)


class TestGates:
    def started(self, when: str, **more: Any) -> PlanFleet:
        fleet = PlanFleet(workers=2)
        fleet.add_plan(update(workers=EVERY), gates=[{**GATE, "when": when}], **more)
        return fleet

    def test_before_a_worker_each_time(self) -> None:
        fleet = self.started("before")
        fleet.shut = {"health": "es: it is yellow"}
        fleet.settle_decisions()
        assert fleet.order == []
        assert fleet.condition("Progressing")[1] == "GateClosed"
        assert "es: it is yellow" in fleet.condition("Progressing")[2]
        fleet.now += 11
        fleet.shut = {}
        fleet.settle_decisions()
        assert fleet.order == ["w0"]
        fleet.shut = {"health": "red"}
        finish(fleet, "w0")
        assert fleet.order == ["w0"]
        fleet.shut = {}
        fleet.run()
        assert fleet.order == ["w0", "w1"]

    def shut(self, part: str, **rollout: Any) -> PlanFleet:
        """A gate is shut before the first of two machines."""
        now = parse_time("2026-03-03T12:00:00Z")
        if part == "controllers":
            fleet, command = PlanFleet(controllers=2, now=now), update(controllers=EVERY)
        else:
            fleet, command = PlanFleet(workers=2, now=now), update(workers=EVERY)
        fleet.add_plan(command, gates=[GATE], **rollout)
        fleet.shut = {"health": "es: it is yellow"}
        return fleet

    @pytest.mark.parametrize("part", ["controllers", "workers"])
    def test_before_a_machine_it_says_since_when_all_the_time(self, part: str) -> None:
        fleet = self.shut(part)
        fleet.settle_decisions()
        name = "c0" if part == "controllers" else "w0"
        for _ in range(60):
            fleet.now += 1
            fleet.step_once()
            text = "since 2026-03-03T12:00:00Z: gate health: es: it is yellow"
            assert fleet.condition("Progressing")[1] == "GateClosed"
            assert fleet.condition("Progressing")[2].startswith(text)
            assert reasons(fleet.intents) == ["GateClosed"]
            assert fleet.targets(part)[name]["step"] == "WaitingForGate"
            fleet.answer()

    @pytest.mark.parametrize(
        ("fields", "objects"),
        [
            ({"objectName": "es", "namespace": "db"}, "ConfigMap es in namespace db"),
            ({"labels": "app=es"}, "every ConfigMap with labels app=es, of which there has to be one"),
            ({}, "every ConfigMap, of which there has to be one"),
        ],
    )
    def test_what_would_help_is_what_opens_the_gate(self, fields: dict[str, str], objects: str) -> None:
        fleet = PlanFleet(workers=1)
        gates = [{**GATE, **fields}, {**GATE, "name": "another"}]
        fleet.add_plan(update(workers=EVERY), gates=gates, nodeDeadline="20m")
        fleet.shut = {"health": "the server has no such kind"}
        fleet.settle_decisions()
        (wait,) = (each for each in fleet.intents if isinstance(each, Wait))
        assert wait.because.endswith("gate health: the server has no such kind")
        assert wait.remedy == (
            f"gate health opens when `true` is true of {objects}; if a gate is mistaken, correct "
            "spec.rollout.gates; a machine that is held for longer than nodeDeadline (20m) fails"
        )

    @pytest.mark.parametrize("part", ["controllers", "workers"])
    def test_before_a_machine_it_fails_at_its_deadline(self, part: str) -> None:
        fleet = self.shut(part, nodeDeadline="20m")
        began = fleet.now
        assert fleet.run()["state"] == "ApplyFailed"
        assert fleet.now - began == pytest.approx(1200, abs=11)
        assert fleet.order == []
        text = "gate health: es: it is yellow, for longer than its nodeDeadline of 20m"
        assert text in fleet.condition("Failed")[2]
        assert text in next(iter(fleet.targets(part).values()))["description"]

    def test_time_in_which_something_else_holds_it_does_not_count(self) -> None:
        fleet = self.started("before", nodeDeadline="20m")
        fleet.shut = {"health": "red"}
        fleet.settle_decisions()
        fleet.roll(paused=True)
        fleet.settle_decisions()
        assert "step" not in fleet.targets()["w0"]
        fleet.now += 3600
        fleet.roll(paused=False)
        fleet.settle_decisions()
        assert fleet.condition("Progressing")[1] == "GateClosed"
        assert fleet.states()["w0"] == "SignalPending"
        fleet.shut = {}
        assert fleet.run()["state"] == "Completed"

    def test_before_a_controller(self) -> None:
        fleet = PlanFleet(controllers=1)
        fleet.shut = {"health": "red"}
        fleet.add_plan(update(controllers=EVERY), gates=[GATE])
        fleet.settle_decisions()
        assert fleet.plan_status["questions"]["gates"] is True
        assert fleet.order == []
        fleet.shut = {}
        fleet.run()
        assert fleet.state == "Completed"

    def test_during_a_machine_fails(self) -> None:
        fleet = self.started("during")
        fleet.settle_decisions()
        fleet.advance("w0")
        fleet.settle_decisions()
        assert fleet.in_progress == ["w0"]
        fleet.shut = {"health": "red"}
        fleet.now += 11
        fleet.settle_decisions()
        assert fleet.state == "ApplyFailed"
        assert "gate health: red" in fleet.targets()["w0"]["description"]
        assert fleet.order == ["w0"]

    @pytest.mark.parametrize("shut", [True, False])
    def test_during_a_machine_that_is_quicker_than_the_answer(self, shut: bool) -> None:
        fleet = self.started("during")
        fleet.until_started()
        while not fleet.in_progress:
            fleet.step_once()
        while fleet.advance("w0"):
            pass
        fleet.step_once()
        assert fleet.in_progress == ["w0"]
        fleet.shut = {"health": "red"} if shut else {}
        fleet.settle_decisions()
        if shut:
            assert fleet.state == "ApplyFailed"
            assert "gate health: red" in fleet.targets()["w0"]["description"]
        else:
            assert fleet.run()["state"] == "Completed"

    def test_after_a_machine_is_not_done(self) -> None:
        fleet = self.started("after")
        fleet.settle_decisions()
        fleet.shut = {"health": "red"}
        finish(fleet, "w0")
        assert fleet.in_progress == ["w0"]
        assert "gate health: red" in fleet.targets()["w0"]["description"]
        fleet.now += 11
        fleet.shut = {}
        fleet.settle_decisions()
        assert fleet.states()["w0"] == "SignalCompleted"
        assert fleet.order == ["w0", "w1"]

    def test_after_a_machine_fails_at_its_deadline(self) -> None:
        fleet = self.started("after", nodeDeadline="5m")
        fleet.shut = {"health": "red"}
        assert fleet.run()["state"] == "ApplyFailed"
        assert "gate health: red" in fleet.targets()["w0"]["description"]

    @pytest.mark.parametrize("when", ["before", "during", "after"])
    def test_it_is_looked_at_again_when_the_clock_is_set_back(self, when: str) -> None:
        fleet = self.started(when)
        fleet.shut = {"health": "red"} if when != "during" else {}
        fleet.settle_decisions()
        if when != "before":
            finish(fleet, "w0") if when == "after" else fleet.advance("w0")
            fleet.settle_decisions()
            assert fleet.in_progress == ["w0"]
        fleet.now -= 3600
        fleet.shut = {"health": "red"} if when == "during" else {}
        self.pass_seconds(fleet, 15)
        if when == "during":
            assert "gate health: red" in fleet.targets()["w0"]["description"]
            assert fleet.state == "ApplyFailed"
        else:
            assert fleet.order == (["w0"] if when == "before" else ["w0", "w1"])

    @pytest.mark.parametrize("when", ["during", "after"])
    def test_it_is_looked_at_every_ten_seconds_by_a_clock_that_is_behind(self, when: str) -> None:
        fleet = self.started(when)
        fleet.settle_decisions()
        if when == "after":
            fleet.shut = {"health": "red"}
            finish(fleet, "w0")
        fleet.now -= 3600
        first = fleet.plan_status["answers"]["number"]
        self.pass_seconds(fleet, 60)
        assert fleet.in_progress == ["w0"]
        assert 5 <= fleet.plan_status["answers"]["number"] - first <= 7

    @pytest.mark.parametrize("when", ["during", "after"])
    def test_an_answer_that_is_too_old_does_not_count(self, when: str) -> None:
        fleet = self.started(when)
        fleet.settle_decisions()
        if when == "after":
            fleet.shut = {"health": "red"}
        while fleet.advance("w0"):
            pass
        if when == "after":
            fleet.settle_decisions()
        # The observer is gone: it answers no more.
        fleet.now += 31
        for _ in range(3):
            fleet.step_once()
        assert fleet.in_progress == ["w0"]
        assert fleet.targets()["w0"]["description"] == "the gates are being looked up"

    def pass_seconds(self, fleet: PlanFleet, seconds: int) -> None:
        for _ in range(seconds):
            fleet.now += 1
            fleet.settle_decisions()

    def test_an_answer_from_before_its_last_step_does_not_count(self) -> None:
        fleet = self.started("after")
        fleet.settle_decisions()
        early = {"number": 99, "time": "1970-01-01T00:00:00Z", "gates": [{"name": "health", "open": True}]}
        fleet.change(fleet.plan, lambda tree: tree["status"].update(answers=early))
        while fleet.advance("w0"):
            pass
        fleet.step_once()
        assert fleet.in_progress == ["w0"]


def test_a_large_status_is_written_once_a_second() -> None:
    fleet = PlanFleet(workers=101)
    fleet.add_plan(update(workers=EVERY, concurrent=2, forceupdate=True))
    fleet.until_started()
    fresh = fleet.plan
    seen = type(fresh)(fresh.noun, fresh.tree, arrived=fleet.now - 0.25)
    [pause] = fleet.controller(seen, fleet.world())
    assert isinstance(pause, RequeueAfter)
    assert pause.seconds == pytest.approx(0.75)
    seen = type(fresh)(fresh.noun, fresh.tree, arrived=fleet.now - 1.0)
    assert len(fleet.controller(seen, fleet.world())) > 1


def test_a_decision_reads_the_machines_in_progress_and_as_many_others_as_there_are_places() -> None:
    fleet = PlanFleet(workers=60)
    fleet.add_plan(update(workers=EVERY, concurrent=3, forceupdate=True))
    fleet.settle_decisions()
    world = fleet.world()
    fleet.controller(fleet.plan, world)
    assert {each.name for each in world.read if each.noun == Node} == {"w0", "w1", "w10"}


@pytest.mark.parametrize(
    ("change", "matters"),
    [
        (lambda tree: tree["status"].update(images=[]), False),
        (lambda tree: tree["status"]["conditions"][0].update(lastHeartbeatTime="x"), False),
        (lambda tree: tree["status"]["conditions"][0].update(status="False"), True),
        (lambda tree: tree["spec"].update(unschedulable=True), True),
        (lambda tree: tree["metadata"]["labels"].update(a="b"), True),
        (
            lambda tree: tree["metadata"].update(annotations={"k0sproject.io/autopilot-signal-data": "{}"}),
            True,
        ),
    ],
)
def test_heartbeats_do_not_wake_the_controller(change: Any, matters: bool) -> None:
    fleet = PlanFleet(workers=1)
    before = fleet.machine("w0")
    assert fleet.controller.predicate(before, fleet.change(before, change)) is matters
