from __future__ import annotations

from tests.kit.kubectl import Kubectl
from tests.kit.stream_node import StreamNode


async def test_all_that_a_container_said(kubectl: Kubectl, node: StreamNode) -> None:
    container = await node.start("web", "echo one; echo two >&2; echo three")
    await container.exited()
    assert sorted((await kubectl("logs", "web")).ok().splitlines()) == ["one", "three", "two"]
