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
from pilothouse.node.updating.control_node_report import ControlNodeReport
from pilothouse.node.updating.managed_program import ManagedProgram, ProgramError
from pilothouse.node.updating.node_version_report import NodeVersionReport
from pilothouse.node.updating.update_profile import UpdateProfile

pytestmark = pytest.mark.looptime
STARTS_WITHIN = 5.0


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
    program = StartingProgram(UpdateProfile(path=Path("/x"), version=("x",), health=("x",), restart=("x",)))
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
