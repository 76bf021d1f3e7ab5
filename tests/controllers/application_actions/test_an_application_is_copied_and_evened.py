"""Actions on applications: the number of copies is a field of the cluster, and a request to rebalance is a field of one of its Pilots."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.controllers.application_actions.acted_workloads import Workloads, play

from pilothouse.api.kind_names import ApplicationAction, AutopilotRule, ElasticsearchCluster, Pilot
from pilothouse.api.objects import Object, Tree
from pilothouse.api.openstorage.actions import REBALANCE, REDUNDANCY
from pilothouse.base.rfc3339 import parse_time

NEVER: Tree = {"enabled": False}


def test_copies_are_set_and_waited_for() -> None:
    async def scenario(workloads: Workloads) -> None:
        cluster = await workloads.cluster()
        await workloads.fire(cluster, REDUNDANCY, **{"from": "", "to": "1"})
        demo = await workloads.api.get(ElasticsearchCluster, "demo", "default")
        assert demo.spec["redundancy"] == {"copies": 1}
        await workloads.condition(
            ElasticsearchCluster, "demo", "Redundant", "False", "Copies are being built."
        )
        await asyncio.sleep(600)
        assert await workloads.outcome() == ("Running", "Applied")
        assert await workloads.message() == "Copies are being built."
        await workloads.condition(ElasticsearchCluster, "demo", "Redundant", "True", "All have 1 copy.")
        await asyncio.sleep(5)
        assert await workloads.outcome() == ("Succeeded", "CopiesKept")

    play(scenario)


def test_a_workload_without_such_a_field_declines() -> None:
    async def scenario(workloads: Workloads) -> None:
        about = await workloads.set()
        for number, action in enumerate((REDUNDANCY, REBALANCE)):
            await workloads.fire(about, action, f"act-{number}", to="1")
            assert await workloads.outcome(f"act-{number}") == ("Declined", "NoCluster")

    play(scenario)


async def evened_cluster(workloads: Workloads, **report: Any) -> Object:
    cluster = await workloads.cluster()
    for name in ("es-demo-data-0", "es-demo-data-1"):
        await workloads.pilot(name, owner=cluster)
    await report_of(workloads, report or NEVER)
    await asyncio.sleep(5)
    return cluster


async def report_of(workloads: Workloads, report: Tree) -> None:
    await workloads.status(ElasticsearchCluster, "demo", rebalance=None)
    await workloads.status(ElasticsearchCluster, "demo", rebalance=report)


async def requests(workloads: Workloads) -> list[Tree]:
    found = (await workloads.api.list(Pilot, "default")).objects
    return [each.spec["rebalance"] for each in found if each.spec.get("rebalance")]


async def uid(workloads: Workloads) -> str:
    return (await workloads.api.get(ApplicationAction, "act-1", "default")).uid


def test_a_request_is_made_removed_and_put_back() -> None:
    async def scenario(workloads: Workloads) -> None:
        cluster = await evened_cluster(workloads)
        await workloads.fire(cluster, REBALANCE)
        (request,) = await requests(workloads)
        assert request["request"] == await uid(workloads)
        await report_of(
            workloads, {**NEVER, "request": request["request"], "state": "Allowed", "message": "a 5"}
        )
        await asyncio.sleep(3600)
        assert await workloads.outcome() == ("Running", "Rebalancing")
        assert await workloads.message() == "a 5"
        await report_of(
            workloads, {**NEVER, "request": request["request"], "state": "Even", "message": "a 3"}
        )
        await asyncio.sleep(5)
        assert await requests(workloads) == []
        assert await workloads.outcome() == ("Running", "PuttingBack")
        await report_of(workloads, NEVER)
        await asyncio.sleep(5)
        assert await workloads.outcome() == ("Succeeded", "Even")

    play(scenario)


def test_the_window_of_the_rule_ends_it() -> None:
    async def scenario(workloads: Workloads) -> None:
        window = {"timezone": "UTC", "windows": [{"startTime": "00:00", "endTime": "23:59"}]}
        rule = {
            "apiVersion": AutopilotRule.api_version,
            "kind": AutopilotRule.kind,
            "metadata": {"name": "busy"},
            "spec": {
                "conditions": {"expressions": [{"key": "up", "operator": "Gt", "values": ["0"]}]},
                "actions": [{"name": REBALANCE}],
                "actionWindow": window,
            },
        }
        await workloads.api.create(AutopilotRule, rule)
        cluster = await evened_cluster(workloads)
        now = workloads.bench.clock.now()
        left = 86340 - now % 86400
        await asyncio.sleep(max(0.0, left - 1800))
        await workloads.fire(cluster, REBALANCE)
        (request,) = await requests(workloads)
        assert parse_time(request["until"]) % 86400 == 86340
        await report_of(workloads, {**NEVER, "request": request["request"], "state": "Allowed"})
        await asyncio.sleep(1810)
        assert await requests(workloads) == []
        await report_of(workloads, NEVER)
        await asyncio.sleep(5)
        assert await workloads.outcome() == ("Failed", "NotEven")

    play(scenario)


def test_pilots_that_do_not_answer_are_not_waited_for_long() -> None:
    async def scenario(workloads: Workloads) -> None:
        cluster = await evened_cluster(workloads)
        await workloads.fire(cluster, REBALANCE)
        await asyncio.sleep(620)
        assert await requests(workloads) == []
        assert await workloads.outcome() == ("Failed", "NotTakenUp")

    play(scenario)


def test_a_request_that_somebody_removes_is_not_made_again() -> None:
    async def scenario(workloads: Workloads) -> None:
        cluster = await evened_cluster(workloads)
        await workloads.fire(cluster, REBALANCE)
        await workloads.api.patch(Pilot, "es-demo-data-0", "default", {"spec": {"rebalance": None}})
        await asyncio.sleep(60)
        assert await workloads.outcome() == ("Failed", "Undone")
        assert await requests(workloads) == []

    play(scenario)


def test_a_cluster_that_rebalances_at_any_time_is_left_alone() -> None:
    async def scenario(workloads: Workloads) -> None:
        cluster = await evened_cluster(workloads, enabled=True)
        await workloads.fire(cluster, REBALANCE)
        assert await workloads.outcome() == ("Declined", "Unneeded")

    play(scenario)


def test_whether_a_cluster_without_a_leader_rebalances_is_waited_for() -> None:
    async def scenario(workloads: Workloads) -> None:
        cluster = await workloads.cluster()
        await workloads.pilot("es-demo-data-0", owner=cluster)
        await workloads.fire(cluster, REBALANCE)
        assert await workloads.outcome() == ("", "")
        await report_of(workloads, NEVER)
        await workloads.condition(ElasticsearchCluster, "demo", "Available", "True")
        await asyncio.sleep(15)
        assert len(await requests(workloads)) == 1

    play(scenario)


def test_a_cluster_that_says_nothing_of_it_rebalances_at_any_time() -> None:
    async def scenario(workloads: Workloads) -> None:
        cluster = await workloads.cluster()
        await workloads.condition(ElasticsearchCluster, "demo", "Available", "True")
        await workloads.fire(cluster, REBALANCE)
        assert await workloads.outcome() == ("Declined", "Unneeded")

    play(scenario)
