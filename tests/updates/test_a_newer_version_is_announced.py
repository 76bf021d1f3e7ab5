"""The prober says that there is a newer version, where no UpdateConfig follows a channel."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

from tests.kit.channel_server import Answer, ChannelServer, index, serving_channel
from tests.updates.conftest import CLOCK, Cluster

from pilothouse.api.kind_names import CoreEvent, UpdateConfig
from pilothouse.api.objects import Tree
from pilothouse.client.api import Api
from pilothouse.client.informer import Informer
from pilothouse.updates.update_prober import UpdateProber

INDEX = "/latest/index.yaml"
NEW = "v1.2.4+k0s.0"


@asynccontextmanager
async def probing(api: Api, server: ChannelServer) -> AsyncIterator[UpdateProber]:
    informer = Informer(api, UpdateConfig, Random(1), CLOCK)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(informer.run())
        await informer.synced()
        yield UpdateProber(api, informer, CLOCK, server.url, running="v1.2.3+k0s.0")
        running.cancel()


async def announced(api: Api) -> list[Tree]:
    events = (await api.list(CoreEvent, "kube-system")).objects
    return [one.tree for one in events if one.tree["reason"] == "NewVersionAvailable"]


async def test_k0s_A46_a_newer_version_is_announced_once(api: Api) -> None:
    with serving_channel({INDEX: Answer(index(NEW))}) as server:
        async with probing(api, server) as prober:
            await prober.probe(lambda: None)
            await prober.probe(lambda: None)
            (event,) = await announced(api)
            server.answers[INDEX] = Answer(index("v1.3.0"))
            await prober.probe(lambda: None)
            assert len(await announced(api)) == 2
    assert event["message"] == f"New version available: {NEW}"
    assert (event["type"], event["source"]["component"]) == ("Normal", "k0s")
    assert (event["involvedObject"]["kind"], event["involvedObject"]["name"]) == ("Namespace", "kube-system")
    assert server.asked[0].headers["K0S_Version"] == "v1.2.3+k0s.0"
    assert server.asked[0].headers["Authorization"] is None


async def test_k0s_A46_with_an_update_config_nothing_is_asked(api: Api) -> None:
    with serving_channel({INDEX: Answer(index(NEW))}) as server:
        await Cluster(api).follow(server.url)
        async with probing(api, server) as prober:
            await prober.probe(lambda: None)
    assert server.asked == []
    assert await announced(api) == []


async def test_k0s_A46_what_is_not_newer_is_not_announced(api: Api) -> None:
    with serving_channel({INDEX: Answer(index("v1.2.3+k0s.0"))}) as server:
        async with probing(api, server) as prober:
            await prober.probe(lambda: None)
            server.answers[INDEX] = Answer("garbage", 500)
            await prober.probe(lambda: None)
    assert len(server.asked) == 2
    assert await announced(api) == []
