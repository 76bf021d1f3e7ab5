"""A pilot with a real database: it waits for its Pilot, starts it as told, restarts it for another configuration, tells how it ended."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.kit import tools
from tests.kit.loopback import loopback
from tests.kit.pilots import pilot_when
from tests.kit.processes import free_port
from tests.kit.waiting import eventually

from pilothouse.api.kind_names import CoreEvent, Lease, Pilot
from pilothouse.api.objects import Object
from pilothouse.api.policies.expansion import expand
from pilothouse.base.clock import SystemClock
from pilothouse.client.api import Api
from pilothouse.pilot.driver import InstanceEnvironment
from pilothouse.pilot.driver_registry import UnknownApplication, find_driver
from pilothouse.pilot.instance_supervisor import InstanceSupervisor
from pilothouse.rules.metrics_pages import parse_series
from pilothouse.rules.promql.memory_series import MemorySeries
from pilothouse.rules.promql.queries import compile_query
from pilothouse.rules.promql.query_evaluation import evaluate
from pilothouse.supervise.signals import StopRequest

NAME = "cache-0"


@dataclass
class Bridge:
    api: Api
    supervisor: InstanceSupervisor
    asked: StopRequest
    running: asyncio.Task[int]
    folder: Path
    port: int

    async def ask(self, command: bytes) -> bytes:
        """The first line of what Redis answers."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(command + b"\r\n")
            return await asyncio.wait_for(reader.readline(), 10)
        finally:
            writer.close()

    async def pilot(self, is_so: Callable[[Object], bool]) -> Object:
        """The Pilot, once it is so."""
        return await pilot_when(self.api, NAME, "default", is_so)

    async def make(self, **settings: Any) -> None:
        await self.api.create(
            Pilot,
            {
                "apiVersion": Pilot.api_version,
                "kind": Pilot.kind,
                "metadata": {"name": NAME, "namespace": "default"},
                "spec": {"application": "redis", "configuration": {"settings": settings}},
            },
        )


@asynccontextmanager
async def bridge(folder: Path) -> AsyncIterator[Bridge]:
    program = tools.find("redis-server")
    port = free_port()
    environ = {"PATH": f"{program.parent}:{os.environ['PATH']}", "REDIS_PORT": str(port)}
    instance = InstanceEnvironment(NAME, "default", "127.0.0.1", folder, environ)
    async with loopback() as transport:
        api = Api(transport, Random(1), manager="test")
        supervisor = InstanceSupervisor(
            api, instance, find_driver("redis", instance), SystemClock(), Random(1)
        )
        asked = StopRequest()
        running = asyncio.create_task(supervisor.run(asked))
        try:
            yield Bridge(api, supervisor, asked, running, folder, port)
        finally:
            asked.ask()
            asked.ask()
            await running


def process(pilot: Object) -> int:
    message = str((pilot.condition("Started") or {}).get("message"))
    return int(message.rstrip(".").rpartition(" ")[2])


async def test_nav_P24_P25_P26_from_waiting_to_a_clean_end(tmp_path: Path) -> None:
    async with bridge(tmp_path) as at:
        assert at.supervisor.readiness() == f"there is no Pilot {NAME} yet"
        await at.make(maxmemory="32mb")
        ready = await at.pilot(lambda pilot: pilot.is_true("Ready"))
        assert ready.status["phase"] == "Running"
        assert ready.status["version"]
        assert ready.status["restarts"] == 0
        assert "maxmemory 32mb" in (tmp_path / "redis.conf").read_text()
        assert at.supervisor.readiness() == ""
        assert "redis_memory_used_bytes" in at.supervisor.metrics()
        assert "redis_memory_max_bytes" in at.supervisor.metrics()
        events = await at.api.list(CoreEvent, "default")
        assert "ProcessStarted" in [each.tree["reason"] for each in events.objects]
        at.asked.ask()
        assert await at.running == 0
        stopped = await at.pilot(lambda pilot: pilot.is_true("Stopped"))
        assert stopped.status["lastExit"]["clean"] is True
        assert not stopped.is_true("Ready")
        with pytest.raises(ProcessLookupError):
            os.kill(process(ready), 0)


def memory_pressure(page: str) -> list[float]:
    """What the expression of the policy ``memory-pressure`` has for a page, if that meets its condition."""
    (rule,) = expand("mine", {"application": "redis", "policies": [{"name": "memory-pressure"}]}).rules
    (expression,) = rule.spec["conditions"]["expressions"]
    assert expression["operator"] == "Gt"
    series = MemorySeries()
    for line in page.splitlines():
        text, _, value = line.rpartition(" ")
        if (labels := parse_series(text.encode()) if text.startswith("redis_") else None) is not None:
            series.add(labels, (0,), (float(value),))
    found = evaluate(compile_query(expression["key"]), series, 1.0)
    assert len(found.labels) == 1
    return [value for value in found.values.tolist() if value > float(expression["values"][0])]


