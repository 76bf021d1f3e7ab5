"""Scenarios of k0s's own integration tests that need three controllers, with real processes, in one fleet; on
both stores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.kit.managed_programs import program
from tests.kit.update_fleet import GROUP, MERGE, UpdateFleet, named

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]
Json = dict[str, Any]
NAMES = ("controller0", "controller1", "controller2")


@pytest.fixture(scope="module", params=["sqlite", "etcd"])
def fleet(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[UpdateFleet]:
    with UpdateFleet(tmp_path_factory.mktemp("fleet"), store=request.param) as fleet:
        yield fleet


def done(plan: Json, part: str) -> list[str]:
    """The machines of a plan that are done; all of them have to be."""
    targets = plan["status"]["commands"][0]["k0supdate"].get(part) or ()
    assert {each["state"] for each in targets} <= {"SignalCompleted"}
    return [each["name"] for each in targets]


def update(fleet: UpdateFleet, version: str, **targets: Json) -> Json:
    fleet.offer(version, program(version))
    command = {"version": version, "platforms": fleet.platforms(version), "targets": targets}
    return {"k0supdate": {"forceupdate": True, **command}}


def test_ap_quorum(fleet: UpdateFleet) -> None:
    """ap-quorum: three controllers, and no worker."""
    version = "v1.0.1"
    fleet.replace(fleet.plan_of(update(fleet, version, controllers=named(*NAMES))))
    plan = fleet.completed()
    assert (done(plan, "controllers"), done(plan, "workers")) == (list(NAMES), [])
    assert [machine.version() for machine in fleet.controllers] == [version] * 3
    assert version not in [machine.version() for machine in fleet.workers]


def test_ap_selector(fleet: UpdateFleet) -> None:
    """ap-selector: labels and fields together select one controller and one worker."""
    version = "v1.0.2"
    labels = {"metadata": {"labels": {"foo": "bar"}}}
    for path in (f"{GROUP}/controlnodes/controller0", "/api/v1/nodes/worker1", "/api/v1/nodes/worker2"):
        fleet.send("PATCH", path, labels, MERGE)
    selected = {
        part: {"discovery": {"selector": {"labels": "foo=bar", "fields": f"metadata.name={name}"}}}
        for part, name in (("controllers", "controller0"), ("workers", "worker1"))
    }
    fleet.replace(fleet.plan_of(update(fleet, version, **selected)))
    plan = fleet.completed()
    assert (done(plan, "controllers"), done(plan, "workers")) == (["controller0"], ["worker1"])
    updated = [machine.name for machine in fleet.machines if machine.version() == version]
    assert updated == ["controller0", "worker1"]


def test_ap_quorumsafety_with_a_controller_that_comes_back(fleet: UpdateFleet) -> None:
    """ap-quorumsafety as k0s has it today, k0s-A06: while a controller is stopped no machine is signalled, and the
    plan goes on when it is back."""
    version = "v1.0.3"
    stopped = fleet.controllers[2]
    stopped.kill_agent()
    stopped.stop_program()
    plan = fleet.plan_of(update(fleet, version, controllers=named(*NAMES)), rollout={"onNotReady": "wait"})
    fleet.replace(plan)
    # Asked twice, ten seconds apart.
    held = fleet.until(lambda one: is_held(one) and one["status"]["answers"]["number"] >= 2)
    assert held["status"]["state"] == "Schedulable"
    signals = "k0sproject.io/autopilot-signal-data"
    for item in fleet.send("GET", f"{GROUP}/controlnodes")["items"]:
        assert held["metadata"]["uid"] not in item["metadata"]["annotations"].get(signals, "")
    stopped.start_agent()
    assert done(fleet.completed(), "controllers") == list(NAMES)
    assert {one["status"].get("state", "") for one in fleet.history if one.get("status")} <= {
        "",
        "Schedulable",
        "SchedulableWait",
        "Completed",
    }
    assert [machine.version() for machine in fleet.controllers] == [version] * 3


def is_held(plan: Json) -> bool:
    return any(
        (each["type"], each["reason"]) == ("Progressing", "ControllersNotReady")
        for each in plan["status"].get("conditions") or ()
    )
