"""nav-P27, other than it was: a pilot that is told to stop again hurries its database, and abandons neither it nor its end."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from tests.kit.waiting import eventually

from pilothouse.base.clock import SystemClock
from pilothouse.pilot.database_process import DatabaseProcess
from pilothouse.pilot.driver import StartCommand
from pilothouse.supervise.signals import StopRequest

HOURS = 3600.0


async def database(folder: Path, on_term: str) -> DatabaseProcess:
    """A program that says when it listens for TERM, and then does this."""
    script = f"trap '{on_term}' TERM; touch {folder}/listens; while :; do sleep 0.05; done"
    child = DatabaseProcess.begin(
        StartCommand(("/bin/sh", "-c", script), dict(os.environ)), SystemClock(), ended=lambda: None
    )
    await eventually(lambda: asyncio.to_thread((folder / "listens").exists))
    return child


async def test_nav_P27_a_database_that_is_writing_still_comes_to_its_end(tmp_path: Path) -> None:
    asked = StopRequest()
    child = await database(tmp_path, f"sleep 0.3; touch {tmp_path}/written; exit 0")
    asked.ask()
    stopping = asyncio.create_task(child.stop(asked, HOURS))
    asked.ask()
    exit = await stopping
    assert (tmp_path / "written").exists()
    assert exit.clean


async def test_nav_P27_one_that_does_not_end_is_killed_long_before_its_grace_is_over(tmp_path: Path) -> None:
    asked = StopRequest()
    child = await database(tmp_path, ":")
    asked.ask()
    stopping = asyncio.create_task(child.stop(asked, HOURS, hurried=0.2))
    asked.ask()
    async with asyncio.timeout(60):
        exit = await stopping
    assert (exit.clean, exit.signal) == (False, "SIGKILL")
