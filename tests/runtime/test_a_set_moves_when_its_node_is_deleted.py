"""A node dies: its pods are given up, but stay, since nobody knows what runs there. It is deleted: they are made anew elsewhere."""

from __future__ import annotations

import asyncio
import random

from tests.kit.workloads import stateful_set
from tests.runtime.conftest import Bench

from pilothouse.api.kind_names import Node, Pod, StatefulSet
from pilothouse.api.objects import Object
from pilothouse.controllers.node_lifecycle import DEFAULT_TOLERATION, SILENCE_GRACE, node_lifecycle
from pilothouse.controllers.orphaned_pods import QUARANTINE, stranded_pods
from pilothouse.controllers.scheduling.scheduler import scheduling
from pilothouse.controllers.stateful_sets.stateful_set_controller import stateful_sets
from pilothouse.sim.simulated_node import SimulatedNode

ALL = [node_lifecycle, scheduling, stateful_sets, stranded_pods]


def a_node(bench: Bench, name: str) -> asyncio.Task[None]:
    model = SimulatedNode(bench.server.api(name), name, bench.clock, random.Random(name))
    return bench.start(model.run())


async def pods(bench: Bench) -> dict[str, Object]:
    return {one.name: one for one in (await bench.api.list(Pod)).objects}


def test_a_set_moves_when_its_node_is_deleted(bench: Bench) -> None:
    async def scenario(bench: Bench) -> None:
        nodes = {name: a_node(bench, name) for name in ("n1", "n2", "n3")}
        bench.manage(ALL)
        await bench.api.create(StatefulSet, stateful_set("web", replicas=3))
        await bench.settle(60)
        before = await pods(bench)
        assert all(one.is_true("Ready") for one in before.values())
        assert {one.spec["nodeName"] for one in before.values()} == set(nodes)

        lost = before["web-1"]
        name = lost.spec["nodeName"]
        nodes[name].cancel()
        await bench.settle(SILENCE_GRACE + 30)
        node = await bench.api.get(Node, name)
        ready = node.condition("Ready")
        assert ready is not None
        assert ready["status"] == "Unknown"
        assert not (await pods(bench))["web-1"].is_true("Ready")
        assert not (await pods(bench))["web-1"].deleting

        await bench.settle(DEFAULT_TOLERATION + 10)
        given_up = (await pods(bench))["web-1"]
        assert given_up.deleting
        assert given_up.uid == lost.uid

        await bench.api.delete(Node, name)
        await bench.settle(QUARANTINE + 60)
        after = await pods(bench)
        assert after["web-1"].uid != lost.uid
        assert after["web-1"].spec["nodeName"] != name
        assert all(one.is_true("Ready") for one in after.values())
        assert [after[one].uid for one in ("web-0", "web-2")] == [
            before[one].uid for one in ("web-0", "web-2")
        ]

    bench.run(scenario)


def test_a_node_that_comes_back_in_time_keeps_its_pods(bench: Bench) -> None:
    async def scenario(bench: Bench) -> None:
        tasks = {name: a_node(bench, name) for name in ("n1", "n2")}
        bench.manage(ALL)
        await bench.api.create(StatefulSet, stateful_set("web", replicas=2))
        await bench.settle(60)
        before = await pods(bench)
        tasks["n1"].cancel()
        await bench.settle(SILENCE_GRACE + 100)
        assert (await bench.api.get(Node, "n1")).spec["taints"]
        a_node(bench, "n1")
        await bench.settle(DEFAULT_TOLERATION + 60)
        node = await bench.api.get(Node, "n1")
        assert node.is_true("Ready")
        assert not node.spec.get("taints")
        assert {one.uid for one in (await pods(bench)).values()} == {one.uid for one in before.values()}

    bench.run(scenario)
