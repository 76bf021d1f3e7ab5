"""Pods that were sent to a node past the scheduler: those beyond its capacity fail, as kubelet has them fail."""

from __future__ import annotations

import msgspec
from tests.node.stage import Stage, app, phase, state

from pilothouse.api.kind_names import Node


def test_pods_beyond_the_capacity_fail_and_those_that_go_make_room(stage: Stage) -> None:
    stage.settings = msgspec.structs.replace(stage.settings, max_pods=2)

    async def scene() -> None:
        for name in ("a", "b"):
            await stage.pod({"containers": [app()]}, name)
            await stage.until(lambda pod: phase(pod) == "Running", name)
        node = await stage.api.get(Node, "n1")
        assert node.status["allocatable"]["pods"] == "2"
        await stage.pod({"containers": [app()]}, "c")
        refused = await stage.until(lambda pod: phase(pod) == "Failed", "c")
        said = "Node didn't have enough resource: pods, requested: 1, used: 2, capacity: 2"
        assert refused.status["reason"] == "OutOfpods"
        assert refused.status["message"] == f"Pod was rejected: {said}"
        assert state(refused) != "running"
        assert ("OutOfpods", said) in await stage.events("c")
        # The next agent does not put out those that run.
        await stage.restart_agent()
        await stage.delete("a")
        await stage.until_gone("a")
        assert phase(await stage.get("b")) == "Running"
        await stage.pod({"containers": [app()]}, "d")
        await stage.until(lambda pod: phase(pod) == "Running", "d")

    stage.play(scene)


def test_of_many_that_come_at_once_as_many_are_taken_as_there_is_room_for(stage: Stage) -> None:
    stage.settings = msgspec.structs.replace(stage.settings, max_pods=3)

    async def scene() -> None:
        names = [f"p{number}" for number in range(8)]
        for name in names:
            await stage.pod({"containers": [app()]}, name)
        stage.start_agent()
        phases = [
            phase(await stage.until(lambda pod: phase(pod) in ("Running", "Failed"), name)) for name in names
        ]
        assert sorted(phases) == ["Failed"] * 5 + ["Running"] * 3

    stage.play(scene, agent=False)
