from __future__ import annotations

import asyncio
import fcntl
import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from tests.kit.control_planes import UpPlane

from pilothouse.app import up_state
from pilothouse.app.down_command import NotDown, bring_down
from pilothouse.app.status_report import look
from pilothouse.app.up_state import AlreadyRunning, FolderHolder, ToldToStop, UpReport
from pilothouse.supervise.process_identity import identify


@pytest.fixture
def lock(tmp_path: Path) -> Iterator[int]:
    """Of a folder that somebody has, who has not said who."""
    descriptor = os.open(tmp_path / "up.lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    yield descriptor
    with suppress(OSError):
        os.close(descriptor)


@pytest.fixture
def sleepers() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Two processes that end when they are told to."""
    both = [subprocess.Popen(["sleep", "600"]) for _ in range(2)]
    yield both
    for one in both:
        one.kill()
        one.wait()


def say(lock: int, process: subprocess.Popen[bytes]) -> None:
    os.ftruncate(lock, 0)
    os.pwrite(lock, msgspec.json.encode(FolderHolder(identify(process.pid))), 0)


def test_an_up_that_has_only_just_begun_is_stopped(tmp_path: Path) -> None:
    plane = UpPlane(tmp_path)
    process = plane.begin()
    try:
        process.wait_until(lambda: up_state.holder(plane.data) is not None, seconds=60)
        done = plane.run("down")
        assert (done.returncode, done.stdout) == (0, "down\n"), done.stderr
        # It has let go of the folder, which is the last that it does.
        assert process.popen.wait(60) == 0, plane.output
        assert "Pilothouse is up" not in plane.output
        assert up_state.holder(plane.data) is None
    finally:
        plane.down()


async def test_who_has_not_said_who_it_is_is_told_once_it_has(
    tmp_path: Path, lock: int, sleepers: list[subprocess.Popen[bytes]]
) -> None:
    assert look(tmp_path, 0.0).up
    downing = asyncio.create_task(asyncio.to_thread(bring_down, tmp_path, keep=False, patience=60, say=print))
    say(lock, sleepers[0])
    await asyncio.to_thread(sleepers[0].wait, 60)
    assert not downing.done(), "what it left behind still has the folder"
    os.close(lock)
    assert await downing == "down"
    assert sleepers[1].poll() is None


def test_one_that_was_killed_is_not_shown_as_running(
    tmp_path: Path, lock: int, sleepers: list[subprocess.Popen[bytes]]
) -> None:
    killed = sleepers[0]
    say(lock, killed)
    up_state.write(tmp_path, UpReport(killed.pid, 0.0, "https://127.0.0.1:1", "n1", False, 1.0, ()))
    assert look(tmp_path, 1.0).roles[0][:2] == ("up", "running")
    killed.kill()
    killed.wait()
    seen = look(tmp_path, 1.0)
    assert (seen.up, seen.roles) == (False, ())
    assert f"`pilothouse up` on {tmp_path} was killed" in seen.headline
    assert f"`pilothouse down --data {tmp_path}` stops them" in seen.headline


async def test_another_up_that_takes_the_folder_meanwhile_is_told_of(
    tmp_path: Path, lock: int, sleepers: list[subprocess.Popen[bytes]]
) -> None:
    first, second = sleepers
    say(lock, first)
    downing = asyncio.create_task(asyncio.to_thread(bring_down, tmp_path, keep=False, patience=60, say=print))
    await asyncio.to_thread(first.wait, 60)
    say(lock, second)
    with pytest.raises(NotDown, match=f"another `pilothouse up`, process {second.pid}, uses {tmp_path} now"):
        await downing
    assert second.poll() is None


def test_what_does_not_end_is_named(tmp_path: Path, lock: int) -> None:
    with pytest.raises(
        NotDown, match=f"the processes of `pilothouse up` on {tmp_path} did not stop within 0.1 s"
    ):
        bring_down(tmp_path, keep=False, patience=0.1, say=print)


async def test_nobody_takes_a_folder_in_which_pods_are_being_ended(tmp_path: Path) -> None:
    (tmp_path / "up.lock").touch()
    with up_state.free(tmp_path) as free:
        assert free
        with pytest.raises(AlreadyRunning, match=r"did not end within 0\.1 s"):
            async with up_state.held(tmp_path, keep=False, patience=0.1, stop=asyncio.Event()):
                pass


async def test_who_waits_for_the_folder_hears_that_it_is_to_stop(tmp_path: Path, lock: int) -> None:
    stop, waiting = asyncio.Event(), asyncio.Event()

    async def take() -> None:
        waiting.set()
        async with up_state.held(tmp_path, keep=False, patience=600, stop=stop):
            pass

    taking = asyncio.create_task(take())
    await waiting.wait()
    stop.set()
    with pytest.raises(ToldToStop):
        async with asyncio.timeout(60):
            await taking


def test_two_who_look_do_not_take_each_other_for_an_up(tmp_path: Path) -> None:
    (tmp_path / "up.lock").touch()
    looker = os.open(tmp_path / "up.lock", os.O_RDWR)
    fcntl.flock(looker, fcntl.LOCK_SH)
    try:
        assert up_state.holder(tmp_path) is None
        assert "nothing is running" in look(tmp_path, 0.0).headline
    finally:
        os.close(looker)