async def test_memory_that_is_nearly_used_up_meets_the_policy_for_it(tmp_path: Path) -> None:
    async with bridge(tmp_path) as at:
        await at.make(maxmemory="32mb")
        await at.pilot(lambda pilot: pilot.is_true("Ready"))
        assert memory_pressure(at.supervisor.metrics()) == []
        assert await at.ask(b"SETRANGE filled 28500000 x") == b":28500001\r\n"

        async def is_met() -> bool:
            return bool(memory_pressure(at.supervisor.metrics()))

        await eventually(is_met)


async def test_another_configuration_restarts_it_in_place(tmp_path: Path) -> None:
    async with bridge(tmp_path) as at:
        await at.make(maxmemory="32mb")
        first = await at.pilot(lambda pilot: pilot.is_true("Ready"))
        patch = {"spec": {"configuration": {"settings": {"maxmemory": "48mb"}}}}
        changed = await at.api.patch(Pilot, NAME, "default", patch)
        again = await at.pilot(
            lambda pilot: (
                pilot.is_true("Ready")
                and pilot.at("status", "configuration", "generation") == changed.generation
            )
        )
        assert again.status["restarts"] == 1
        assert again.status["configuration"]["hash"] != first.status["configuration"]["hash"]
        assert process(again) != process(first)
        assert "maxmemory 48mb" in (tmp_path / "redis.conf").read_text()


async def test_a_database_that_is_killed_is_reported_and_ends_the_pilot(tmp_path: Path) -> None:
    async with bridge(tmp_path) as at:
        await at.make()
        ready = await at.pilot(lambda pilot: pilot.is_true("Ready"))
        os.kill(process(ready), signal.SIGKILL)
        assert await at.running == 1
        ended = await at.pilot(lambda pilot: pilot.is_true("Stopped"))
        assert ended.status["lastExit"]["signal"] == "SIGKILL"
        assert ended.status["lastExit"]["clean"] is False
        assert ended.status["lastExit"]["log"]
        events = await at.api.list(CoreEvent, "default")
        told = [each.tree for each in events.objects if each.tree["reason"] == "ProcessEnded"]
        assert told
        assert told[0]["type"] == "Warning"
        assert "SIGKILL" in told[0]["message"]


async def test_a_wrong_setting_is_in_the_pilots_status_in_the_databases_own_words(tmp_path: Path) -> None:
    async with bridge(tmp_path) as at:
        await at.make(maxmemoryy="32mb")
        assert await at.running == 1
        ended = await at.pilot(lambda pilot: pilot.is_true("Stopped"))
        last = ended.status["lastExit"]
        assert last["exitCode"] == 1
        assert "'maxmemoryy 32mb'; Bad directive or wrong number of arguments" in last["message"]
        assert last["message"] in (ended.condition("Stopped") or {})["message"]
        assert last["message"] in (ended.condition("Ready") or {})["message"]
        assert at.supervisor.exit_message == last["message"]
        events = await at.api.list(CoreEvent, "default")
        [told] = [each.tree for each in events.objects if each.tree["reason"] == "ProcessEnded"]
        assert last["message"] in told["message"]


async def test_the_volume_of_its_data_and_writes_that_it_refuses_are_in_the_status(tmp_path: Path) -> None:
    async with bridge(tmp_path) as at:
        await at.make(save="3600 1")
        ready = await at.pilot(lambda pilot: pilot.is_true("Ready") and "volume" in pilot.status)
        assert ready.at("status", "volume", "path") == str(tmp_path)
        assert 0 < ready.at("status", "volume", "usedBytes") <= ready.at("status", "volume", "capacityBytes")
        # It can't save what it has: a folder lies where its file belongs.
        (tmp_path / "dump.rdb").mkdir()
        assert b"PONG" in await at.ask(b"PING")
        await at.ask(b"SET a 1")
        await at.ask(b"BGSAVE")
        bad = await at.pilot(lambda pilot: pilot.is_true("Degraded"))
        assert (bad.condition("Degraded") or {})["reason"] == "WritesRefused"
        assert str(tmp_path) in (bad.condition("Degraded") or {})["message"]
        assert b"MISCONF" in await at.ask(b"SET a 2")
        (tmp_path / "dump.rdb").rmdir()
        await at.ask(b"BGSAVE")
        await at.pilot(lambda pilot: not pilot.is_true("Degraded"))


async def test_nav_P28_a_hook_that_fails_is_told_and_tried_again(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.write_text("in the way")
    async with bridge(data) as at:
        await at.make()
        waiting = await at.pilot(
            lambda pilot: "failed" in str((pilot.condition("Ready") or {}).get("message"))
        )
        assert waiting.status["phase"] == "PreStart"
        data.unlink()
        await at.pilot(lambda pilot: pilot.is_true("Ready"))


async def test_it_shows_signs_of_life(tmp_path: Path) -> None:
    async with bridge(tmp_path) as at:
        await at.make()
        await at.pilot(lambda pilot: pilot.is_true("Ready"))
        lease = await eventually(lambda: at.api.find(Lease, f"pilot-{NAME}", "default"))
        assert lease.spec["holderIdentity"] == NAME


def test_an_application_that_nobody_knows_is_refused_with_those_that_there_are(tmp_path: Path) -> None:
    with pytest.raises(UnknownApplication, match="redis"):
        find_driver("oracle", InstanceEnvironment("a", "b", "127.0.0.1", tmp_path, {}))
