"""kill -9 of whoever starts a container, and of its shim, at every moment of a start: never two, never an orphan, never a lost end."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from pathlib import Path

import pytest
from tests.kit.agents import Agent
from tests.kit.containers import Box, alive_with
from tests.kit.waiting import eventually

from pilothouse.supervise.containers import Container, adopt
from pilothouse.supervise.launch_spec import ContainerExit, LaunchError

ROUNDS = 50 if os.environ.get("PILOTHOUSE_SOAK") == "1" else 5
MOMENTS = (0.0, 0.001, 0.003, 0.006, 0.01, 0.015, 0.02, 0.03, 0.045, 0.07)
"""Seconds after `start` was called. One takes 20 to 60 ms: they fall on all of its steps."""


def program(box: Box, folder: Path) -> tuple[str, ...]:
    return ("/bin/sh", "-c", f"echo started >> {folder}/starts; echo up; while :; do sleep 0.05; done")


async def gone(marker: str) -> bool:
    return alive_with(marker) == []


async def killed_and_taken_over(box: Box, folder: Path, moment: float) -> None:
    """An agent is killed; the next one adopts, or starts if there is nothing to adopt."""
    where = folder / "container"
    launch = box.launch(where, program(box, folder))
    agent = Agent.spawn(where, launch)
    agent.begins()
    await asyncio.sleep(moment)
    agent.kill()
    found = await adopt(where)
    container = await box.run(*launch.argv, folder=where) if found is None else found
    assert isinstance(container, Container)
    await box.says(container, "up")
    assert (folder / "starts").read_text() == "started\n"
    assert (await container.stop(signal.SIGKILL, 0)).code == 137
    await eventually(lambda: gone(str(folder)))
    assert (folder / "starts").read_text() == "started\n"


@pytest.mark.parametrize("moment", MOMENTS)
async def test_an_agent_killed_in_a_start_leaves_one_container(
    box: Box, tmp_path: Path, moment: float
) -> None:
    folder = tmp_path / "once"
    folder.mkdir()
    await killed_and_taken_over(box, folder, moment)


@pytest.mark.long
@pytest.mark.parametrize("round", range(ROUNDS))
async def test_at_any_moment_at_all(box: Box, tmp_path: Path, round: int) -> None:
    chance = random.Random(round)
    for number in range(10):
        folder = tmp_path / f"n{number}"
        folder.mkdir()
        await killed_and_taken_over(box, folder, chance.uniform(0, 0.08))


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_shim_killed_in_a_start_leaves_nothing(box: Box, tmp_path: Path, moment: float) -> None:
    """Whoever carries the folder's name in its command is a shim, or a process on its way to become the program."""
    folder = tmp_path / "container"
    starting = asyncio.ensure_future(box.run(*program(box, tmp_path), folder=folder))
    await asyncio.sleep(moment)
    for pid in alive_with(str(folder)):
        os.kill(pid, signal.SIGKILL)
    try:
        container = await starting
    except LaunchError as error:
        assert error.reason in ("ShimFailed", "StartFailed")  # noqa: PT017 (either way is fine)
    else:
        await container.stop(signal.SIGKILL, 0)
    await eventually(lambda: gone(str(tmp_path)))
    assert not isinstance(await adopt(folder), Container)


async def test_a_killed_shim_takes_its_program_along(box: Box, tmp_path: Path) -> None:
    container = await box.run(*program(box, tmp_path))
    await box.says(container, "up")
    os.kill(container.state.shim_pid, signal.SIGKILL)
    async with asyncio.timeout(60):
        exit = await container.exited()
    assert (exit.code, exit.signal, exit.lost) == (137, 9, True)
    await eventually(lambda: gone(str(tmp_path)))
    assert await adopt(container.folder) == exit, "it is told the same for ever"


