from __future__ import annotations

import asyncio

from tests.kit.kubectl import Kubectl
from tests.kit.stream_node import StreamNode
from tests.node.streams.terminals import on_a_terminal

PATIENCE = 30.0
COUNTING = "i=0; while true; do i=$((i+1)); echo $i; sleep 0.05; done"


async def test_what_is_said_from_now_on_is_seen_and_the_container_goes_on(
    kubectl: Kubectl, node: StreamNode
) -> None:
    container = await node.start("web", COUNTING)
    async with kubectl.started("attach", "web") as attached:
        assert attached.stdout is not None
        first = int(await asyncio.wait_for(attached.stdout.readline(), PATIENCE))
        second = int(await asyncio.wait_for(attached.stdout.readline(), PATIENCE))
        assert second == first + 1
    ran = await kubectl("exec", "web", "--", "true")
    assert ran.code == 0
    assert not container.folder.joinpath("exit.json").exists()


async def test_input_goes_to_the_containers_own_program(kubectl: Kubectl, node: StreamNode) -> None:
    await node.start("web", 'while read line; do echo "heard $line"; done', stdin=True, stdin_once=True)
    attached = await kubectl("attach", "-i", "web", stdin="a\nb\n")
    assert attached.ok() == "heard a\nheard b\n"


async def test_it_ends_with_the_container(kubectl: Kubectl, node: StreamNode) -> None:
    await node.start("web", 'read line; echo "got $line"; exit 3', stdin=True)
    attached = await kubectl("attach", "-i", "web", stdin="x\n")
    assert attached.code == 0
    assert attached.out == "got x\n"


async def test_a_containers_terminal_is_a_persons_terminal(kubectl: Kubectl, node: StreamNode) -> None:
    await node.start("web", "exec sh -i", stdin=True, tty=True)
    async with on_a_terminal(kubectl, "attach", "-it", "web", rows=31, columns=71) as terminal:
        await terminal.type("until [ \"$(stty size)\" = '31 71' ]; do sleep 0.05; done; echo si''zed\n")
        await terminal.until("sized")
        await terminal.type("exit\n")
        await terminal.code()
