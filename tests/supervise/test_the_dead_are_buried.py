"""Zombies: orphans come to the shim, or to whoever is PID 1; they are buried, and nobody's exit code is taken."""

from __future__ import annotations

import sys

import pytest
from tests.kit.containers import ENV, Box, zombies_of
from tests.kit.waiting import eventually

from pilothouse.supervise.reaping import PATIENCE, Graves

ORPHANS = "i=0; while [ $i -lt {0} ]; do (true &); i=$((i+1)); done; echo done; read x"

REAPER = """
import asyncio, os, sys
from pilothouse.supervise.reaping import Reaper, become_subreaper, dead
from pilothouse.supervise.shim.descending import children

async def main(count, orphans):
    become_subreaper()
    reaper = Reaper(mine=lambda pid: False)
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
        print("buried", reaper.buried >= orphans, "left", len(dead(children(os.getpid()))), flush=True)

asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
"""


async def no_zombies(pid: int) -> bool:
    return zombies_of(pid) == []


async def test_orphans_of_a_program_are_buried(bare: Box) -> None:
    container = await bare.shell(ORPHANS.format(300), stdin=True)
    await bare.says(container, "done")
    await eventually(lambda: no_zombies(container.state.shim_pid), seconds=5)


@pytest.mark.long
async def test_ten_thousand_short_lived_children_leave_no_zombie(bare: Box) -> None:
    container = await bare.shell(ORPHANS.format(10_000), stdin=True)
    await bare.says(container, "done", seconds=200)
    await eventually(lambda: no_zombies(container.state.shim_pid), seconds=5)
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
async def test_a_reaper_keeps_up_with_ten_thousand(box: Box) -> None:
    await reaper(box, 1000, 10_000)


def test_ones_own_are_never_buried() -> None:
    graves = Graves(mine={7}.__contains__)
    assert graves.due({7, 8}, 0.0) == set()
    assert graves.due({7, 8}, PATIENCE) == {8}
    assert graves.due({7}, 100.0) == set()


def test_a_stranger_gets_a_moment() -> None:
    """It may be the child of a library, which waits for it any instant."""
    graves = Graves(mine=lambda pid: False)
    assert graves.due({8}, 0.0) == set()
    assert graves.due({8}, PATIENCE / 2) == set()
    assert graves.waiting
    assert graves.due(set(), PATIENCE) == set()
    assert not graves.waiting
    assert graves.due({8}, 10.0) == set(), "another with the same number"
