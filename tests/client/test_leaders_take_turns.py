"""Candidates for one Lease on a server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import replace
from random import Random

import pytest
from tests.kit.waiting import eventually

from pilothouse.api.kind_names import ConfigMap, Lease
from pilothouse.api.objects import Object
from pilothouse.base.clock import SystemClock
from pilothouse.client.api import Api
from pilothouse.client.fence import FENCED, LeadershipFence, always
from pilothouse.client.leader_election import LeaseTiming
from pilothouse.client.leader_lease import Leadership, unique_identity
from pilothouse.client.transport import (
    ClientRequest,
    ClientResponse,
    NotSent,
    ResponseStreamReader,
    Transport,
)
from pilothouse.meta.errors import StatusError

TIMING = LeaseTiming(6, 4, 0.4)
PATIENCE = 30.0


class Severable:
    """A way to the server that can be cut: requests then hang, as behind a broken switch."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.is_cut = False

    async def request(self, call: ClientRequest) -> ClientResponse:
        if self.is_cut:
            await asyncio.Event().wait()
        return await self._transport.request(call)

    def stream(self, call: ClientRequest) -> AbstractAsyncContextManager[ResponseStreamReader]:
        return self._transport.stream(call)


class Candidate:
    def __init__(self, transport: Transport, space: str, seed: int) -> None:
        self.line = Severable(transport)
        self.api = Api(self.line, Random(seed), manager="test")
        self.leadership = Leadership(
            self.api, space, "leader", unique_identity(), SystemClock(), Random(seed), TIMING
        )
        self.told: list[LeadershipFence | None] = []
        self.changed = asyncio.Event()
        self.leadership.subscribe(self._tell, lambda: self._tell(None))

    def _tell(self, fence: LeadershipFence | None) -> None:
        self.told.append(fence)
        self.changed.set()

    @property
    def terms(self) -> list[int | None]:
        """What was told, by the transitions."""
        return [fence.transitions if fence is not None else None for fence in self.told]

    async def until(self, leads: bool) -> None:
        async with asyncio.timeout(PATIENCE):
            while (self.leadership.fence is not None) != leads:
                self.changed.clear()
                await self.changed.wait()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.leadership.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def endless(fence: LeadershipFence | None) -> LeadershipFence:
    """As the server sees it: it knows nothing of its holder's clock."""
    assert fence is not None
    return replace(fence, left=always)


async def test_one_of_several_leads_and_hands_over(transport: Transport, space: str) -> None:
    candidates = [Candidate(transport, space, seed) for seed in range(3)]
    async with AsyncExitStack() as stack:
        for each in candidates:
            await stack.enter_async_context(each.running())

        async def leading() -> list[Candidate]:
            return [each for each in candidates if each.leadership.fence]

        (first,) = await eventually(leading, seconds=PATIENCE)
        assert first.terms == [0]
        lease = await first.api.get(Lease, "leader", space)
        assert lease.spec["holderIdentity"] == first.leadership.holder


async def test_a_clean_stop_lets_another_begin_with_a_new_number(transport: Transport, space: str) -> None:
    one, two = (Candidate(transport, space, seed) for seed in range(2))
    async with one.running():
        await one.until(True)
    await one.leadership.release()
    assert one.terms == [0, None]
    assert one.leadership.fence is None
    lease = await two.api.get(Lease, "leader", space)
    assert not lease.spec.get("holderIdentity")
    async with two.running():
        await two.until(True)
    assert two.terms[-1] == 1


async def test_a_leader_that_is_cut_off_stops_and_another_begins(
    transport: Transport, space: str, server_kind: str
) -> None:
    one, two = (Candidate(transport, space, seed) for seed in range(2))
    async with one.running():
        await one.until(True)
        async with two.running():
            one.line.is_cut = True
            await one.until(False)
            assert two.leadership.fence is None, "the first has stopped before the next begins"
            await two.until(True)
            assert one.terms == [0, None]
            assert two.terms[-1] == 1
            one.line.is_cut = False
            body = {"metadata": {"name": "late", "namespace": space}}
            with pytest.raises(NotSent):
                await one.api.create(ConfigMap, body, fence=one.told[0])
            if server_kind != "kube":
                # Had it been on its way already:
                with pytest.raises(StatusError) as refusal:
                    await one.api.create(ConfigMap, body, fence=endless(one.told[0]))
                assert refusal.value.reason == FENCED


async def test_a_leader_that_stays_renews_and_keeps_its_number(transport: Transport, space: str) -> None:
    one = Candidate(transport, space, 1)
    async with one.running():
        await one.until(True)
        first = await one.api.get(Lease, "leader", space)

        async def later() -> Object | None:
            lease = await one.api.get(Lease, "leader", space)
            return lease if lease.revision > first.revision else None

        renewed = await eventually(later, seconds=PATIENCE)
        assert renewed.spec["renewTime"] > first.spec["renewTime"]
        assert renewed.spec["acquireTime"] == first.spec["acquireTime"]
        assert renewed.spec["leaseTransitions"] == 0
    assert one.terms == [0]


async def test_a_lease_that_was_deleted_and_made_again_is_another(transport: Transport, space: str) -> None:
    """Whoever makes it does not know how far the first had counted."""
    one = Candidate(transport, space, 1)
    async with one.running():
        await one.until(True)
        fence = one.told[0]
        one.line.is_cut = True
        api = Api(transport, Random(9), manager="test")
        await api.delete(Lease, "leader", space)
        two = Candidate(transport, space, 2)
        async with two.running():
            await two.until(True)
            assert two.terms == one.terms
            assert two.told != one.told
            if (await api.version()).is_ours:
                body = {"metadata": {"name": "late", "namespace": space}}
                with pytest.raises(StatusError) as told:
                    await api.create(ConfigMap, body, fence=endless(fence))
                assert told.value.reason == FENCED
                await api.create(ConfigMap, body, fence=two.told[0])
