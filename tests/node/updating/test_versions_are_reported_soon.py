"""When the version of a machine's program is reported, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.kit.loopback import loopback

from pilothouse.api.k0s.v1beta2 import RUNNING_VERSION
from pilothouse.api.kind_names import ControlNode, KindName, Node
from pilothouse.api.objects import Object
from pilothouse.base.clock import SystemClock
from pilothouse.client.api import Api
from pilothouse.client.informer import Informer
from pilothouse.client.transport import ClientRequest, ClientResponse, Transport
from pilothouse.node.updating.control_node_report import ControlNodeReport
from pilothouse.node.updating.managed_program import ManagedProgram, ProgramError
from pilothouse.node.updating.node_version_report import NodeVersionReport
from pilothouse.node.updating.update_profile import UpdateProfile

pytestmark = pytest.mark.looptime
STARTS_WITHIN = 5.0
PROFILE = UpdateProfile(path=Path("/x"), version=("x",), health=("x",), restart=("x",))


class StartingProgram(ManagedProgram):
    """Does not answer for a while after its start."""

    async def version(self) -> str:
        if asyncio.get_running_loop().time() < STARTS_WITHIN:
            raise ProgramError("connection refused")
        return "v2.0.0"


def control_node_report(
    api: Api, informer: Informer, program: ManagedProgram
) -> Callable[[], Coroutine[Any, Any, None]]:
    return ControlNodeReport(api, informer, "m1", "127.0.0.1", 6443, program).run


def node_report(
    api: Api, informer: Informer, program: ManagedProgram
) -> Callable[[], Coroutine[Any, Any, None]]:
    return NodeVersionReport(api, informer, "m1", program).run


class RecordingTransport:
    """Passes requests on, and keeps their methods."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.stream = transport.stream
        self.methods: list[str] = []

    async def request(self, call: ClientRequest) -> ClientResponse:
        self.methods.append(call.method)
        return await self._transport.request(call)


class TalkativeProgram(ManagedProgram):
    """Reports a version of 100 characters."""

    async def version(self) -> str:
        return "v2.0.0" + "x" * 94


@pytest.mark.parametrize(
    ("noun", "report", "version"),
    [
        (ControlNode, control_node_report, lambda one: one.status.get("k0sVersion")),
        (Node, node_report, lambda one: one.annotations.get(RUNNING_VERSION)),
    ],
)
async def test_the_version_of_a_program_that_starts_slowly_is_reported_when_it_answers(
    noun: KindName,
    report: Callable[[Api, Informer, ManagedProgram], Callable[[], Coroutine[Any, Any, None]]],
    version: Callable[[Object], str | None],
) -> None:
    program = StartingProgram(PROFILE)
    async with loopback() as transport:
        api = Api(transport, Random(1), manager="test")
        await api.create(
            noun, {"apiVersion": noun.api_version, "kind": noun.kind, "metadata": {"name": "m1"}}
        )
        informer = Informer(api, noun, Random(1), SystemClock())
        work = [asyncio.create_task(informer.run())]
        await informer.synced()
        work.append(asyncio.create_task(report(api, informer, program)()))
        try:
            await asyncio.sleep(STARTS_WITHIN - 1)
            assert not version(await api.get(noun, "m1"))
            await asyncio.sleep(6)
            assert version(await api.get(noun, "m1")) == "v2.0.0"
        finally:
            for task in work:
                task.cancel()
            await asyncio.gather(*work, return_exceptions=True)


async def test_a_long_version_is_cut_off_and_written_once() -> None:
    async with loopback() as server:
        transport = RecordingTransport(server)
        api = Api(transport, Random(1), manager="test")
        await api.create(Node, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "m1"}})
        informer = Informer(api, Node, Random(1), SystemClock())
        work = asyncio.create_task(informer.run())
        await informer.synced()
        report = NodeVersionReport(api, informer, "m1", TalkativeProgram(PROFILE))
        try:
            assert await report.write()
            reported = await api.get(Node, "m1")
            assert reported.annotations[RUNNING_VERSION] == "v2.0.0" + "x" * 58
            await asyncio.sleep(1)
            assert await report.write()
            assert transport.methods.count("PATCH") == 1
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