async def test_signals_to_a_shim_do_not_move_it(box: Box) -> None:
    container = await box.shell("echo up; read x; exit 3", stdin=True)
    await box.says(container, "up")
    for number in (
        signal.SIGTERM,
        signal.SIGINT,
        signal.SIGHUP,
        signal.SIGQUIT,
        signal.SIGUSR1,
        signal.SIGUSR2,
    ):
        os.kill(container.state.shim_pid, number)
    attached = await container.attach()
    await attached.send(b"x\n")
    assert (await container.exited()).code == 3
    await attached.aclose()


async def test_what_ends_while_nobody_looks_is_remembered(box: Box, tmp_path: Path) -> None:
    folder = tmp_path / "container"
    script = f"echo before; while ! test -e {tmp_path}/go; do sleep 0.02; done; echo after; exit 5"
    agent = Agent.spawn(folder, box.launch(folder, ("/bin/sh", "-c", script)))
    agent.begins()
    said, pid = agent.hears()
    assert said == "started"
    agent.kill()
    found = await adopt(folder)
    assert isinstance(found, Container)
    assert found.pid == int(pid)
    (tmp_path / "go").touch()

    async def ended() -> ContainerExit | None:
        exit = await adopt(folder)
        return exit if isinstance(exit, ContainerExit) else None

    exit = await eventually(ended)
    assert (exit.code, exit.lost) == (5, False)
    assert exit.started == found.started
    assert box.output(found) == ["before", "after"]


async def test_where_nothing_was_started_there_is_nothing(tmp_path: Path) -> None:
    assert await adopt(tmp_path / "no-such-folder") is None
    (tmp_path / "empty").mkdir()
    assert await adopt(tmp_path / "empty") is None


async def test_a_recycled_pid_is_not_adopted(bare: Box) -> None:
    """The record names a pid that now is another's: it is neither taken for the container nor harmed."""
    container = await bare.shell("sleep 1000; :")
    await container.stop(signal.SIGKILL, 0)
    folder = container.folder
    other = await bare.shell("echo up; read x", stdin=True)
    state = (folder / "state.json").read_text()
    for old, new in ((container.pid, other.pid), (container.state.shim_pid, other.state.shim_pid)):
        state = state.replace(f'pid":{old},', f'pid":{new},')
    (folder / "state.json").write_text(state)
    (folder / "exit.json").unlink()
    exit = await adopt(folder)
    assert isinstance(exit, ContainerExit)
    assert exit.lost
    assert isinstance(await adopt(other.folder), Container)
    os.kill(other.pid, 0)


async def test_a_pid_of_an_earlier_boot_is_not_adopted(bare: Box) -> None:
    """After the machine was started again, the same pid may even have begun at the same tick."""
    container = await bare.shell("echo up; read x", stdin=True)
    elsewhere = container.folder.with_name("earlier")
    elsewhere.mkdir()
    state = (container.folder / "state.json").read_text().replace(container.state.boot, "another-boot")
    (elsewhere / "state.json").write_text(state)
    exit = await adopt(elsewhere)
    assert isinstance(exit, ContainerExit)
    assert exit.lost
    os.kill(container.pid, 0)


async def test_records_that_a_power_cut_left_empty_tell_that_something_was_lost(tmp_path: Path) -> None:
    (tmp_path / "state.json").touch()
    (tmp_path / "exit.json").touch()
    exit = await adopt(tmp_path)
    assert isinstance(exit, ContainerExit)
    assert (exit.code, exit.lost) == (137, True)
    assert await adopt(tmp_path) == exit


async def test_a_copy_of_its_folder_is_not_the_container(box: Box, tmp_path: Path) -> None:
    """As when a data folder is copied: what runs is the original's, and nothing done to the copy ends it."""
    folder, copy = tmp_path / "container", tmp_path / "copy"
    container = await box.run(*program(box, tmp_path), folder=folder)
    await box.says(container, "up")
    copying = await asyncio.create_subprocess_exec("cp", "-a", folder, copy)
    assert await copying.wait() == 0
    found = await adopt(copy)
    assert isinstance(found, ContainerExit)
    assert found.lost
    again = await adopt(folder)
    assert isinstance(again, Container)
    assert again.pid == container.pid
    assert not (await container.stop(signal.SIGKILL, 0)).lost
