from __future__ import annotations

from pathlib import Path

from tests.node.real import real_node, shell
from tests.node.stage import container, is_ready, phase


async def test_a_script_runs_to_its_end(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        pod = await node.pod({"restartPolicy": "Never", "containers": [shell("echo hello; exit 0")]})
        await node.until(lambda pod: phase(pod) == "Succeeded")
        assert node.log(pod) == "hello"


async def test_a_server_runs_until_it_is_deleted(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        await node.pod({"containers": [shell("trap 'exit 0' TERM; while :; do sleep 0.1; done")]})
        await node.until(is_ready)
        await node.delete()
        await node.until_gone()
        assert await node.left() == []


async def test_the_exit_code_is_told(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        await node.pod(
            {"restartPolicy": "Never", "containers": [shell("echo bye >/dev/termination-log; exit 3")]}
        )
        pod = await node.until(lambda pod: phase(pod) == "Failed")
        ended = container(pod)["state"]["terminated"]
        assert (ended["exitCode"], ended["reason"], ended["message"]) == (3, "Error", "bye\n")
