"""A controller writes to a pod's status while the node does: the node's own part is as the node has it in the end."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.kit.waiting import eventually

from pilothouse.api.kind_names import Pod
from pilothouse.api.objects import Object, Tree
from pilothouse.node.pods.pod_status_writer import PodStatusWriter


def pod(revision: int, ready: str) -> Object:
    conditions = [{"type": "Ready", "status": ready}]
    metadata = {"name": "a", "namespace": "default", "uid": "u", "resourceVersion": str(revision)}
    return Object(Pod, {"metadata": metadata, "status": {"phase": "Running", "conditions": conditions}})


class Server:
    """Answers a write only when it is let to; somebody else is faster."""

    def __init__(self) -> None:
        self.bodies: list[Tree] = []
        self.revision = 10
        self.go = asyncio.Event()

    async def patch(self, noun: Any, name: str, namespace: str, body: Tree, **_: Any) -> Object:
        self.bodies.append(body["status"])
        self.revision += 10
        revision = self.revision
        await self.go.wait()
        return pod(revision, "True")


async def test_what_came_while_a_write_was_under_way_is_not_overlooked() -> None:
    server = Server()
    writer = PodStatusWriter(server, pod(10, "False"))  # type: ignore[arg-type]  # All it calls is patch.
    running = asyncio.create_task(writer.run())
    try:
        writer.put({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]})

        async def is_under_way() -> bool:
            return len(server.bodies) == 1

        await eventually(is_under_way)
        writer.update(pod(25, "False"))
        server.go.set()
        await writer.flush()
        assert len(server.bodies) == 2
        assert writer.current["conditions"] == [{"type": "Ready", "status": "True"}]
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_who_begins_again_writes_what_was_not_written() -> None:
    server = Server()
    writer = PodStatusWriter(server, pod(10, "False"))  # type: ignore[arg-type]  # All it calls is patch.
    writer.put({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]})
    first = asyncio.create_task(writer.run())

    async def is_under_way() -> bool:
        return len(server.bodies) == 1

    await eventually(is_under_way)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    server.go.set()
    again = asyncio.create_task(writer.run())
    try:
        async with asyncio.timeout(30):
            await writer.flush()
        assert len(server.bodies) == 2
    finally:
        again.cancel()
        await asyncio.gather(again, return_exceptions=True)
