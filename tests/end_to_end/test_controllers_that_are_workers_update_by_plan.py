"""Scenarios of k0s's own integration tests with controllers that are workers too, with real processes, on both
stores.

The Nodes belong to a kubelet that the test stands in for: it says that they are Ready, and ends pods.
"""

from __future__ import annotations

import contextlib
import threading
import urllib.error
from collections.abc import Iterator
from typing import Any

import pytest
from tests.kit.fleet_watch import FleetWatch
from tests.kit.managed_programs import program
from tests.kit.update_fleet import GROUP, MERGE, UpdateFleet, named

from pilothouse.api.k0s.signals import STEPS, read_signal

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]
Json = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
NAMES = ("controller0", "controller1", "controller2")


@pytest.fixture(scope="module", params=["sqlite", "etcd"])
def fleet(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[UpdateFleet]:
    folder = tmp_path_factory.mktemp("fleet")
    with UpdateFleet(folder, store=request.param, workers=0, mode="controller+worker") as fleet:
        yield fleet


def test_ap_controllerworker(fleet: UpdateFleet) -> None:
    """ap-controllerworker, k0s-A19, k0s-A20: a budget holds the first controller in its drain until it is gone. All
    the time another client writes to the ControlNodes."""
    version = "v2.0.0"
    fleet.offer(version, program(version))
    for name in NAMES:
        create_pod(fleet, name)
    fleet.send("POST", BUDGETS, budget())
    fleet.wait(lambda: fleet.send("GET", f"{BUDGETS}/all")["status"].get("currentHealthy") == 3, "the budget")
    targets = {"controllers": named(*NAMES), "workers": {"discovery": {"selector": {}}}}
    with kubelet(fleet), FleetWatch(fleet) as watch:
        fleet.replace(fleet.plan(version, targets=targets))
        held = fleet.until(lambda plan: "disruption budget" in first_controller(plan).get("description", ""))
        assert first_controller(held)["step"] == "Cordoning"
        assert steps(fleet) == {"controller0": "Cordoning"}
        assert fleet.send("GET", "/api/v1/nodes/controller0")["spec"]["unschedulable"]
        assert len(fleet.send("GET", PODS)["items"]) == 3
        fleet.send("DELETE", f"{BUDGETS}/all")
        plan = fleet.completed()
        watch.caught_up()
    [command] = plan["status"]["commands"]
    assert {each["state"] for each in command["k0supdate"]["controllers"]} == {"SignalCompleted"}
    assert not command["k0supdate"].get("workers")
    for machine in fleet.controllers:
        assert machine.version() == version
        [turn] = watch.turns(machine.name)
        assert turn.steps == ("", *STEPS)
        node = fleet.send("GET", f"/api/v1/nodes/{machine.name}")
        assert not node["spec"].get("unschedulable")
    assert fleet.send("GET", PODS)["items"] == []
    for name in NAMES:
        assert_times_never_go_back(watch, name)


def test_ap_airgap_controllerworker(fleet: UpdateFleet) -> None:
    """ap-airgap-controllerworker: the bundle of a controller that is a worker is signalled on its Node."""
    fleet.offer("bundle.tar", b"images")
    bundle = {
        "version": "v2.0.0",
        "platforms": fleet.platforms("bundle.tar"),
        "workers": named("controller0"),
    }
    fleet.replace(fleet.plan_of({"airgapupdate": bundle}))
    plan = fleet.completed()
    [target] = plan["status"]["commands"][0]["airgapupdate"]["workers"]
    assert (target["name"], target["state"]) == ("controller0", "SignalCompleted")
    found = [each.name for each in fleet.controllers if (each.folder / "images" / "bundle.tar").exists()]
    assert found == ["controller0"]


def first_controller(plan: Json) -> Json:
    [command] = plan["status"].get("commands") or [{}]
    found: list[Json] = command.get("k0supdate", {}).get("controllers") or [{}]
    return found[0]


def steps(fleet: UpdateFleet) -> dict[str, str]:
    """How far the controllers are that have a signal."""
    found = fleet.send("GET", f"{GROUP}/controlnodes")["items"]
    signals = {one["metadata"]["name"]: read_signal(one["metadata"]["annotations"]) for one in found}
    return {name: signal.step for name, signal in signals.items() if signal is not None}


def assert_times_never_go_back(watch: FleetWatch, name: str) -> None:
    times = [
        signal.status.timestamp
        for _, tree in watch.events
        if tree["metadata"]["name"] == name
        and (signal := read_signal(tree["metadata"].get("annotations") or {})) is not None
        and signal.status is not None
    ]
    assert times
    assert times == sorted(times)


def create_pod(fleet: UpdateFleet, node: str) -> None:
    metadata = {"name": f"app-{node}", "labels": {"app": "web"}}
    spec = {"nodeName": node, "containers": [{"name": "web", "image": "web"}]}
    fleet.send("POST", PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    fleet.send("PATCH", f"{PODS}/app-{node}/status", {"status": ready}, MERGE)


def budget() -> Json:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "all"},
        "spec": {"minAvailable": 3, "selector": {"matchLabels": {"app": "web"}}},
    }


@contextlib.contextmanager
def kubelet(fleet: UpdateFleet) -> Iterator[None]:
    """Ends pods that are deleted, and writes to every ControlNode, every second."""
    over = threading.Event()

    def work() -> None:
        number = 0
        while not over.wait(1):
            number += 1
            for name in NAMES:
                touched = {"metadata": {"annotations": {"example.com/touched": str(number)}}}
                fleet.send("PATCH", f"{GROUP}/controlnodes/{name}", touched, MERGE)
            for pod in fleet.send("GET", PODS)["items"]:
                if pod["metadata"].get("deletionTimestamp"):
                    with contextlib.suppress(urllib.error.HTTPError):
                        end = {"gracePeriodSeconds": 0}
                        fleet.send("DELETE", f"{PODS}/{pod['metadata']['name']}", end)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
