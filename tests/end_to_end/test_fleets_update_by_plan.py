"""Plans over machines of real processes: the scenarios of k0s's own integration tests, by their names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.kit.managed_programs import program
from tests.kit.update_fleet import FIRST, GROUP, UpdateFleet

Json = dict[str, Any]
NEW = "v2.0.0"


def targets(plan: Json, part: str) -> list[Json]:
    return list(plan["status"]["commands"][0].get("k0supdate", {}).get(part, ()))


def states(plan: Json, part: str) -> set[str]:
    return {each["state"] for each in targets(plan, part)}


def ended(plan: Json) -> bool:
    return plan["status"].get("state", "") not in ("", "Schedulable", "SchedulableWait")


def never_two_controllers_nor_a_worker_too_soon(history: list[Json]) -> None:
    assert len(history) > 3
    for plan in history:
        if not plan.get("status", {}).get("commands"):
            continue
        sent = [each for each in targets(plan, "controllers") if each["state"] == "SignalSent"]
        assert len(sent) <= 1, plan["status"]
        if states(plan, "workers") - {"SignalPending"}:
            assert states(plan, "controllers") == {"SignalCompleted"}, plan["status"]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("store", ["sqlite", pytest.param("etcd", marks=pytest.mark.long)])
def test_ap_ha3x3(tmp_path: Path, store: str) -> None:
    """k0s-A02, k0s-A03, k0s-A05, k0s-A48: three controllers one by one, then three workers one by one."""
    with UpdateFleet(tmp_path, store=store) as fleet:
        fleet.offer(NEW, program(NEW))
        fleet.apply(fleet.plan(NEW))
        plan = fleet.until(ended)
        assert plan["status"]["state"] == "Completed", plan["status"]
        assert states(plan, "controllers") == states(plan, "workers") == {"SignalCompleted"}
        assert plan["status"]["progress"] == "6/6"
        assert [command["state"] for command in plan["status"]["commands"]] == ["Completed"]
        assert [machine.version() for machine in fleet.machines] == [NEW] * 6
        never_two_controllers_nor_a_worker_too_soon(fleet.history)
        for controller in fleet.controllers:
            status = fleet.send("GET", f"{GROUP}/controlnodes/{controller.name}")["status"]
            assert {"type": "InternalIP", "address": controller.address} in status["addresses"]
            assert (status["apiPort"], status["k0sVersion"]) == (controller.port, NEW)
        for worker in fleet.workers:
            node = fleet.send("GET", f"/api/v1/nodes/{worker.name}")
            assert not node["spec"].get("unschedulable")
            assert node["metadata"]["annotations"]["autopilot.k0sproject.io/version"] == NEW


@pytest.mark.timeout(600)
def test_ap_quorumsafety(tmp_path: Path) -> None:
    """k0s-A06: a controller that does not answer ends the plan, or holds it, and no machine is touched."""
    with UpdateFleet(tmp_path, controllers=2, workers=0) as fleet:
        silent = {
            "apiVersion": "autopilot.k0sproject.io/v1beta2",
            "kind": "ControlNode",
            "metadata": {"name": "controller2"},
        }
        fleet.send("POST", f"{GROUP}/controlnodes", silent)
        fleet.offer(NEW, program(NEW))
        fleet.apply(fleet.plan(NEW))
        plan = fleet.until(ended)
        assert plan["status"]["state"] == "InconsistentTargets"
        assert (
            "controller2 (its status has no InternalIP address"
            in plan["status"]["commands"][0]["description"]
        )
        assert [machine.version() for machine in fleet.machines] == [FIRST] * 2
        for item in fleet.send("GET", f"{GROUP}/controlnodes")["items"]:
            assert "k0sproject.io/autopilot-signal-data" not in item["metadata"].get("annotations", {})


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_version_that_crashes_is_taken_back_and_goes_no_further(tmp_path: Path) -> None:
    with UpdateFleet(tmp_path, controllers=1, workers=2) as fleet:
        fleet.offer(NEW, program(NEW, behaviour="crashes"))
        fleet.apply(fleet.plan(NEW))
        plan = fleet.until(ended)
        assert plan["status"]["state"] == "ApplyFailed"
        assert states(plan, "controllers") == {"SignalApplyFailed"}
        assert states(plan, "workers") == {"SignalPending"}
        assert [machine.version() for machine in fleet.machines] == [FIRST] * 3
        [failed] = targets(plan, "controllers")
        assert failed["description"]
