"""Zombies: orphans come to the shim, or to whoever is PID 1; they are buried, and nobody's exit code is taken."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from tests.kit.containers import ENV, Box, zombies_of
from tests.kit.waiting import eventually

from pilothouse.supervise.zombie_reaper import CLAIM_SECONDS, UnclaimedZombies, pidfd_pids

MANY = 10_000 if os.environ.get("PILOTHOUSE_SOAK") else 2_000
ORPHANS = "i=0; while [ $i -lt {0} ]; do (true &); i=$((i+1)); done; echo done; read x"

REAPER = """
import asyncio, os, sys
from pilothouse.supervise.zombie_reaper import Reaper, become_subreaper, zombies
from pilothouse.supervise.shim.process_tree import children

async def main(count, orphans):
    become_subreaper()
    reaper = Reaper()
    async with reaper.running():
        for number in range(count):
            child = await asyncio.create_subprocess_exec("/bin/sh", "-c", f"(true &); exit {number % 256}")
            code = await child.wait()
            assert code == number % 256, (number, code)
        flood = await asyncio.create_subprocess_exec(
            "/bin/sh", "-c", f"i=0; while [ $i -lt {orphans} ]; do (true &); i=$((i+1)); done; exit 77"
        )
        assert await flood.wait() == 77
        while children(os.getpid()):
            await asyncio.sleep(0.05)
        print("buried", reaper.reaped >= orphans, "left", len(zombies(children(os.getpid()))), flush=True)

asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
"""


async def no_zombies(pid: int) -> bool:
    return zombies_of(pid) == []


async def test_orphans_of_a_program_are_buried(bare: Box) -> None:
    container = await bare.shell(ORPHANS.format(300), stdin=True)
    await bare.says(container, "done")
    await eventually(lambda: no_zombies(container.state.shim_pid), seconds=60)


@pytest.mark.long
async def test_thousands_of_short_lived_children_leave_no_zombie(bare: Box) -> None:
    container = await bare.shell(ORPHANS.format(MANY), stdin=True)
    await bare.says(container, "done", seconds=200)
    await eventually(lambda: no_zombies(container.state.shim_pid), seconds=60)
    assert zombies_of(container.pid) == []


async def reaper(box: Box, count: int, orphans: int) -> None:
    env = ENV | {"PYTHONPATH": ":".join(filter(None, sys.path))}
    container = await box.run(sys.executable, "-c", REAPER, str(count), str(orphans), env=env)
    exit = await container.exited()
    assert (exit.code, box.output(container, "stderr")) == (0, [])
    assert box.output(container) == ["buried True left 0"]


async def test_a_reaper_buries_strangers_and_steals_no_exit_code(box: Box) -> None:
    """In the view it is PID 1 itself, else a subreaper."""
    await reaper(box, 60, 200)


@pytest.mark.long
async def test_a_reaper_keeps_up_with_thousands(box: Box) -> None:
    await reaper(box, MANY // 10, MANY)


HELD_UP = """
import asyncio, os, subprocess, time
from pilothouse.supervise.zombie_reaper import CLAIM_SECONDS, Reaper, zombies
from pilothouse.supervise.shim.process_tree import children

async def main():
    reaper = Reaper()
    async with reaper.running():
        # It ends only once asyncio's last turn is over.
        end, go = os.pipe()
        ours = await asyncio.create_subprocess_exec("/bin/sh", "-c", "read go; exit 77", stdin=end)
        os.write(go, b"\\n")
        stranger = subprocess.Popen(["/bin/sh", "-c", "exit 78"])
        # Nothing but looks, for as long as somebody may take to wait for a child: asyncio has no turn.
        while zombies(children(os.getpid())) != {ours.pid, stranger.pid}:
            pass
        end = time.monotonic() + 2 * CLAIM_SECONDS
        while time.monotonic() < end or stranger.pid in zombies(children(os.getpid())):
            reaper.reap()
        assert reaper.reaped == 1, reaper.reaped
        assert await ours.wait() == 77

asyncio.run(main())
"""


async def test_however_slow_asyncio_is_its_children_are_its_own(box: Box) -> None:
    env = ENV | {"PYTHONPATH": ":".join(filter(None, sys.path))}
    container = await box.run(sys.executable, "-c", HELD_UP, env=env)
    exit = await container.exited()
    assert (exit.code, box.output(container, "stderr")) == (0, [])


def test_whoever_has_a_descriptor_waits() -> None:
    child = subprocess.Popen(["true"])
    descriptor = os.pidfd_open(child.pid)
    try:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert child.pid in pidfd_pids()
    finally:
        os.close(descriptor)
    assert child.pid not in pidfd_pids()
    assert child.wait() == 0


def test_a_stranger_gets_a_moment() -> None:
    """It may be the child of a library, which waits for it any instant."""
    graves = UnclaimedZombies()
    assert graves.due({8}, 0.0) == set()
    assert graves.due({8}, CLAIM_SECONDS / 2) == set()
    assert graves.waiting
    assert graves.due({8}, CLAIM_SECONDS) == {8}
    assert graves.due(set(), CLAIM_SECONDS) == set()
    assert not graves.waiting
    assert graves.due({8}, 10.0) == set(), "another with the same number"
