from __future__ import annotations

import asyncio

import pytest

from pilothouse.aio.background_tasks import STEADY, BackgroundTasks

pytestmark = pytest.mark.looptime


class Part:
    """Fails so many times, then runs until cancelled."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.starts = 0
        self.cancelled = False

    async def run(self) -> None:
        self.starts += 1
        if self.starts <= self.failures:
            raise RuntimeError(f"failure {self.starts}")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise


async def test_a_part_that_fails_is_logged_reported_and_started_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    sound, weak = Part(0), Part(2)
    parts = BackgroundTasks({"sound": sound.run, "weak": weak.run})
    async with parts.running():
        await asyncio.sleep(0.1)
        assert parts.problem == "weak stopped: RuntimeError: failure 1"
        await asyncio.sleep(5)
        assert weak.starts == 3
        assert parts.problem == "weak stopped: RuntimeError: failure 2"
        await asyncio.sleep(STEADY)
        assert parts.problem == ""
    assert sound.starts == 1
    assert sound.cancelled
    assert weak.cancelled
    assert "Traceback" in caplog.text
    assert "failure 1" in caplog.text


async def test_a_part_that_never_runs_for_long_never_looks_well() -> None:
    parts = BackgroundTasks({"weak": Part(1000).run})
    seen = set()
    async with parts.running():
        await asyncio.sleep(0.1)
        for _ in range(100):
            await asyncio.sleep(1)
            seen.add(bool(parts.problem))
    assert seen == {True}


async def test_a_part_that_ends_is_no_less_wrong() -> None:
    async def ends() -> None:
        return

    parts = BackgroundTasks({"short": ends})
    async with parts.running():
        await asyncio.sleep(0.1)
        assert parts.problem == "short stopped: it ended"
