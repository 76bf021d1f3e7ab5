from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.kit.fake_machine import Answer, FakeMachine, FakeProgram
from tests.node.stage import Stage, app, is_ready

from pilothouse.api.kind_names import Pod
from pilothouse.api.objects import Object
from pilothouse.base.clock import SystemClock
from pilothouse.node.addresses.address_records import AddressRecord, AddressRecords
from pilothouse.node.machine.shutdown import end_pods
from pilothouse.node.pods.pod_directories import PodDirectory
from pilothouse.node.volumes.mount_table import mount, mounts, under, unmount_below
from pilothouse.supervise.containers import StillRunning
from pilothouse.supervise.launch_spec import LaunchSpec, LogPolicy


def test_one_that_hangs_keeps_no_other_from_ending_in_its_own_time(stage: Stage) -> None:
    async def scene() -> None:
        stage.machine.cast["stuck"] = FakeProgram(hangs=True)
        stage.machine.cast["slow"] = FakeProgram(stops_in=25.0)
        await stage.pod({"terminationGracePeriodSeconds": 1, "containers": [app("stuck")]}, "web-0")
        await stage.pod({"terminationGracePeriodSeconds": 60, "containers": [app("slow")]}, "web-1")
        await stage.until(is_ready, "web-0")
        await stage.until(is_ready, "web-1")
        await stage.kill_agent()
        [slow] = stage.machine.named("slow")
        with pytest.raises(StillRunning, match="has not ended"):
            await end_pods(stage.settings.data, stage.machine, stage.clock, patience=120)
        assert slow.ended is not None
        assert (slow.ended.code, slow.ended.signal) == (0, None)
        assert [each.name for each in stage.machine.running] == ["stuck"]

    stage.play(scene)


def test_an_end_that_was_ordered_is_no_crash(stage: Stage) -> None:
    """Five times down and up in a row, as with an update of the machine: the program is started at once each time."""

    async def scene() -> None:
        await stage.pod({"containers": [app("db")]}, "web-0")
        for times in range(5):
            pod = await stage.until(is_ready, "web-0")
            [status] = pod.status["containerStatuses"]
            assert status["restartCount"] == times
            await stage.kill_agent()
            await end_pods(stage.settings.data, stage.machine, stage.clock, patience=120)
            before = stage.clock.now()
            stage.start_agent()

            def is_restarted(one: Object, times: int = times) -> bool:
                return bool(is_ready(one) and one.status["containerStatuses"][0]["restartCount"] > times)

            await stage.until(is_restarted, "web-0")
            assert stage.clock.now() - before < 9, "there was no pause"

    stage.play(scene)


def test_whatever_a_hook_or_a_pods_record_brings_about_every_container_is_stopped(stage: Stage) -> None:
    def breaks() -> Answer:
        raise ValueError("Invalid IPv6 URL")

    async def scene() -> None:
        stage.machine.answer("web", ("bye",), breaks)
        hook = {"preStop": {"exec": {"command": ["bye"]}}}
        hooked = {"containers": [app("web", lifecycle=hook), app("beside")]}
        await stage.pod({"terminationGracePeriodSeconds": 20, **hooked}, "web-0")
        await stage.pod({"containers": [app("db"), app("log")]}, "db-0")
        await stage.until(is_ready, "web-0")
        database = await stage.until(is_ready, "db-0")
        await stage.kill_agent()
        record = stage.settings.pods / database.uid / "pod.json"
        tree = json.loads(record.read_bytes())
        tree["spec"]["containers"] = [{"image": "app:1"}]  # Nothing in here has a name any more.
        record.write_text(json.dumps(tree))
        assert await end_pods(stage.settings.data, stage.machine, stage.clock, patience=120) == 4
        assert not stage.machine.running
        [web] = stage.machine.named("web")
        assert [number for _, number in web.signals] == [15], "its program was told to stop in its own time"

    stage.play(scene)


def test_a_hook_without_host_is_asked_at_the_pods_address(tmp_path: Path) -> None:
    address = "127.83.41.7"

    async def scene() -> list[str]:
        heads: list[str] = []

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            writer.close()

        async with await asyncio.start_server(answer, address, 0) as server:
            port = server.sockets[0].getsockname()[1]
            hook: dict[str, Any] = {"preStop": {"httpGet": {"path": "/bye", "port": port}}}
            pod = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "web", "namespace": "default", "uid": "u"},
                "spec": {"terminationGracePeriodSeconds": 20, "containers": [app("web", lifecycle=hook)]},
            }
            folder = PodDirectory(tmp_path / "pods" / "u")
            folder.write_pod(Object(Pod, pod))
            AddressRecords(entries={"u": AddressRecord(address, "default/web")}).write(
                tmp_path / "addresses.json"
            )
            machine = FakeMachine(SystemClock())
            await machine.start(
                folder.container("web").begin(0), LaunchSpec(argv=("run",), log=LogPolicy(path="log"))
            )
            assert await end_pods(tmp_path, machine, SystemClock(), patience=20) == 1
            assert not machine.running
        return heads

    [head] = asyncio.run(scene())
    assert head.startswith("GET /bye HTTP/1.1")


@pytest.mark.skipif(os.geteuid() != 0, reason="it mounts, which only root may")
async def test_volumes_of_tiers_elsewhere_are_unmounted_too_and_nobody_elses(tmp_path: Path) -> None:
    node, tier = tmp_path / "node", tmp_path / "tier"
    node.mkdir()
    for name, data in (("pvc-1", node), ("pvc-2", tmp_path / "another")):
        folder = tier / name
        (folder / "mount").mkdir(parents=True)
        owner = {"cluster": "5f0c", "node": "n1", "data": str(data)}
        (folder / "owner.json").write_text(json.dumps(owner))
        mount("tmpfs", folder / "mount", "tmpfs")
    try:
        await end_pods(node, FakeMachine(SystemClock()), SystemClock(), patience=1)
        assert [each.target.parent.name for each in under(mounts(), tier)] == ["pvc-2"]
    finally:
        unmount_below(tier)
