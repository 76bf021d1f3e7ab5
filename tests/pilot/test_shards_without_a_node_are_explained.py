"""A cluster that stays Yellow: the leading pilot finds out why, and asks no more often than it has to."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from tests.kit.fake_elasticsearch import beside

from pilothouse.api.objects import Tree
from pilothouse.pilot.driver import DesiredState
from pilothouse.pilot.drivers.elasticsearch.allocation_explain import EXPLAIN, AllocationExplain, explanation

FULL = (
    "the node is above the low watermark cluster setting [cluster.routing.allocation.disk.watermark.low=85%]"
)
HAS_IT = {"decider": "same_shard", "decision": "NO", "explanation": "a copy is on node [x7Zq]"}
IS_FULL = {"decider": "disk_threshold", "decision": "NO", "explanation": FULL}
ANSWER: Tree = {
    "index": "logs",
    "shard": 1,
    "primary": False,
    "allocate_explanation": "Elasticsearch isn't allowed to allocate this shard to any of the nodes",
    "node_allocation_decisions": [
        {"node_name": "es-demo-data-0", "deciders": [HAS_IT, IS_FULL]},
        {"node_name": "es-demo-data-2", "deciders": [IS_FULL]},
        {"node_name": "es-demo-data-1", "deciders": [IS_FULL]},
    ],
}


def yellow(unassigned: int = 2, *, settled: bool = True) -> Tree:
    return {"health": "Yellow", "nodes": 3, "settled": settled, "shards": {"unassigned": unassigned}}


def test_what_the_nodes_have_against_a_shard_is_told() -> None:
    assert explanation(ANSWER) == (
        f"the replica of shard 1 of logs can't be allocated: es-demo-data-1, es-demo-data-2: {FULL}; "
        "es-demo-data-0: it has a copy already"
    )


def test_where_no_node_is_named_elasticsearch_has_the_word() -> None:
    answer = {**ANSWER, "primary": True, "node_allocation_decisions": []}
    assert explanation(answer).startswith(
        "the primary of shard 1 of logs can't be allocated: Elasticsearch isn't allowed"
    )
    assert explanation({}) == ""


def test_a_long_answer_is_cut() -> None:
    decisions = [
        {
            "node_name": f"n{number}",
            "deciders": [{"decider": "filter", "explanation": f"{number} {'x' * 300}"}],
        }
        for number in range(50)
    ]
    assert len(explanation({**ANSWER, "node_allocation_decisions": decisions})) == 600


def test_it_is_asked_once_for_each_change_and_now_and_then_again() -> None:
    inquiry = AllocationExplain()
    assert inquiry.is_due(yellow(), 0)
    inquiry.learn(ANSWER)
    assert not inquiry.is_due(yellow(), 299)
    assert inquiry.is_due(yellow(), 300)
    assert inquiry.is_due(yellow(1), 301)
    assert not inquiry.is_due(yellow(1), 302)


def test_nothing_is_asked_or_told_while_shards_move_or_have_a_place() -> None:
    inquiry = AllocationExplain()
    for facts in (yellow(settled=False), yellow(0), {"health": "Green", "settled": True}):
        assert not inquiry.is_due(facts, 0)
    assert inquiry.is_due(yellow(), 0)
    inquiry.learn(ANSWER)
    assert not inquiry.is_due(yellow(settled=False), 1)
    assert inquiry.answer == ""


class Played:
    """A cluster of one node that answers what a leading pilot asks of it."""

    def __init__(self) -> None:
        self.unassigned = 1
        self.explains: Tree | None = ANSWER
        self.asked: Counter[str] = Counter()

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        self.asked[request.path] += 1
        said: dict[str, Any] = {}
        if request.path == "/_cluster/health":
            status = "yellow" if self.unassigned else "green"
            said = {"status": status, "number_of_nodes": 1, "unassigned_shards": self.unassigned}
        elif request.path == EXPLAIN:
            if self.explains is None:
                return web.json_response({"error": {"reason": "no longer"}}, status=400)
            said = self.explains
        return web.json_response(said)


@pytest.fixture
async def played(tmp_path: Path) -> AsyncIterator[tuple[Played, Callable[[], Awaitable[Tree]]]]:
    elasticsearch = Played()
    async with beside(tmp_path, "es-demo-data-0", elasticsearch.answer) as driver:
        yield elasticsearch, lambda: driver.lead(DesiredState(1, "hash", {}), (), lambda: True)


async def test_the_leading_pilot_reports_it(played: tuple[Played, Callable[[], Awaitable[Tree]]]) -> None:
    elasticsearch, lead = played
    for _ in range(3):
        assert "above the low watermark" in (await lead())["shards"]["explanation"]
    assert elasticsearch.asked[EXPLAIN] == 1
    elasticsearch.unassigned = 0
    assert "explanation" not in (await lead())["shards"]
    assert elasticsearch.asked[EXPLAIN] == 1


async def test_a_cluster_that_does_not_explain_itself_is_led_all_the_same(
    played: tuple[Played, Callable[[], Awaitable[Tree]]],
) -> None:
    elasticsearch, lead = played
    elasticsearch.explains = None
    facts = await lead()
    assert (facts["health"], facts["shards"]["unassigned"]) == ("Yellow", 1)
    assert "explanation" not in facts["shards"]
