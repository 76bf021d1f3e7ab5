from __future__ import annotations

import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.kit import tools
from tests.kit.program_trees import payload
from tests.kit.self_updating_fleet import GROUP, SelfUpdatingFleet, packed, without_server

Json = dict[str, Any]
FIRST, NEXT = "v0.1.1", "v0.2.0"
CRASHING, LYING, UNHEALTHY, OTHER = "v0.1.2", "v0.1.3", "v0.1.4", "v0.1.9"


def redis_pod(node: str) -> Json:
    container = {
        "name": "redis",
        "image": "host/redis-server",
        "args": ["--bind", "$(POD_IP)", "--port", "6379", "--protected-mode", "no", "--dir", "/data"],
        "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"redis-{node}", "namespace": "default"},
        "spec": {
            "nodeName": node,
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 1,
            "containers": [container],
            "volumes": [{"name": "data", "emptyDir": {}}],
        },
    }


def redis(address: str, *command: str) -> str:
    argv = ["redis-cli", "-h", address, *command]
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=10).stdout.strip()


def run_id(address: str) -> str:
    """Each process of Redis has another one."""
    lines = redis(address, "info", "server").splitlines()
    return next((line.strip() for line in lines if line.startswith("run_id:")), "")


def targets(plan: Json, part: str) -> list[Json]:
    return list(plan["status"]["commands"][0].get("k0supdate", {}).get(part, ()))


def ended(plan: Json) -> bool:
    return plan["status"].get("state", "") not in ("", "Schedulable", "SchedulableWait")


def ready_nodes(fleet: SelfUpdatingFleet) -> set[str]:
    return {
        node["metadata"]["name"]
        for node in fleet.send("GET", "/api/v1/nodes")["items"]
        for condition in node.get("status", {}).get("conditions", ())
        if condition["type"] == "Ready" and condition["status"] == "True"
    }


def control_versions(fleet: SelfUpdatingFleet) -> list[str]:
    items = fleet.send("GET", f"{GROUP}/controlnodes")["items"]
    return [(each.get("status") or {}).get("k0sVersion", "") for each in items]


def start_redis(fleet: SelfUpdatingFleet) -> dict[str, str]:
    """A Redis on each worker; returns their addresses."""
    names = {worker.name for worker in fleet.workers}
    fleet.wait(lambda: ready_nodes(fleet) >= names, "the nodes")
    for name in sorted(names):
        fleet.send("POST", "/api/v1/namespaces/default/pods", redis_pod(name))

    def address(name: str) -> str:
        pod = fleet.send("GET", f"/api/v1/namespaces/default/pods/redis-{name}")
        found = str(pod.get("status", {}).get("podIP", ""))
        return found if found and redis(found, "ping") == "PONG" else ""

    return {name: fleet.wait(partial(address, name), f"Redis on {name}") for name in sorted(names)}


def taken_back(fleet: SelfUpdatingFleet, version: str, content: bytes) -> str:
    """Order a version that the first machine takes back; returns why."""
    fleet.offer(version, content)
    fleet.send("POST", f"{GROUP}/plans", fleet.plan(version))
    plan = fleet.until(ended)
    assert plan["status"]["state"] == "ApplyFailed", plan["status"]
    first, *others = targets(plan, "controllers")
    assert first["state"] == "SignalApplyFailed"
    assert {each["state"] for each in (*others, *targets(plan, "workers"))} == {"SignalPending"}
    reason = str(first["description"])
    assert reason.endswith(f"back at {FIRST}")
    assert [machine.version() for machine in fleet.machines] == [FIRST] * 6
    fleet.wait(lambda: control_versions(fleet) == [FIRST] * 3, "the control hosts after it")
    fleet.send("DELETE", f"{GROUP}/plans/autopilot")
    fleet.history.clear()
    return reason


@pytest.mark.long
@pytest.mark.timeout(900)
def test_pods_keep_their_processes_and_data_and_versions_that_do_not_work_go_no_further(
    tmp_path: Path,
) -> None:
    tools.find("redis-server")
    first, following = packed(tmp_path, FIRST[1:]), packed(tmp_path, NEXT[1:])
    with SelfUpdatingFleet(tmp_path, first=first) as fleet:
        addresses = start_redis(fleet)
        for name, address in addresses.items():
            assert redis(address, "set", "key", name) == "OK"
        before = {name: run_id(address) for name, address in addresses.items()}
        processes = [worker.containers() for worker in fleet.workers]
        assert all(processes)
        assert all(before.values())
        fleet.wait(lambda: control_versions(fleet) == [FIRST] * 3, "the control hosts")

        # Versions that don't work are taken back on the first machine, and go no further.
        reason = taken_back(fleet, CRASHING, payload(CRASHING, "#!/bin/sh\nexit 3\n"))
        assert "was started 3 times, and did not prove to work" in reason
        lying = packed(tmp_path, OTHER[1:])
        assert f"it reports the version {OTHER}, not {LYING}" in taken_back(fleet, LYING, lying.read_bytes())
        unhealthy = without_server(packed(tmp_path, UNHEALTHY[1:]))
        assert "it is not healthy: " in taken_back(fleet, UNHEALTHY, unhealthy)

        # One that works arrives everywhere.
        fleet.offer(NEXT, following.read_bytes())
        fleet.send("POST", f"{GROUP}/plans", fleet.plan(NEXT))
        plan = fleet.until(ended)
        assert plan["status"]["state"] == "Completed", plan["status"]
        assert plan["status"]["progress"] == "6/6"
        for machine in fleet.machines:
            assert set(machine.running().values()) == {NEXT}, machine.running()
            assert not (machine.root / "trial.json").exists()
        sent = [
            [each["name"] for each in targets(seen, "controllers") if each["state"] == "SignalSent"]
            for seen in fleet.history
            if seen.get("status", {}).get("commands")
        ]
        assert all(len(each) <= 1 for each in sent)

        # The pods have not noticed.
        assert {name: run_id(address) for name, address in addresses.items()} == before
        assert [worker.containers() for worker in fleet.workers] == processes
        assert {name: redis(address, "get", "key") for name, address in addresses.items()} == {
            name: name for name in addresses
        }
        names = {worker.name for worker in fleet.workers}
        fleet.wait(lambda: ready_nodes(fleet) >= names, "the nodes after the update")
