"""The plain life of a pod: bound, started, ready, deleted, gone."""

from __future__ import annotations

import asyncio

from tests.kit.fake_machine import FakeProgram
from tests.node.stage import Stage, app, container, is_ready, phase, state

from pilothouse.api.kind_names import Node


def test_a_pod_that_is_bound_runs_and_is_ready(stage: Stage) -> None:
    async def scene() -> None:
        await stage.pod({"containers": [app()]})
        pod = await stage.until(is_ready)
        assert phase(pod) == "Running"
        assert container(pod)["ready"] is True
        assert container(pod)["started"] is True
        assert container(pod)["restartCount"] == 0
        assert pod.status["podIP"] == "127.9.0.1"
        assert pod.status["startTime"]

    stage.play(scene)


def test_a_deleted_pod_is_stopped_and_then_gone(stage: Stage) -> None:
    async def scene() -> None:
        stage.machine.cast["app"] = FakeProgram(stops_in=3.0)
        pod = await stage.pod({"containers": [app()]})
        await stage.until(is_ready)
        await stage.delete()
        await asyncio.sleep(2)
        assert await stage.find() is not None
        await stage.until_gone()
        assert stage.machine.running == []
        assert pod.uid in stage.volumes.released
        assert pod.uid in stage.addresses.released
        assert not (stage.settings.pods / pod.uid).exists()

    stage.play(scene)


def test_the_node_is_ready(stage: Stage) -> None:
    async def scene() -> None:
        assert stage.agent is not None
        await stage.agent.registration.registered()
        node = await stage.api.get(Node, "n1")
        assert node.is_true("Ready")
        assert node.status["capacity"]["pods"] == "110"

    stage.play(scene)


def test_a_container_that_ends_is_started_again(stage: Stage) -> None:
    async def scene() -> None:
        stage.machine.cast["app"] = [FakeProgram(runs=5.0, code=1), FakeProgram()]
        await stage.pod({"containers": [app()]})
        pod = await stage.until(lambda pod: container(pod).get("restartCount") == 1)
        pod = await stage.until(is_ready)
        assert state(pod) == "running"
        assert container(pod)["lastState"]["terminated"]["exitCode"] == 1

    stage.play(scene)
