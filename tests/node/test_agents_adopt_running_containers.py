"""Containers whose agent or shim ends before they do."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.kit.waiting import eventually
from tests.node.real import FOREVER, is_there, real_node, shell
from tests.node.stage import container, is_ready, phase

from pilothouse.api.objects import Tree


async def test_an_agent_adopts_what_runs(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        await node.pod({"containers": [shell(FOREVER)]})
        before = await node.until(is_ready)
        (one,) = await node.left()
        await node.stop_agent()
        node.start_agent()
        await node.delete()
        await node.until_gone()
        assert await node.left() == []
        assert not is_there(f"/proc/{one.pid}")
        assert container(before)["restartCount"] == 0


async def test_an_end_without_an_agent_is_found_with_its_code(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        script = "trap 'exit 9' TERM; echo trapped; while :; do sleep 0.05; done"
        await node.pod({"restartPolicy": "Never", "containers": [shell(script)]})
        await node.until(is_ready)
        (one,) = await node.left()
        assert node.agent is not None
        log = node.agent.container_index.find("default", "web-0", "app").log

        async def trapped() -> bool:
            return "trapped" in log.read_text()

        await eventually(trapped)
        await node.stop_agent()
        one.kill(signal.SIGTERM)
        await one.exited()
        node.start_agent()
        pod = await node.until(lambda pod: phase(pod) == "Failed")
        assert container(pod)["state"]["terminated"]["exitCode"] == 9


async def test_a_shim_that_is_killed_takes_its_container_with_it_and_both_come_back(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        await node.pod({"containers": [shell(FOREVER)]})
        await node.until(is_ready)
        (one,) = await node.left()
        os.kill(one.state.shim.pid, signal.SIGKILL)
        pod = await node.until(lambda pod: container(pod).get("restartCount") == 1 and is_ready(pod))
        assert container(pod)["lastState"]["terminated"]["reason"] == "ContainerStatusUnknown"
        assert len(await node.left()) == 1


async def test_the_log_of_the_instance_before_is_kept(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        mounts: Tree = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
        script = f"test -e /data/x && {{ echo second; {FOREVER}; }}; touch /data/x; echo first; exit 1"
        await node.pod(
            {"containers": [shell(script, **mounts)], "volumes": [{"name": "data", "emptyDir": {}}]}
        )
        await node.until(lambda pod: container(pod).get("restartCount") == 1 and is_ready(pod))
        assert node.agent is not None
        now = node.agent.container_index.find("default", "web-0", "app")
        before = node.agent.container_index.find("default", "web-0", "app", previous=True)
        assert "first" in before.log.read_text()

        async def said() -> bool:
            return "second" in now.log.read_text()

        await eventually(said)
        assert now.container is not None
        assert before.container is None
