"""``preview``: who, in which order, and what would hold it, by the code that carries plans out."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kit.plan_fleet import EVERY, NEW, PlanFleet, bundle, control_node, node, static, update

from pilothouse.api.k0s.signals import Signal, SignalCommand, SignalUpdate
from pilothouse.api.k0s.v1beta2 import GateAnswer, PlanAnswers, ReadinessAnswer, RemovedApisAnswer
from pilothouse.api.kind_names import ControlNode
from pilothouse.base.rfc3339 import format_time
from pilothouse.controllers.plans.preview import PlanPreview, preview, versions_to_ask_about


def shown(fleet: PlanFleet, *, lost: str = "", exclude: frozenset[str] = frozenset()) -> PlanPreview:
    plan = fleet.plan
    answers = PlanAnswers(
        number=1,
        readiness=tuple(
            ReadinessAnswer(
                name=name, ready=name not in fleet.not_ready, message=fleet.not_ready.get(name, "")
            )
            for name in fleet.names(ControlNode)
        ),
        removed_apis=tuple(
            RemovedApisAnswer(version=version, message=lost) for version in versions_to_ask_about(plan)
        ),
        gates=tuple(GateAnswer(name=name, open=False, message=why) for name, why in fleet.shut.items()),
    )
    return preview(plan, fleet.world(), answers, exclude)


def test_the_order_is_that_of_the_run() -> None:
    fleet = PlanFleet(controllers=2, workers=2)
    fleet.add(node("a", canary="yes"))
    waves = [{"name": "canary", "selector": {"labels": "canary"}}]
    fleet.add_plan(
        {**bundle(static("w0")), **update(controllers=EVERY, workers=EVERY, concurrent="50%")}, waves=waves
    )
    found = shown(fleet)
    assert [(step.title, step.machines) for step in found.steps] == [
        (f"bundle {NEW}, 1 at a time (the rest)", ("w0",)),
        (f"controllers to {NEW}, one at a time", ("c0", "c1")),
        (f"workers to {NEW}, 2 at a time (canary)", ("a",)),
        (f"workers to {NEW}, 2 at a time (the rest)", ("w0", "w1")),
    ]
    assert found.obstacles == ()
    fleet.run()
    assert [name for step in found.steps for name in step.machines] == fleet.order


@pytest.mark.parametrize(
    ("command", "more", "state"),
    [
        (update(workers=static("ghost"), forceupdate=True), {}, "IncompleteTargets"),
        (update(controllers=EVERY), {"lost": "1 FlowSchema"}, "Warning"),
        (update(workers=EVERY), {}, "Warning"),
        (update(controllers=EVERY), {"exclude": frozenset({"controller"})}, "Restricted"),
    ],
)
def test_what_would_end_it_at_once(command: dict[str, Any], more: dict[str, Any], state: str) -> None:
    fleet = PlanFleet(controllers=1, workers=1)
    fleet.add_plan(command)
    found = shown(fleet, **more)
    assert found.state == state
    assert found.description
    assert found.steps == ()


def test_what_would_hold_it() -> None:
    fleet = PlanFleet(controllers=1, workers=2)
    fleet.add(control_node("c1"))
    fleet.not_ready = {"c1": "connection refused"}
    fleet.shut = {"g": "es is red"}
    fleet.set_node("w1", ready=False)
    gate = {"name": "g", "apiVersion": "v1", "kind": "ConfigMap", "expression": "true"}
    fleet.add_plan(update(controllers=EVERY, workers=EVERY), paused=True, gates=[gate])
    assert shown(fleet).obstacles == (
        "the plan is paused",
        "controller c1 (connection refused) is not ready",
        "gate g: es is red",
        "worker w1 is not Ready",
    )


def test_workers_that_are_not_ready_are_counted_in_one_line() -> None:
    fleet = PlanFleet(workers=30)
    for number in range(12):
        fleet.set_node(f"w{number}", ready=False)
    fleet.add_plan(update(workers=EVERY, forceupdate=True))
    assert shown(fleet).obstacles == (
        "12 workers are not Ready: w0, w1, w10, w11, w2, w3, w4, w5, w6, w7 and 2 more",
    )


def test_workers_that_are_cordoned_count_against_max_unavailable() -> None:
    fleet = PlanFleet(workers=4)
    fleet.add_plan(update(workers=EVERY, forceupdate=True), maxUnavailable="25%")
    assert shown(fleet).obstacles == ()
    fleet.change(fleet.machine("w2"), lambda tree: tree["spec"].update(unschedulable=True))
    assert shown(fleet).obstacles == (
        "maxUnavailable 25% of 4 workers allows 1, and 1 are not Ready or cordoned: w2",
    )


def test_budgets_that_would_keep_pods_are_named() -> None:
    fleet = PlanFleet(workers=2)
    for name, on in (("db-0", "w0"), ("db-1", "w1")):
        fleet.add(pod(name, on))
    budget = fleet.add(spent_budget("db"))
    fleet.add_plan(update(workers=EVERY, forceupdate=True))
    assert shown(fleet).obstacles == (
        "drains would wait for pods in namespace default: disruption budget db needs 2 healthy pods and has 2: "
        "db-0 on w0, db-1 on w1",
    )
    fleet.roll(drain={"strategy": "none"})
    assert shown(fleet).obstacles == ()
    fleet.roll(drain={"strategy": "evict"})
    fleet.change(budget, lambda tree: tree["status"].update(disruptionsAllowed=1, currentHealthy=3))
    assert shown(fleet).obstacles == ()


def test_a_controller_that_is_still_in_another_update_is_named() -> None:
    fleet = PlanFleet(controllers=2)
    fleet.add_plan(update(controllers=EVERY))
    other = Signal(
        "other", format_time(fleet.now), SignalCommand(0, k0supdate=SignalUpdate("http://x/k0s", NEW)), "uid"
    )
    busy = other.advanced("Restart", format_time(fleet.now)).annotations()
    fleet.change(fleet.machine("c1"), lambda tree: tree["metadata"].update(annotations=busy))
    assert shown(fleet).obstacles == ("still in an update of another plan or run: c1",)


def test_controllers_that_stay_behind_end_it() -> None:
    fleet = PlanFleet(controllers=2, workers=1)
    fleet.add_plan(update(controllers=static("c0"), workers=EVERY))
    found = shown(fleet)
    assert found.state == "Warning"
    assert "than these controllers: c1 (" in found.description


def test_machines_without_an_update_agent_are_named() -> None:
    fleet = PlanFleet(controllers=1, workers=2)
    fleet.change(fleet.machine("c0"), lambda tree: tree["status"].pop("k0sVersion"))
    version = {"autopilot.k0sproject.io/version": "v1.30.0"}
    fleet.change(fleet.machine("w1"), lambda tree: tree["metadata"].update(annotations=version))
    fleet.add_plan(update(controllers=EVERY, workers=EVERY, forceupdate=True))
    assert shown(fleet).without_agent == ("c0", "w0")


def pod(name: str, on: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": "db"}},
        "spec": {"nodeName": on},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }


def spent_budget(name: str) -> dict[str, Any]:
    status = {"observedGeneration": 1, "disruptionsAllowed": 0, "desiredHealthy": 2, "currentHealthy": 2}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "db"}}},
        "status": status,
    }
