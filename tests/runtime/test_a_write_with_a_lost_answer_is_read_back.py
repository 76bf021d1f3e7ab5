"""A write whose answer is lost may have been carried out: nothing more is decided before that is known and in view."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from random import Random

import pytest
from tests.kit.scheduling_objects import node, pod
from tests.runtime.conftest import Bench

from pilothouse.api.kind_names import ConfigMap, Node, Pod, Secret
from pilothouse.api.objects import Object, owner_reference
from pilothouse.client.api import Api
from pilothouse.client.transport import (
    ClientRequest,
    ClientResponse,
    Interrupted,
    ResponseStreamReader,
    Transport,
)
from pilothouse.controllers.scheduling.scheduler import scheduling
from pilothouse.runtime.controller import controller
from pilothouse.runtime.intents import Create, Intent
from pilothouse.runtime.snapshot import Snapshot


class Line:
    """A way to the server that loses one answer and, after it, some more; watches are late on it."""

    def __init__(self, transport: Transport, ending: str, *, deaf: int) -> None:
        self._transport = transport
        self._ending = ending
        self._deaf = deaf
        self.lost = 0

    async def request(self, call: ClientRequest) -> ClientResponse:
        answer = await self._transport.request(call)
        loses = call.method == "POST" and call.path.endswith(self._ending) and not self.lost
        if loses or 0 < self.lost <= self._deaf:
            self.lost += 1
            raise Interrupted("lost on the way back")
        return answer

    @asynccontextmanager
    async def stream(self, call: ClientRequest) -> AsyncIterator[ResponseStreamReader]:
        async with self._transport.stream(call) as stream:
            yield replace(stream, chunks=self._late(stream.chunks))

    async def _late(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for data in chunks:
            await asyncio.sleep(5)
            yield data


@controller(ConfigMap, owns=Secret)
def keepers(one: Object, world: Snapshot) -> Iterator[Intent]:
    """A config map that asks for a secret has one; its name is the server's choice."""
    if one.labels.get("secret") and not world.owned(Secret, one):
        meta = {"generateName": "s-", "namespace": one.namespace, "ownerReferences": [owner_reference(one)]}
        yield Create({"apiVersion": "v1", "kind": "Secret", "metadata": meta}, because="it has none")


@pytest.mark.parametrize("deaf", [0, 30], ids=["once", "for a while"])
def test_what_has_any_name_is_made_once(bench: Bench, deaf: int) -> None:
    async def scenario(bench: Bench) -> None:
        line = Line(bench.server.transport("manager"), "/secrets", deaf=deaf)
        bench.manage([keepers], api=Api(line, Random(1), manager="manager"))
        meta = {"name": "a", "namespace": "default", "labels": {"secret": "yes"}}
        await bench.api.create(ConfigMap, {"metadata": meta})
        await bench.settle(300)
        assert line.lost > deaf
        assert len((await bench.api.list(Secret)).objects) == 1

    bench.run(scenario)


def test_no_space_is_given_away_twice(bench: Bench) -> None:
    async def scenario(bench: Bench) -> None:
        tree = node("n1", cpu="1")
        await bench.api.create(Node, tree)
        await bench.api.patch(Node, "n1", "", {"status": tree["status"]}, subresource="status")
        for name in ("p0", "p1", "p2"):
            one = pod(name, cpu="1")
            del one["metadata"]["uid"]
            await bench.api.create(Pod, one)
        line = Line(bench.server.transport("manager"), "/binding", deaf=0)
        bench.manage([scheduling], api=Api(line, Random(1), manager="manager"))
        await bench.settle(300)
        assert line.lost == 1
        pods = (await bench.api.list(Pod)).objects
        assert Counter(one.spec.get("nodeName") for one in pods) == {"n1": 1, None: 2}

    bench.run(scenario)
