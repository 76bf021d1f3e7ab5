"""Somebody deletes a definition: what looked after all kinds goes on with the others, and is well."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from random import Random

from tests.runtime.conftest import Bench
from tests.runtime.test_controllers_look_after_any_kind import DEFINITION, WIDGET

from pilothouse.api.kind_names import ConfigMap, CustomResourceDefinition
from pilothouse.api.objects import owner_reference
from pilothouse.client.api import Api
from pilothouse.client.shared_informers import SharedInformers
from pilothouse.client.transport import ClientRequest, ClientResponse, ResponseStreamReader, Transport
from pilothouse.controllers.garbage_collector import garbage
from pilothouse.runtime.election import NoElection
from pilothouse.runtime.manager import Manager


class Line:
    """A way to the server that remembers what was asked about widgets."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.asked = 0

    async def request(self, call: ClientRequest) -> ClientResponse:
        self.asked += call.path == WIDGET.path()
        return await self._transport.request(call)

    def stream(self, call: ClientRequest) -> AbstractAsyncContextManager[ResponseStreamReader]:
        self.asked += call.path == WIDGET.path()
        return self._transport.stream(call)


def test_its_definition_is_deleted_and_made_again(bench: Bench) -> None:
    async def scenario(bench: Bench) -> None:
        line = Line(bench.server.transport("manager"))
        api = Api(line, Random(1), manager="manager")
        informers = SharedInformers(api, Random(1), bench.clock)
        bench.start(Manager(api, [garbage], informers, NoElection(), bench.clock, identity="m1").run())
        await bench.settle(5)
        for _ in range(2):
            await bench.api.create(CustomResourceDefinition, DEFINITION)
            await bench.settle(10)
            meta = {"name": "w", "namespace": "default"}
            owner = await bench.api.create(
                WIDGET, {"apiVersion": WIDGET.api_version, "kind": "Widget", "metadata": meta}
            )
            owned = {"name": "c", "namespace": "default", "ownerReferences": [owner_reference(owner)]}
            await bench.api.create(ConfigMap, {"metadata": owned})
            await bench.api.delete(WIDGET, "w", "default")
            await bench.settle(10)
            assert await bench.api.find(ConfigMap, "c", "default") is None
            await bench.api.delete(CustomResourceDefinition, "widgets.example.io")
            await bench.settle(10)
            asked = line.asked
            await bench.settle(600)
            assert (informers.problem, line.asked) == ("", asked)

    bench.run(scenario)
