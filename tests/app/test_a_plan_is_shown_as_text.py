"""What ``pilothouse plan status`` lists of a plan."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kit.plan_fleet import EVERY, PlanFleet, update

from pilothouse.app.plan_report import plan_lines

GATE = {"name": "health", "apiVersion": "v1", "kind": "ConfigMap", "expression": "true"}


@pytest.mark.parametrize("workers", [2, 20])
def test_a_machine_that_a_gate_holds_is_listed_with_its_step(workers: int) -> None:
    fleet = PlanFleet(workers=workers)
    fleet.add_plan(update(workers=EVERY), gates=[GATE])
    fleet.shut = {"health": "it is yellow"}
    fleet.settle_decisions()

    listed: list[Any] = [line.split() for line in plan_lines(fleet.plan, now=fleet.now)]

    assert ["w0", "pending", "WaitingForGate", "0s", "gate", "health:", "it", "is", "yellow"] in listed
    assert (["w1", "pending"] in listed) == (workers == 2)
