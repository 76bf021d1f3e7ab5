"""A process in its child's place, as a pilot is as PID 1: signals go through, and a stop is asked for."""

from __future__ import annotations

import signal
import sys

import pytest
from tests.kit.containers import ENV, Box

PILOT = """
import asyncio, os, signal
from pilothouse.supervise.signals import forwarding

async def main():
    child = await asyncio.create_subprocess_exec(
        "/bin/sh", "-c",
        "for s in HUP QUIT USR1 USR2 WINCH TERM; do trap \\"echo child got $s\\" $s; done; echo up; while :; do sleep 0.02; done",
    )
    async with forwarding(child.send_signal) as asked:
        print("ready", flush=True)
        await asked.wait()
        print("asked", flush=True)
        await asked.wait(2)
        print("urgent", asked.urgency, flush=True)
        child.kill()
        print("child", await child.wait(), flush=True)
        os.kill(os.getpid(), signal.SIGHUP)
        await asyncio.sleep(0)
        raise SystemExit(5)

asyncio.run(main())
"""


@pytest.fixture
def env() -> dict[str, str]:
    return ENV | {"PYTHONPATH": ":".join(filter(None, sys.path))}


async def test_signals_go_through_and_terminations_are_counted(box: Box, env: dict[str, str]) -> None:
    container = await box.run(sys.executable, "-c", PILOT, env=env)
    await box.says(container, "up")
    await box.says(container, "ready")
    for name in ("HUP", "QUIT", "USR1", "USR2", "WINCH"):
        container.kill(signal.Signals[f"SIG{name}"])
        await box.says(container, f"child got {name}")
    container.kill(signal.SIGTERM)
    await box.says(container, "asked")
    assert "child got TERM" not in box.output(container), (
        "how the child is stopped is not for the signal to say"
    )
    container.kill(signal.SIGINT)
    await box.says(container, "urgent 2")
    assert (await container.exited()).code == 5
    assert box.output(container)[-1] == "child -9"
    assert box.output(container, "stderr") == []
