"""Cgroups on this machine, as far as it lets us: memory, processes, and what it counts."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.kit.containers import Box, alive_with

from pilothouse.supervise.cgroup_settings import DeviceThrottle, Limits
from pilothouse.supervise.cgroups import Cgroup, Cgroups, find

MIB = 1 << 20


@pytest.fixture
async def cgroups() -> AsyncIterator[Cgroups]:
    found = find(f"pilothouse-test-{uuid.uuid4().hex[:8]}")
    yield found
    await found.group(".").remove()


@pytest.fixture
def group(cgroups: Cgroups) -> Cgroup:
    for controller in ("memory", "pids", "cpu"):
        if controller in cgroups.unavailable:
            pytest.skip(f"{controller} can't be limited here: {cgroups.unavailable[controller]}")
    return cgroups.group("pods/one/db")


async def test_memory_that_is_used_up_is_told(box: Box, group: Cgroup) -> None:
    assert group.make(Limits(memory=48 * MIB)) == ()
    container = await box.shell("head -c 200000000 /dev/zero | tail", cgroups=group.folders)
    exit = await container.exited()
    assert exit.oom
    assert group.usage().oom_kills


async def test_one_within_its_memory_is_not_called_out_of_it(box: Box, group: Cgroup) -> None:
    group.make(Limits(memory=256 * MIB))
    container = await box.shell("kill -9 $$", cgroups=group.folders)
    assert not (await container.exited()).oom


async def test_what_happened_before_is_not_held_against_the_next(box: Box, group: Cgroup) -> None:
    group.make(Limits(memory=48 * MIB))
    await (await box.shell("head -c 200000000 /dev/zero | tail", cgroups=group.folders)).exited()
    assert not (await (await box.shell("exit 0", cgroups=group.folders)).exited()).oom


UNREAD = """
import socket
listening = socket.create_server(("127.0.0.1", 0))
held, sent = [], 0
for _ in range(40):
    one = socket.create_connection(listening.getsockname())
    one.setblocking(False)
    held += [one, listening.accept()[0]]
    try:
        while True:
            sent += one.send(bytes(1 << 16))
    except BlockingIOError:
        pass
print(sent)
"""


async def test_what_lies_unread_in_connections_counts_as_memory(box: Box, group: Cgroup) -> None:
    """With both versions: in the first, the kernel counts it apart, and leaves it unlimited unless it is told."""
    group.make(Limits(memory=48 * MIB))
    container = await box.run(sys.executable, "-S", "-c", UNREAD, cgroups=group.folders)
    exit = await container.exited()
    if not exit.oom:
        assert int(box.output(container)[0]) < 64 * MIB


async def test_a_fork_bomb_is_contained(box: Box, group: Cgroup, tmp_path: Path) -> None:
    group.make(Limits(pids=40))
    marker = f"{tmp_path}/marker"
    bomb = "bomb() { bomb | bomb & }; bomb; echo lit; exec sleep 1000"
    container = await box.run(
        "/bin/sh", "-c", bomb, cgroups=group.folders, env={"PATH": "/bin", "MARK": marker}
    )
    await asyncio.sleep(0.3)
    assert (group.usage().processes or 0) <= 40
    async with asyncio.timeout(20):
        assert (await container.stop(signal.SIGKILL, 0)).code == 137
    assert alive_with(marker) == []


def test_all_groups_together_weigh_as_much_as_is_said(cgroups: Cgroups, group: Cgroup) -> None:
    cgroups.weigh(4)
    group.make(Limits(cpu_request=0.5))
    [(name, four, half)] = [
        (file, four, half)
        for file, four, half in (("cpu.shares", "4096", "512"), ("cpu.weight", "157", "20"))
        if any(Path(folder, file).exists() for folder in group.folders)
    ]
    [mine] = [Path(folder, name) for folder in group.folders if Path(folder, name).exists()]
    assert mine.read_text().strip() == half
    assert (mine.parents[3] / name).read_text().strip() == four


async def test_what_is_killed_has_the_processors_to_end_on(box: Box, group: Cgroup) -> None:
    group.make(Limits(cpu=0.01, pids=100))
    crowd = "for i in $(seq 50); do while :; do :; done & done; echo up; wait"
    container = await box.shell(crowd, cgroups=group.folders)
    await container.stop(signal.SIGKILL, 0)
    assert _quota(group) in ("-1", "max")
    # The next one in the same group is held to its share again.
    group.make(Limits(cpu=0.01))
    assert _quota(group) == "1000"


async def test_it_is_counted_from_its_first_instruction(box: Box, group: Cgroup) -> None:
    group.make(Limits())
    container = await box.shell("echo up; read x", stdin=True, cgroups=group.folders)
    await box.says(container, "up")
    assert b"/pods/one/db" in Path(f"/proc/{container.pid}/cgroup").read_bytes()  # noqa: ASYNC240
    usage = group.usage()
    assert usage.processes == 1
    assert usage.memory_bytes
    assert usage.cpu_seconds
    shim = Path(f"/proc/{container.state.shim_pid}/cgroup").read_bytes()  # noqa: ASYNC240
    assert b"/pods/one/db" not in shim, "the shim's memory is not the container's"


async def test_what_runs_inside_is_counted_too(box: Box, group: Cgroup) -> None:
    group.make(Limits())
    container = await box.run("sleep", "1000", cgroups=group.folders)
    entered = await container.enter(["sleep", "1000"])
    assert (group.usage().processes or 0) >= 2
    await entered.close()


async def test_limits_can_be_changed_and_taken_back(group: Cgroup) -> None:
    for limits in (
        Limits(memory=64 * MIB, cpu=0.5),
        Limits(memory=512 * MIB, cpu=2, pids=10),
        Limits(),
        Limits(memory=MIB),
    ):
        assert group.make(limits) == ()


async def test_what_is_refused_is_told(group: Cgroup) -> None:
    (complaint,) = group.make(Limits(throttles=(DeviceThrottle("no such device", write_operations=5),)))
    assert complaint.startswith("I/O of device no such device is not enforced: ")


async def test_removing_kills_what_is_left(box: Box, group: Cgroup, tmp_path: Path) -> None:
    group.make(Limits())
    container = await box.run("sleep", "1000", cgroups=group.folders)
    await group.remove()
    assert (await container.exited()).code == 137
    assert not any(map(os.path.exists, group.folders))
    await group.remove()


def _quota(group: Cgroup) -> str:
    """Of the processors' time, in the dialect of this machine."""
    files = (Path(folder) / file for folder in group.folders for file in ("cpu.cfs_quota_us", "cpu.max"))
    [found] = {file.read_text().split()[0] for file in files if file.exists()}
    return found
