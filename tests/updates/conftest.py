"""An API server in this process, and what follows update channels beside it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from random import Random

import pytest
from tests.kit.loopback import loopback

from pilothouse.api.kind_names import UpdateConfig
from pilothouse.api.objects import Object, Tree
from pilothouse.base.clock import SystemClock
from pilothouse.client.api import Api
from pilothouse.client.informer import Informer
from pilothouse.updates.channel_observer import ChannelObserver
from pilothouse.updates.channel_source import ChannelSource

CLOCK = SystemClock()


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with loopback() as transport:
        yield Api(transport, Random(1), manager="test")


class Cluster:
    """A config whose checks are answered by the observer."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.source = ChannelSource(api, CLOCK, running="v0.0.1", storage="sqlite")

    async def follow(self, server: str, **spec: object) -> Object:
        """Create an UpdateConfig."""
        strategy = {"type": "periodic", "periodic": {"startTime": "00:00", "length": "24h"}}
        body: Tree = {
            "apiVersion": UpdateConfig.api_version,
            "kind": "UpdateConfig",
            "metadata": {"name": "updates"},
            "spec": {"updateServer": server, "upgradeStrategy": strategy, **spec},
        }
        return await self.api.create(UpdateConfig, body)

    async def ask(self, check: int) -> None:
        """Count the checks up, as the controller does."""
        await self.api.patch(UpdateConfig, "updates", "", {"status": {"check": check}}, subresource="status")

    async def answer(self, check: int) -> Tree:
        """Ask for a check, and wait for its answer."""
        await self.ask(check)
        async with asyncio.timeout(20):
            while True:
                config = await self.api.get(UpdateConfig, "updates")
                answer: Tree = config.status.get("answer") or {}
                if answer.get("number") == check:
                    return answer
                await asyncio.sleep(0.02)


@pytest.fixture
async def cluster(api: Api) -> AsyncIterator[Cluster]:
    cluster = Cluster(api)
    informer = Informer(api, UpdateConfig, Random(1), CLOCK)
    observer = ChannelObserver(api, informer, CLOCK, cluster.source)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(informer.run()), group.create_task(observer.run(lambda: None))]
        await informer.synced()
        yield cluster
        for task in tasks:
            task.cancel()
