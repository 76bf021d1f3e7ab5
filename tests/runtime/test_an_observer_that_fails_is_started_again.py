"""What an observer reads comes from outside: whatever it is, the controllers go on."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from random import Random

import pytest
from tests.kit.loopback import loopback
from tests.kit.waiting import eventually

from pilothouse.base.clock import SystemClock
from pilothouse.client.api import Api
from pilothouse.client.shared_informers import SharedInformers
from pilothouse.controllers.service_accounts import service_accounts
from pilothouse.runtime.election import LeadershipLost, NoElection
from pilothouse.runtime.intent_executor import FenceOf
from pilothouse.runtime.manager import Manager, Observer


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with loopback() as transport:
        yield Api(transport, Random(1), manager="test")


def managed(api: Api, observer: Observer) -> Manager:
    informers = SharedInformers(api, Random(1), SystemClock())
    return Manager(
        api,
        [service_accounts],
        informers,
        NoElection(),
        SystemClock(),
        identity="m1",
        observers={"observer": observer},
    )


async def test_it_runs_again_and_the_controllers_go_on(api: Api) -> None:
    starts = 0

    async def fails_once(fence: FenceOf) -> None:
        nonlocal starts
        starts += 1
        if starts == 1:
            raise UnicodeError("garbage")
        await asyncio.get_running_loop().create_future()

    running = asyncio.create_task(managed(api, fails_once).run())

    async def started_again() -> bool:
        return starts == 2

    try:
        await eventually(started_again, seconds=30)
        assert not running.done()
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


async def test_without_leadership_it_ends_with_the_controllers(api: Api) -> None:
    async def finds_out(fence: FenceOf) -> None:
        raise LeadershipLost("another process leads")

    with pytest.raises(LeadershipLost):
        await managed(api, finds_out).run()
