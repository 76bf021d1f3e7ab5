"""The manager's controller and observer, an API server, and the update server, together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

from tests.kit.publisher import Publisher
from tests.updates.conftest import CLOCK, Cluster

from pilothouse.api.kind_names import ControlNode, KindName, Plan, UpdateConfig
from pilothouse.api.objects import Object
from pilothouse.base.rfc3339 import format_time
from pilothouse.client.api import Api
from pilothouse.client.shared_informers import SharedInformers
from pilothouse.controllers.update_configs.update_config_controller import update_configs
from pilothouse.meta.conditions import find_condition
from pilothouse.runtime.election import NoElection
from pilothouse.runtime.manager import Manager
from pilothouse.updates.channel_observer import ChannelObserver
from pilothouse.updates.channel_source import ChannelSource
from pilothouse.updates.update_server import UpdateServer, serving_updates

OLD, NEW, NEWER = "v1.2.3+k0s.0", "v1.2.4+k0s.0", "v1.3.0+k0s.0"
MERGED = {"startTime": "00:00", "length": "24h"}


@asynccontextmanager
async def managed(api: Api) -> AsyncIterator[None]:
    informers = SharedInformers(api, Random(1), CLOCK)
    source = ChannelSource(api, CLOCK, running=OLD)
    observer = ChannelObserver(api, informers.get(UpdateConfig), CLOCK, source)
    manager = Manager(
        api,
        [update_configs],
        informers,
        NoElection(),
        CLOCK,
        identity="m1",
        observers={"channel-observer": observer.run},
    )
    running = asyncio.ensure_future(manager.run())
    try:
        yield
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def until(api: Api, noun: KindName, name: str, wanted: Callable[[Object], bool]) -> Object:
    async with asyncio.timeout(30):
        while True:
            found = await api.find(noun, name)
            if found is not None and wanted(found):
                return found
            await asyncio.sleep(0.05)


def version_of(plan: Object) -> str:
    return str(plan.spec["commands"][0]["k0supdate"]["version"])


def reason(config: Object) -> str:
    found = find_condition(config.status.get("conditions"), "Progressing")
    return str(found["reason"]) if found is not None else ""


async def check_again(api: Api, zone: str) -> None:
    """An edit of the spec is followed by a check."""
    strategy = {"type": "periodic", "periodic": {**MERGED, "timeZone": zone}}
    await api.patch(UpdateConfig, "updates", "", {"spec": {"upgradeStrategy": strategy}})


async def run_version(api: Api, version: str) -> None:
    await api.patch(ControlNode, "c1", "", {"status": {"k0sVersion": version}}, subresource="status")


async def complete(api: Api, plan: Object) -> None:
    targets = {"controllers": [{"name": "c1", "state": "SignalCompleted"}]}
    status = {
        "state": "Completed",
        "completedTime": format_time(CLOCK.now()),
        "observedGeneration": plan.generation,
        "spec": plan.spec,
        "commands": [{"id": 0, "state": "Completed", "k0supdate": targets}],
    }
    await api.patch(Plan, plan.name, "", {"status": status}, subresource="status")


async def test_k0s_A40_two_versions_in_a_row_become_two_runs(api: Api, tmp_path: Path) -> None:
    publisher = Publisher(tmp_path)
    publisher.publish(NEW)
    body = {"apiVersion": ControlNode.api_version, "kind": "ControlNode", "metadata": {"name": "c1"}}
    await api.create(ControlNode, body)
    await run_version(api, OLD)
    server = UpdateServer(publisher.folder, CLOCK)
    async with serving_updates(server, "127.0.0.1", 0) as port, managed(api):
        await Cluster(api).follow(f"http://127.0.0.1:{port}", trustedRoot=publisher.root)
        plan = await until(api, Plan, "autopilot", lambda one: version_of(one) == NEW)
        assert plan.spec["rollout"]["windows"] == [MERGED]
        await until(api, UpdateConfig, "updates", lambda one: reason(one) == "PlanRunning")
        await run_version(api, NEW)
        await complete(api, plan)
        await until(api, UpdateConfig, "updates", lambda one: reason(one) == "UpToDate")

        publisher.publish(NEWER)
        await check_again(api, "Europe/Berlin")
        plan = await until(api, Plan, "autopilot", lambda one: version_of(one) == NEWER)
        assert plan.generation == 2
        config = await until(api, UpdateConfig, "updates", lambda one: reason(one) == "PlanRunning")
        assert config.status["availableVersion"] == NEWER


async def test_a_server_that_is_down_is_reported(api: Api, tmp_path: Path) -> None:
    publisher = Publisher(tmp_path)
    publisher.publish(NEW)
    async with serving_updates(UpdateServer(publisher.folder, CLOCK), "127.0.0.1", 0) as port:
        pass
    async with managed(api):
        await Cluster(api).follow(f"http://127.0.0.1:{port}")
        config = await until(api, UpdateConfig, "updates", lambda one: reason(one) == "NoOffer")
    checked = find_condition(config.status["conditions"], "Checked")
    assert checked is not None
    assert "can't be reached: Connection refused" in checked["message"]
    assert await api.find(Plan, "autopilot") is None
