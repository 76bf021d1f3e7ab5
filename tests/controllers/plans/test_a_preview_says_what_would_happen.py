"""``preview``: who, in which order, and what would hold it, by the code that carries plans out."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kit.plan_fleet import EVERY, NEW, PlanFleet, bundle, control_node, node, static, update

from pilothouse.api.k0s.v1beta2 import GateAnswer, PlanAnswers, ReadinessAnswer, RemovedApisAnswer
from pilothouse.api.kind_names import ControlNode
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
