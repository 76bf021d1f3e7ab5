"""A process that leads decides, or its health says that it does not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from random import Random

from tests.kit.scheduling_objects import node, pod
from tests.runtime.conftest import Bench

from pilothouse.api.kind_names import Node, Pod
from pilothouse.client.api import Api
from pilothouse.client.fence import LeadershipFence
from pilothouse.client.leader_lease import Leadership
from pilothouse.client.transport import ClientRequest, ClientResponse, ResponseStreamReader, Transport
from pilothouse.controllers.scheduling.scheduler import scheduling
from pilothouse.runtime.election import LeaseElection
from pilothouse.runtime.stall_check import STALLED_SECONDS, StallCheck
from pilothouse.sim.loop import LoopClock


class Line:
    """A way to the server on which the answers to renewals can be made late, and those to bindings lost."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.late = 0.0
        self.asked = asyncio.Event()
        """Set when such a renewal is on its way."""
        self.loses_bindings = False

    async def request(self, call: ClientRequest) -> ClientResponse:
        if self.loses_bindings and call.path.endswith("/binding"):
            await asyncio.Event().wait()
        answer = await self._transport.request(call)
        if self.late and call.method == "PUT" and call.path.endswith("/leases/managers"):
            self.asked.set()
            await asyncio.sleep(self.late)
        return answer

    @asynccontextmanager
    async def stream(self, call: ClientRequest) -> AsyncIterator[ResponseStreamReader]:
        async with self._transport.stream(call) as stream:
            yield stream


class Jumping(LoopClock):
    """A clock by which time can pass while the loop does nothing else."""

    ahead = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead


class Wedged:
    """An election that is held, and from which nothing is decided."""

    since = 0.0

    def fence(self) -> LeadershipFence | None:
        return None

    async def hold(self, decide: Callable[[], Awaitable[None]]) -> None:
        await asyncio.Event().wait()


async def make_pod(bench: Bench) -> None:
    tree = pod("p")
    del tree["metadata"]["uid"]
    await bench.api.create(Pod, tree)


def test_a_renewal_that_is_answered_late_does_not_end_decisions_for_good(bench: Bench) -> None:
    """The process computes for so long, while a renewal is on its way, that its term is over by its own clock. What it then
    decides it may not do; then the answer is read, by which the same term goes on."""

    async def scenario(bench: Bench) -> None:
        line = Line(bench.server.transport("first"))
        clock = Jumping(bench.loop)
        api = Api(line, Random("first"), manager="first")
        leadership = Leadership(api, "kube-system", "managers", "first", clock, Random("first"))
        election = LeaseElection(leadership)
        decided: list[float] = []
        refused: list[float] = []

        async def decide() -> None:
            while True:
                if line.asked.is_set() and not refused:
                    while leadership.fence is not None:
                        clock.ahead += 0.1
                    refused.append(clock.monotonic())
                election.fence()
                decided.append(clock.monotonic())
                await asyncio.sleep(0.1)

        bench.start(leadership.run())
        bench.start(election.hold(decide))
        await bench.settle(7)
        term = leadership.fence
        assert term is not None
        line.late = 1.0
        async with asyncio.timeout(60):
            await line.asked.wait()
        line.late = 0.0
        await bench.settle(30)
        assert refused, "the term was to be over"
        assert leadership.fence == term, "another term began"
        assert decided[-1] > refused[-1] + 20

    bench.run(scenario)


def test_a_leader_that_decides_nothing_is_not_healthy(bench: Bench) -> None:
    async def scenario(bench: Bench) -> None:
        manager = bench.manage([scheduling], election=Wedged())
        progress = StallCheck(manager.engines, lambda: True, bench.clock)
        await bench.settle(5)
        assert progress.problem == ""
        await bench.settle(STALLED_SECONDS)
        problem = "scheduling has decided nothing for 300 s, and has not started although this process leads"
        assert progress.problem == problem

    bench.run(scenario)


def test_one_that_has_nothing_to_do_or_stands_by_is_healthy(bench: Bench) -> None:
    async def scenario(bench: Bench) -> None:
        working = StallCheck(bench.manage([scheduling]).engines, lambda: True, bench.clock)
        standing_by = StallCheck(
            bench.manage([scheduling], election=Wedged()).engines, lambda: False, bench.clock
        )
        for _ in range(4):
            assert (working.problem, standing_by.problem) == ("", "")
            await bench.settle(STALLED_SECONDS)

    bench.run(scenario)


def test_one_whose_server_loses_answers_tries_again_and_is_healthy(bench: Bench) -> None:
    async def scenario(bench: Bench) -> None:
        line = Line(bench.server.transport("first"))
        manager = bench.manage([scheduling], api=Api(line, Random("first"), manager="first"))
        progress = StallCheck(manager.engines, lambda: True, bench.clock)
        tree = node("n1")
        await bench.api.create(Node, tree)
        await bench.api.patch(Node, "n1", "", {"status": tree["status"]}, subresource="status")
        line.loses_bindings = True
        await make_pod(bench)
        for _ in range(20):
            await bench.settle(STALLED_SECONDS / 10)
            assert progress.problem == ""

    bench.run(scenario)
