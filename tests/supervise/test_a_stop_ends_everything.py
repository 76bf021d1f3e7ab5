"""Stop signal, grace, kill; and what the kernel does with signals to a first process."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest
from tests.kit.containers import Box, alive_with
from tests.kit.waiting import eventually

from pilothouse.supervise.containers import Container

LONG = 600.0
"""A grace that no test waits for."""


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGHUP]
)
async def test_the_stop_signal_reaches_its_handler(box: Box, number: signal.Signals) -> None:
    container = await box.shell(
        f"trap 'echo got {number.name}; exit 7' {number.name.removeprefix('SIG')}; echo up; while :; do sleep 0.05; done"
    )
    await box.says(container, "up")
    exit = await container.stop(number, LONG)
    assert (exit.code, exit.signal) == (7, None)
    assert box.output(container) == ["up", f"got {number.name}"]


async def test_a_signal_that_ends_it_is_told(bare: Box) -> None:
    container = await bare.run("sleep", "1000")
    exit = await container.stop(signal.SIGTERM, LONG)
    assert (exit.code, exit.signal) == (143, 15)


async def test_a_first_process_without_a_handler_does_not_hear_signals(views: Box) -> None:
    """As in Kubernetes: the kernel keeps signals from a PID 1 that has no handler for them; the grace runs out."""
    container = await views.run("sleep", "1000")
    exit = await container.stop(signal.SIGTERM, 0.2)
    assert (exit.code, exit.signal) == (137, 9)


async def test_one_that_is_still_starting_is_asked_when_it_can_hear(views: Box) -> None:
    """A pod that is deleted right after its start: the kernel drops what its first process has no handler for yet."""
    container = await views.shell("sleep 0.3; trap 'echo got it; exit 7' TERM; while :; do sleep 0.05; done")
    exit = await container.stop(signal.SIGTERM, LONG)
    assert (exit.code, exit.signal) == (7, None)
    assert views.output(container) == ["got it"]


async def test_one_that_is_still_starting_is_asked_once(views: Box) -> None:
    container = await views.shell("trap 'echo got it' TERM; echo up; sleep 2; exit 3")
    await views.says(container, "up")
    exit = await container.stop(signal.SIGTERM, LONG)
    assert exit.code == 3
    assert views.output(container) == ["up", "got it"]


async def test_one_that_does_not_listen_is_killed_after_its_grace(box: Box) -> None:
    container = await box.shell("trap 'echo no' TERM; echo up; while :; do sleep 0.05; done")
    await box.says(container, "up")
    exit = await container.stop(signal.SIGTERM, 0.3)
    assert (exit.code, exit.signal) == (137, 9)
    assert "no" in box.output(container)


async def test_without_grace_it_is_killed_unasked(box: Box) -> None:
    container = await box.shell("trap 'echo asked' TERM; echo up; while :; do sleep 0.05; done")
    await box.says(container, "up")
    assert (await container.stop(signal.SIGTERM, 0)).code == 137
    assert box.output(container) == ["up"]


async def test_a_stopped_process_is_killed_all_the_same(box: Box) -> None:
    container = await box.shell("trap 'exit 0' TERM; echo up; while :; do sleep 0.05; done")
    await box.says(container, "up")
    container.kill(signal.SIGSTOP)
    exit = await container.stop(signal.SIGTERM, 0.2)
    assert (exit.code, exit.signal) == (137, 9)


async def test_a_stopped_shim_is_woken_to_tell(box: Box, tmp_path: Path) -> None:
    marker = f"{tmp_path}/marker"
    container = await box.shell("sleep 1000; :", env={"PATH": "/bin", "MARK": marker})
    os.kill(container.state.shim_pid, signal.SIGSTOP)
    exit = await container.stop(signal.SIGTERM, 0)
    assert (exit.code, exit.lost) == (137, False)
    assert alive_with(marker) == []


async def test_a_second_stop_hastens_the_first(box: Box) -> None:
    container = await box.shell("trap '' TERM; echo up; while :; do sleep 0.05; done")
    await box.says(container, "up")
    patient = asyncio.ensure_future(container.stop(signal.SIGTERM, LONG))
    assert (await container.stop(signal.SIGTERM, 0.1)).code == 137
    async with asyncio.timeout(60):
        assert (await patient).code == 137


async def test_a_stop_of_what_has_ended_tells_how_it_did(box: Box) -> None:
    container = await box.shell("exit 5")
    await container.exited()
    assert (await container.stop(signal.SIGTERM, LONG)).code == 5
    container.kill(signal.SIGTERM)


async def test_a_stop_that_is_given_up_leaves_it_running(box: Box) -> None:
    container = await box.shell("trap '' TERM; echo up; while :; do sleep 0.05; done; echo unreachable")
    await box.says(container, "up")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await container.stop(signal.SIGTERM, LONG)
    async with asyncio.timeout(60):
        assert (await container.stop(signal.SIGTERM, 0)).code == 137


async def test_daemons_and_runaways_go_with_it(box: Box, tmp_path: Path) -> None:
    """Sessions of their own, ignored signals, forks upon forks: whoever descends from it."""
    marker = f"{tmp_path}/marker"
    container = await box.shell(
        "for i in 1 2 3; do (setsid sh -c 'trap \"\" TERM HUP; setsid sleep 1000 & sleep 1000' &); done; echo up; exec sleep 1000",
        env={"PATH": "/bin:/usr/bin", "MARK": marker},
    )

    async def all_up() -> bool:
        return len(alive_with(marker)) >= 7

    await eventually(all_up)
    await container.stop(signal.SIGKILL, 0)
    assert alive_with(marker) == []


async def test_what_it_leaves_behind_goes_when_it_ends_by_itself(box: Box, tmp_path: Path) -> None:
    marker = f"{tmp_path}/marker"
    container = await box.shell(
        "(setsid sleep 1000 &); (sleep 1000 &); exit 6", env={"PATH": "/bin:/usr/bin", "MARK": marker}
    )
    assert (await container.exited()).code == 6
    assert alive_with(marker) == []


async def test_everyone_who_waits_is_told(box: Box) -> None:
    container = await box.shell("exit 2")
    exits = await asyncio.gather(*(container.exited() for _ in range(10)))
    assert {exit.code for exit in exits} == {2}


async def test_who_stops_waiting_does_not_disturb_the_others(box: Box) -> None:
    container: Container = await box.shell("read x; exit 3", stdin=True, stdin_once=True)
    patient = asyncio.ensure_future(container.exited())
    impatient = asyncio.ensure_future(container.exited())
    await asyncio.sleep(0)
    impatient.cancel()
    attached = await container.attach()
    await attached.send(b"x\n")
    async with asyncio.timeout(60):
        assert (await patient).code == 3
    await attached.aclose()
