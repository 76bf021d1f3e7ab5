from __future__ import annotations

import asyncio
import re

import pytest
from tests.kit.kubectl import Kubectl
from tests.kit.stream_node import StreamNode

PATIENCE = 30.0


async def test_all_that_a_container_said(kubectl: Kubectl, node: StreamNode) -> None:
    container = await node.start("web", "echo one; echo two >&2; echo three")
    await container.exited()
    assert sorted((await kubectl("logs", "web")).ok().splitlines()) == ["one", "three", "two"]


@pytest.mark.parametrize(
    ("flags", "lines"),
    [
        (("--tail=2",), "8\n9\n"),
        (("--tail=0",), ""),
        (("--since=1h",), "".join(f"{number}\n" for number in range(10))),
        (("--since-time=2100-01-01T00:00:00Z",), ""),
        (("--limit-bytes=5",), "0\n1\n2"),
        (("-c", "main", "--tail=1"), "9\n"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, tuple) else "",
)
async def test_a_part_of_it(kubectl: Kubectl, node: StreamNode, flags: tuple[str, ...], lines: str) -> None:
    container = await node.start("web", "for i in 0 1 2 3 4 5 6 7 8 9; do echo $i; done")
    await container.exited()
    assert (await kubectl("logs", "web", *flags)).ok() == lines


async def test_when_each_line_was_said(kubectl: Kubectl, node: StreamNode) -> None:
    container = await node.start("web", "echo hello")
    await container.exited()
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z hello\n", (await kubectl("logs", "web", "--timestamps")).ok()
    )


async def test_following_goes_on_until_the_container_ends(kubectl: Kubectl, node: StreamNode) -> None:
    container = await node.start("web", "echo ready; read answer; echo $answer", stdin=True)
    async with kubectl.started("logs", "-f", "web") as following:
        assert following.stdout is not None
        assert await asyncio.wait_for(following.stdout.readline(), PATIENCE) == b"ready\n"
        attached = await container.attach()
        await attached.send(b"goodbye\n")
        assert await asyncio.wait_for(following.stdout.read(), PATIENCE) == b"goodbye\n"
        assert await asyncio.wait_for(following.wait(), PATIENCE) == 0
        await attached.aclose()


async def test_the_instance_before(kubectl: Kubectl, node: StreamNode) -> None:
    await node.ended("web", await node.start("web", "echo first life"))
    await node.start("web", "echo second life; sleep 1000", instance=1)
    assert (await kubectl("logs", "web", "--previous")).ok() == "first life\n"


async def test_without_an_instance_before_it_says_so(kubectl: Kubectl, node: StreamNode) -> None:
    await node.start("web", "sleep 1000")
    refused = await kubectl("logs", "web", "--previous")
    assert refused.code == 1
    assert 'previous terminated container "main" in pod "web" not found' in refused.err


async def test_a_container_that_is_not_there(kubectl: Kubectl, node: StreamNode) -> None:
    await node.start("web", "sleep 1000")
    refused = await kubectl("logs", "web", "-c", "other")
    assert refused.code == 1
    assert "container other is not valid for pod web" in refused.err


async def test_what_was_said_last_is_there_after_the_end(kubectl: Kubectl, node: StreamNode) -> None:
    await node.ended("web", await node.start("web", "echo last words; exit 3"))
    assert (await kubectl("logs", "web")).ok() == "last words\n"
    assert (await kubectl("logs", "-f", "web")).ok() == "last words\n"


async def test_a_long_log_comes_whole(kubectl: Kubectl, node: StreamNode) -> None:
    container = await node.start("web", "seq 1 200000")
    await container.exited()
    assert (await kubectl("logs", "web")).ok() == "".join(f"{number}\n" for number in range(1, 200_001))
