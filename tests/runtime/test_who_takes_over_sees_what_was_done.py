"""A leader whose caches were late while it stood by decides nothing before it has seen what the last one wrote."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from random import Random

from tests.kit.scheduling_objects import node, pod
from tests.runtime.conftest import Bench

from pilothouse.api.kind_names import Lease, Node, Pod
from pilothouse.client.api import Api
from pilothouse.client.leader_lease import Leadership
from pilothouse.client.shared_informers import SharedInformers
from pilothouse.client.transport import ClientRequest, ClientResponse, ResponseStreamReader, Transport
from pilothouse.controllers.scheduling.scheduler import scheduling
from pilothouse.runtime.election import LeaseElection
from pilothouse.runtime.manager import Manager


class Line:
    """A way to the server on which the watches of pods can be made to bring nothing more; new ones do."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.losses = 0

    async def request(self, call: ClientRequest) -> ClientResponse:
        return await self._transport.request(call)

    @asynccontextmanager
    async def stream(self, call: ClientRequest) -> AsyncIterator[ResponseStreamReader]:
        async with self._transport.stream(call) as stream:
            passed = self._passed(stream.chunks, self.losses) if call.path == Pod.path() else stream.chunks
            yield replace(stream, chunks=passed)

    async def _passed(self, chunks: AsyncIterator[bytes], opened: int) -> AsyncIterator[bytes]:
        async for data in chunks:
            if opened < self.losses:
                await asyncio.Event().wait()
            yield data


def stand(bench: Bench, name: str, transport: Transport) -> list[asyncio.Task[None]]:
    """A manager that stands for election."""
    api = Api(transport, Random(name), manager=name)
    leadership = Leadership(api, "kube-system", "managers", name, bench.clock, Random(name))
    informers = SharedInformers(api, Random(name), bench.clock)
    manager = Manager(api, [scheduling], informers, LeaseElection(leadership), bench.clock, identity=name)
    return [bench.start(leadership.run()), bench.start(manager.run())]


def test_no_space_is_given_away_that_the_last_leader_gave_away(bench: Bench) -> None:
    async def placed() -> Counter[str | None]:
        return Counter(one.spec.get("nodeName") for one in (await bench.api.list(Pod)).objects)

    async def holder() -> str:
        return str((await bench.api.get(Lease, "managers", "kube-system")).spec.get("holderIdentity"))

    async def scenario(bench: Bench) -> None:
        cordoned = node("n1", cpu="3", unschedulable=True)
        await bench.api.create(Node, cordoned)
        await bench.api.patch(Node, "n1", "", {"status": cordoned["status"]}, subresource="status")
        first = stand(bench, "first", bench.server.transport("first"))
        await bench.settle(5)
        line = Line(bench.server.transport("second"))
        stand(bench, "second", line)
        for number in range(6):
            tree = pod(f"p{number}", cpu="1")
            del tree["metadata"]["uid"]
            await bench.api.create(Pod, tree)
        await bench.settle(5)
        line.losses += 1
        await bench.api.patch(Node, "n1", "", {"spec": {"unschedulable": None}})
        await bench.settle(5)
        assert (await holder(), await placed()) == ("first", {"n1": 3, None: 3})
        for task in first:
            task.cancel()
        await bench.settle(60)
        assert (await holder(), await placed()) == ("second", {"n1": 3, None: 3})
        gone = next(one for one in (await bench.api.list(Pod)).objects if one.spec.get("nodeName"))
        await bench.api.delete(Pod, gone.name, "default", grace=0)
        await bench.settle(5)
        assert await placed() == {"n1": 3, None: 2}

    bench.run(scenario)
