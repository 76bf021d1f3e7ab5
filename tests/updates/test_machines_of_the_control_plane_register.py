"""A manager registers the machine that it runs on as a ControlNode (k0s-A48)."""

from __future__ import annotations

import asyncio
import contextlib
import platform
from collections.abc import AsyncIterator
from random import Random

import pytest
from tests.kit.loopback import loopback
from tests.kit.waiting import eventually

from pilothouse.api.kind_names import ControlNode, Lease
from pilothouse.api.objects import Object
from pilothouse.base.architectures import go_architecture
from pilothouse.base.clock import SystemClock
from pilothouse.client.api import Api
from pilothouse.updates.control_node_registration import (
    MODE_ANNOTATION,
    ControlNodeIdentity,
    ControlNodeRegistration,
    Mode,
)


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with loopback() as transport:
        yield Api(transport, Random(1), manager="test")


@contextlib.asynccontextmanager
async def registered(api: Api, mode: Mode = "controller") -> AsyncIterator[None]:
    registration = ControlNodeRegistration(api, ControlNodeIdentity("c1", mode), SystemClock())
    task = asyncio.create_task(registration.run())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def lease(api: Api) -> Object:
    return await eventually(lambda: api.find(Lease, "k0s-ctrl-c1", "kube-node-lease"))


async def test_a_machine_appears_with_its_platform_and_mode_and_stays(api: Api) -> None:
    async with registered(api):
        heartbeat = await lease(api)
    assert heartbeat.spec["holderIdentity"] == "c1"
    found = await api.get(ControlNode, "c1")
    assert dict(found.labels) == {
        "kubernetes.io/hostname": "c1",
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": go_architecture(platform.machine()),
    }
    assert found.annotations[MODE_ANNOTATION] == "controller"


async def test_a_machine_that_starts_again_renews_and_keeps_what_others_wrote(api: Api) -> None:
    async with registered(api):
        first = await lease(api)
    await api.patch(ControlNode, "c1", "", {"metadata": {"labels": {"rack": "7", "kubernetes.io/arch": "x"}}})
    async with registered(api, "controller+worker"):

        async def renewed() -> bool:
            return bool((await lease(api)).spec["renewTime"] != first.spec["renewTime"])

        await eventually(renewed)
    found = await api.get(ControlNode, "c1")
    assert found.labels["rack"] == "7"
    assert found.labels["kubernetes.io/arch"] == go_architecture(platform.machine())
    assert found.annotations[MODE_ANNOTATION] == "controller+worker"
