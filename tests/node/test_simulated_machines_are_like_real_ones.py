"""The machine that virtual-time suites play on is held to the same cases as the real one."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.kit.fake_machine import Answer, FakeMachine, FakeProgram

from pilothouse.base.clock import SystemClock
from pilothouse.supervise import containers
from pilothouse.supervise.launch_spec import ContainerExit, LaunchError, LaunchSpec, LogPolicy

Case = tuple[Any, Callable[[str], Path], Callable[[Path, str], LaunchSpec]]

SCRIPTS = {
    "well": "exit 0",
    "failing": "exit 3",
    "lasting": "trap 'exit 5' TERM; while :; do sleep 0.02; done",
    "deaf": "trap '' TERM; while :; do sleep 0.02; done",
}
PLAYS = {
    "well": FakeProgram(runs=0.0),
    "failing": FakeProgram(runs=0.0, code=3),
    "lasting": FakeProgram(stop_code=5),
    "deaf": FakeProgram(stops_in=None),
    "missing": FakeProgram(refuses="no such program"),
}


@pytest.fixture(params=["played", "real"])
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Case:
    """A machine, where its containers are, and how a program is launched."""
    machine: Any = containers
    if request.param == "played":
        machine = FakeMachine(SystemClock(), cast=dict(PLAYS))
        machine.answer("lasting", ("sh", "-c", "echo out; exit 4"), lambda: Answer(4, "out\n"))
        machine.answer("lasting", ("/no/such/program",), lambda: Answer(refuses="no such program"))

    def folder(name: str) -> Path:
        return tmp_path / name / "0"

    def launch(folder: Path, name: str) -> LaunchSpec:
        argv = ("sh", "-c", SCRIPTS[name]) if name in SCRIPTS else ("/no/such/program",)
        env = {"PATH": "/usr/bin:/bin"}
        return LaunchSpec(argv=argv, env=env, log=LogPolicy(str(folder / "log")))

    return machine, folder, launch


@pytest.mark.parametrize(("name", "code"), [("well", 0), ("failing", 3)])
async def test_a_program_ends_with_its_code(case: Case, name: str, code: int) -> None:
    machine, folder, launch = case
    container = await machine.start(folder(name), launch(folder(name), name))
    ended = await container.exited()
    assert (ended.code, ended.signal, ended.oom) == (code, None, False)
    assert ended.started <= ended.finished


async def test_one_that_listens_stops_when_asked(case: Case) -> None:
    machine, folder, launch = case
    container = await machine.start(folder("lasting"), launch(folder("lasting"), "lasting"))
    # A shell that is not up yet has no trap.
    await (await container.enter(("sh", "-c", "sleep 0.3"))).exited()
    assert (await container.stop(signal.SIGTERM, 10)).code == 5


async def test_one_that_does_not_is_killed(case: Case) -> None:
    machine, folder, launch = case
    container = await machine.start(folder("deaf"), launch(folder("deaf"), "deaf"))
    await (await container.enter(("sh", "-c", "sleep 0.3"))).exited()
    ended = await container.stop(signal.SIGTERM, 0.2)
    assert (ended.code, ended.signal) == (137, signal.SIGKILL)


async def test_what_runs_is_adopted(case: Case) -> None:
    machine, folder, launch = case
    container = await machine.start(folder("lasting"), launch(folder("lasting"), "lasting"))
    adopted = await machine.adopt(folder("lasting"))
    assert not isinstance(adopted, ContainerExit)
    assert (adopted.pid, adopted.started) == (container.pid, container.started)
    await adopted.stop(signal.SIGKILL, 0)


async def test_what_has_ended_is_known(case: Case) -> None:
    machine, folder, launch = case
    await (await machine.start(folder("failing"), launch(folder("failing"), "failing"))).exited()
    ended = await machine.adopt(folder("failing"))
    assert isinstance(ended, ContainerExit)
    assert ended.code == 3


async def test_what_was_never_started_is_not(case: Case) -> None:
    machine, folder, _ = case
    assert await machine.adopt(folder("well")) is None


async def test_a_folder_is_started_once(case: Case) -> None:
    machine, folder, launch = case
    first = await machine.start(folder("lasting"), launch(folder("lasting"), "lasting"))
    second = await machine.start(folder("lasting"), launch(folder("lasting"), "lasting"))
    assert second.pid == first.pid
    await second.stop(signal.SIGKILL, 0)


async def test_a_program_that_is_not_there_is_refused(case: Case) -> None:
    machine, folder, launch = case
    with pytest.raises(LaunchError, match=r"(?i)no such"):
        await machine.start(folder("missing"), launch(folder("missing"), "missing"))
    assert await machine.adopt(folder("missing")) is None


async def test_another_program_runs_inside(case: Case) -> None:
    machine, folder, launch = case
    container = await machine.start(folder("lasting"), launch(folder("lasting"), "lasting"))
    entered = await container.enter(("sh", "-c", "echo out; exit 4"))
    assert await entered.stdout.read() == b"out\n"
    assert await entered.exited() == 4
    await entered.close()
    await container.stop(signal.SIGKILL, 0)


async def test_one_that_is_not_there_is_not_run_inside(case: Case) -> None:
    machine, folder, launch = case
    container = await machine.start(folder("lasting"), launch(folder("lasting"), "lasting"))
    with pytest.raises(LaunchError, match=r"(?i)no such"):
        await container.enter(("/no/such/program",))
    await container.stop(signal.SIGKILL, 0)
