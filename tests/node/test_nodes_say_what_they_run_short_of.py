"""Conditions of the Node, what is reserved, and who is evicted when memory or disk run short."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest
from tests.kit.node_parts import EVERYTHING, PlainGroup
from tests.node.stage import Stage, app, is_ready, phase

from pilothouse.api.kind_names import Node
from pilothouse.node.interfaces import VolumeNotReady
from pilothouse.node.machine.machine_info import (
    AvailableResources,
    allocatable,
    read_available_resources,
    read_machine_info,
)
from pilothouse.node.machine.node_conditions import (
    ResourcePressure,
    conditions,
    limits_condition,
    problems,
    resource_pressures,
)
from pilothouse.node.pods.eviction import EvictionCandidate, choose_victim
from pilothouse.node.settings import NodeSettings
from pilothouse.supervise.cgroup_settings import DeviceThrottle, Usage
from pilothouse.supervise.machine_survey import Capability

MIB = 2**20
PLENTY = AvailableResources(
    memory=2**33,
    disk=2**38,
    disk_size=2**39,
    files=10**6,
    files_size=2 * 10**6,
    processes=30000,
    processes_size=32768,
)


LITTLE = ResourcePressure("memory", MIB, "little memory is left")


def replaced(**changes: int) -> AvailableResources:
    return msgspec.structs.replace(PLENTY, **changes)


@pytest.mark.parametrize(
    ("short", "expected"),
    [
        (PLENTY, set()),
        (replaced(memory=99 * 2**20), {"MemoryPressure"}),
        (replaced(disk=2**29), {"DiskPressure"}),
        (replaced(disk=2**31), set()),
        (replaced(disk=5 * 2**20, disk_size=100 * 2**20), {"DiskPressure"}),
        (replaced(files=10), {"DiskPressure"}),
        (replaced(files=0, files_size=0), set()),
        (replaced(processes=100), {"PIDPressure"}),
        (replaced(memory=0, disk=0, processes=0), {"MemoryPressure", "DiskPressure", "PIDPressure"}),
    ],
)
def test_shortages(short: AvailableResources, expected: set[str]) -> None:
    assert set(resource_pressures(short)) == expected
    told = {each["type"]: each["status"] for each in conditions(short, "")}
    assert {kind for kind, status in told.items() if status == "True"} == {"Ready", *expected}


def test_a_node_whose_parts_have_failed_is_not_ready_and_says_why() -> None:
    told = {
        each["type"]: each for each in conditions(PLENTY, problems(EVERYTHING, "volumes stopped: OSError"))
    }
    assert told["Ready"]["status"] == "False"
    assert told["Ready"]["message"] == "volumes stopped: OSError"


def test_nor_is_one_whose_containers_can_have_no_view() -> None:
    survey = msgspec.structs.replace(EVERYTHING, view=Capability(False, "Operation not permitted"))
    assert "Operation not permitted" in problems(survey, "")


def test_limits_that_the_machine_does_not_enforce_are_told() -> None:
    assert limits_condition(EVERYTHING)["status"] == "True"
    limits = {**EVERYTHING.limits, "memory": Capability(False, "not ours to write")}
    told = limits_condition(msgspec.structs.replace(EVERYTHING, limits=limits))
    assert (told["status"], told["message"]) == ("False", "memory: not ours to write")


def test_this_machine_has_something(tmp_path: Path) -> None:
    now = read_available_resources(tmp_path / "not" / "there" / "yet")
    assert now.memory > 0
    assert 0 < now.disk <= now.disk_size
    assert 0 < now.processes < now.processes_size


def test_what_is_told_of_the_machine(tmp_path: Path) -> None:
    settings = NodeSettings(
        name="m1",
        data=tmp_path,
        labels={"disk": "ssd"},
        capacity={"pods": "20", "cpu": "4"},
        reserved={"cpu": "500m", "memory": "1Gi"},
    )
    machine = read_machine_info(settings)
    assert machine.labels["kubernetes.io/hostname"] == "m1"
    assert machine.labels["kubernetes.io/os"] == "linux"
    assert machine.labels["disk"] == "ssd"
    assert (machine.capacity["pods"], machine.allocatable["cpu"]) == ("20", "3500m")
    assert machine.info["kubeletVersion"].startswith("v1.32.0+pilothouse")


def test_no_more_is_reserved_than_there_is() -> None:
    assert allocatable({"cpu": "1"}, {"cpu": "2", "gpu": "1"}) == {"cpu": "0"}


@pytest.mark.parametrize(
    ("pods", "who"),
    [
        ([], None),
        ([("a", 0, 0)], None),
        ([("a", 0, 100), ("b", 0, 200)], "b"),
        ([("a", 1000, 900), ("b", 0, 10)], "b"),
        ([("a", 1000, 900), ("b", 1000, 990)], "b"),
        ([("a", 100, 900), ("b", 500, 900)], "a"),
    ],
)
def test_who_uses_most_beyond_what_it_asked_for_goes(
    pods: list[tuple[str, int, int]], who: str | None
) -> None:
    chosen = choose_victim(
        (EvictionCandidate(uid, asked * MIB, used * MIB) for uid, asked, used in pods), LITTLE
    )
    assert (chosen.uid if chosen else None) == who


def test_who_has_more_than_can_be_counted_goes_first() -> None:
    hiding = EvictionCandidate("a", 0, 0, unmeasured=True)
    assert choose_victim([EvictionCandidate("b", 0, 900 * MIB), hiding], LITTLE) == hiding


@pytest.mark.parametrize(
    ("shortage", "used", "goes"),
    [
        (ResourcePressure("ephemeral-storage", 1000 * MIB, ""), 99 * MIB, False),
        (ResourcePressure("ephemeral-storage", 1000 * MIB, ""), 100 * MIB, True),
        (ResourcePressure("ephemeral-storage", 1, ""), MIB - 1, False),
        (ResourcePressure("memory", 50 * MIB, ""), 4 * MIB, False),
        (ResourcePressure("memory", 50 * MIB, ""), 5 * MIB, True),
        (ResourcePressure("inodes", 100_000, ""), 9_999, False),
        (ResourcePressure("inodes", 100_000, ""), 10_000, True),
        (ResourcePressure("inodes", 1, ""), 999, False),
    ],
)
def test_nobody_goes_whose_end_would_not_help(shortage: ResourcePressure, used: int, goes: bool) -> None:
    assert (choose_victim([EvictionCandidate("a", 0, used)], shortage) is not None) == goes


def test_what_is_missing_is_known() -> None:
    assert resource_pressures(replaced(memory=60 * MIB))["MemoryPressure"].missing == 40 * MIB
    assert resource_pressures(replaced(disk=2**29))["DiskPressure"].missing == 2**29
    assert resource_pressures(replaced(files=10_000))["DiskPressure"].missing == 90_000


def test_memory_that_runs_short_costs_one_pod_at_a_time(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene() -> None:
        usage: dict[str, int] = {}
        for name in ("small", "large"):
            pod = await stage.pod({"containers": [app()]}, name)
            usage[f"pods/{pod.uid}"] = 2**20 if name == "small" else 2**30
            await stage.until(is_ready, name)
        monkeypatch.setattr(
            PlainGroup, "usage", lambda self: Usage(working_set_bytes=usage.get(self._name, 0))
        )
        left = [2**20]
        monkeypatch.setattr(
            "pilothouse.node.agent.read_available_resources", lambda folder: replaced(memory=left[0])
        )
        pod = await stage.until(lambda pod: phase(pod) == "Failed", "large")
        left[0] = 2**33
        assert pod.status["reason"] == "Evicted"
        assert "low on resource: memory" in pod.status["message"]
        await asyncio.sleep(60)
        assert is_ready(await stage.get("small"))

    stage.play(scene)


def test_a_disk_that_runs_short_costs_who_keeps_most_there(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene() -> None:
        for name in ("small", "large"):
            pod = await stage.pod({"containers": [app()]}, name)
            await stage.until(is_ready, name)
            stage.volumes.sizes[pod.uid] = MIB * (200 if name == "small" else 400)
        left = [MIB]
        monkeypatch.setattr(
            "pilothouse.node.agent.read_available_resources", lambda folder: replaced(disk=left[0])
        )
        pod = await stage.until(lambda pod: phase(pod) == "Failed", "large")
        left[0] = 2**40
        assert pod.status["reason"] == "Evicted"
        assert (
            "The node was low on resource: ephemeral-storage. Threshold quantity: " in pod.status["message"]
        )
        assert ", available: 1Mi. Pod was using 400Mi, request is 0Mi." in pod.status["message"]
        await asyncio.sleep(60)
        assert is_ready(await stage.get("small"))

    stage.play(scene)


def test_nobody_goes_for_a_disk_that_others_have_filled(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene() -> None:
        pod = await stage.pod({"containers": [app()]})
        stage.volumes.sizes[pod.uid] = 50 * MIB
        await stage.until(is_ready)
        monkeypatch.setattr(
            "pilothouse.node.agent.read_available_resources", lambda folder: replaced(disk=MIB)
        )
        await asyncio.sleep(60)
        assert is_ready(await stage.get())
        assert (await stage.api.get(Node, "n1")).is_true("DiskPressure")

    stage.play(scene)


def test_who_has_most_files_goes_when_inodes_run_short(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        for name, size, files in (("large", 2**30, 10), ("many", MIB, 100_000)):
            pod = await stage.pod({"containers": [app()]}, name)
            await stage.until(is_ready, name)
            stage.volumes.sizes[pod.uid], stage.volumes.files[pod.uid] = size, files
        left = [10]
        monkeypatch.setattr(
            "pilothouse.node.agent.read_available_resources", lambda folder: replaced(files=left[0])
        )
        pod = await stage.until(lambda pod: phase(pod) == "Failed", "many")
        left[0] = 10**6
        assert "low on resource: inodes" in pod.status["message"]
        assert "Pod was using 100000." in pod.status["message"]
        await asyncio.sleep(60)
        assert is_ready(await stage.get("large"))

    stage.play(scene)


def test_nobody_else_goes_before_it_is_seen_what_the_end_of_one_has_brought(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene() -> None:
        for name, size in (("small", 2**29), ("large", 2**30)):
            pod = await stage.pod({"containers": [app()]}, name)
            await stage.until(is_ready, name)
            stage.volumes.sizes[pod.uid] = size
        large = (await stage.get("large")).uid
        stage.volumes.busy = VolumeNotReady("Busy", "the volume is being emptied")

        def left(folder: Path) -> AvailableResources:
            return PLENTY if large in stage.volumes.released else replaced(disk=MIB)

        monkeypatch.setattr("pilothouse.node.agent.read_available_resources", left)
        await stage.until(lambda pod: phase(pod) == "Failed", "large")
        await asyncio.sleep(12)
        stage.volumes.busy = None
        await asyncio.sleep(60)
        assert is_ready(await stage.get("small"))

    stage.play(scene)


def test_pressure_is_a_condition_of_the_node_within_seconds(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene() -> None:
        assert stage.agent is not None
        await stage.agent.registration.registered()
        monkeypatch.setattr(
            "pilothouse.node.agent.read_available_resources", lambda folder: replaced(disk=2**20)
        )
        await asyncio.sleep(11)
        node = await stage.api.get(Node, "n1")
        assert node.is_true("DiskPressure")
        assert "available: 1Mi" in (node.condition("DiskPressure") or {})["message"]
        monkeypatch.setattr("pilothouse.node.agent.read_available_resources", lambda folder: PLENTY)
        await asyncio.sleep(11)
        assert not (await stage.api.get(Node, "n1")).is_true("DiskPressure")

    stage.play(scene)


def test_limits_of_volumes_that_change_are_those_of_running_containers(stage: Stage) -> None:
    async def scene() -> None:
        pod = await stage.pod({"containers": [app()]})
        await stage.until(is_ready)
        slower = (DeviceThrottle("7:0", write_operations=100),)
        stage.volumes.throttled[pod.uid] = slower
        await asyncio.sleep(11)
        assert stage.groups.made[f"pods/{pod.uid}/app"].throttles == slower
        assert len(stage.machine.launches) == 1

    stage.play(scene)
