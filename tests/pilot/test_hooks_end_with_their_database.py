"""Hooks that need a database are not tried any more once it has ended; what comes after it goes on."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

from tests.kit.loopback import loopback
from tests.kit.pilots import pilot_when
from tests.kit.waiting import eventually

from pilothouse.api.kind_names import Pilot
from pilothouse.api.objects import Object, Tree
from pilothouse.base.clock import SystemClock
from pilothouse.client.api import Api
from pilothouse.pilot.driver import (
    DesiredState,
    Hook,
    HookFailed,
    InstanceEnvironment,
    Observation,
    Phase,
    StartCommand,
)
from pilothouse.pilot.instance_supervisor import InstanceSupervisor
from pilothouse.supervise.signals import StopRequest

NAME = "frail-0"
FOREVER = "echo $$ >> pids; while :; do sleep 0.05; done"


class Frail:
    """A database that dies of the first hook of a phase."""

    application = "frail"

    def __init__(self, folder: Path, phase: Phase, *, hangs: bool = False) -> None:
        self._folder = folder
        self._phase = phase
        self._hangs = hangs
        self.tried: list[str] = []

    @property
    def pids(self) -> list[int]:
        file = self._folder / "pids"
        return [int(line) for line in file.read_text().split()] if file.exists() else []

    def hooks(self, phase: Phase, desired: DesiredState) -> Sequence[Hook]:
        if phase == self._phase:
            return (Hook("First", self._die), Hook("Second", self._fail))
        return (Hook("Sweep", self._sweep),) if phase == "PostStop" else ()

    def start(self, desired: DesiredState) -> StartCommand:
        return StartCommand(("/bin/sh", "-c", FOREVER), dict(os.environ), folder=str(self._folder))

    async def observe(self, desired: DesiredState) -> Observation:
        return Observation(ready=bool(self.pids))

    def is_candidate(self, desired: DesiredState) -> bool:
        return False

    async def lead(self, desired: DesiredState, peers: Sequence[Object], leads: Callable[[], bool]) -> Tree:
        return {}

    async def _die(self) -> None:
        self.tried.append("First")
        os.kill((await eventually(self._began))[-1], signal.SIGKILL)
        if self._hangs:
            await asyncio.Event().wait()
        raise HookFailed("nobody answers")

    async def _began(self) -> list[int]:
        return self.pids

    async def _fail(self) -> None:
        self.tried.append("Second")
        raise HookFailed("nobody answers")

    async def _sweep(self) -> None:
        self.tried.append("Sweep")


@asynccontextmanager
async def sailing(driver: Frail, folder: Path) -> AsyncIterator[tuple[Api, asyncio.Task[int]]]:
    """A pilot of it, with its Pilot."""
    instance = InstanceEnvironment(NAME, "default", "127.0.0.1", folder, {})
    async with loopback() as transport:
        api = Api(transport, Random(1), manager="test")
        asked = StopRequest()
        supervisor = InstanceSupervisor(api, instance, driver, SystemClock(), Random(1))
        running = asyncio.create_task(supervisor.run(asked))
        try:
            await api.create(Pilot, pilot_with("1"))
            yield api, running
        finally:
            asked.ask()
            asked.ask()
            await running


def pilot_with(word: str) -> dict[str, Any]:
    return {
        "apiVersion": Pilot.api_version,
        "kind": Pilot.kind,
        "metadata": {"name": NAME, "namespace": "default"},
        "spec": {"application": "redis", "configuration": {"settings": {"word": word}}},
    }


async def restarted(driver: Frail, folder: Path) -> None:
    """Once it runs it gets another configuration, and runs again with that."""
    async with sailing(driver, folder) as (api, _):
        await pilot_when(api, NAME, "default", lambda pilot: pilot.is_true("Ready"))
        changed = await api.patch(Pilot, NAME, "default", {"spec": pilot_with("2")["spec"]})
        again = await pilot_when(
            api,
            NAME,
            "default",
            lambda pilot: (
                pilot.is_true("Ready")
                and pilot.at("status", "configuration", "generation") == changed.generation
            ),
        )
        assert again.status["restarts"] == 1
        assert again.status["lastExit"]["signal"] == "SIGKILL"
        assert driver.tried == ["First", "Sweep"]
        assert len(set(driver.pids)) == 2


async def test_one_that_dies_before_its_stop_is_restarted_without_the_rest_of_the_preparations(
    tmp_path: Path,
) -> None:
    await restarted(Frail(tmp_path, "PreStop"), tmp_path)


async def test_a_hook_that_waits_for_a_database_that_has_died_is_left(tmp_path: Path) -> None:
    await restarted(Frail(tmp_path, "PreStop", hangs=True), tmp_path)


async def test_one_that_dies_after_its_start_ends_the_pilot_though_its_hooks_have_failed(
    tmp_path: Path,
) -> None:
    driver = Frail(tmp_path, "PostStart")
    async with sailing(driver, tmp_path) as (_, running):
        assert await running == 1
    assert driver.tried == ["First", "Sweep"]
