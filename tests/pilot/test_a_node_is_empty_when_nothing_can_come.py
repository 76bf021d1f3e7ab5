"""When an Elasticsearch node says that it is empty: only what was seen after it was excluded counts, and only an exclusion for this very decommission."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from tests.kit.played_elastic import beside

from pilothouse.pilot.drivers.elasticsearch.leading import DECOMMISSIONS, EXCLUDED
from pilothouse.pilot.driving import Wish

NAME, OTHER = "es-demo-data-2", "es-demo-data-0"


class Played:
    """An Elasticsearch of two nodes, that answers what a pilot asks of it."""

    def __init__(self) -> None:
        self.settings: dict[str, str] = {}
        self.here: list[dict[str, Any]] = []
        """The shards on the node."""
        self.nowhere: list[dict[str, Any]] = []
        """Those that no node has been given."""
        self.meanwhile: Callable[[], None] = lambda: None
        """What happens when its settings have just been asked for."""

    def excluded_for(self, decommission: str) -> None:
        self.settings = {EXCLUDED: NAME, DECOMMISSIONS: f"{NAME}={decommission}"}

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path == "/_cluster/settings":
            said = web.json_response({"persistent": dict(self.settings)})
            self.meanwhile()
            return said
        if request.path.startswith("/_cluster/state"):
            return web.json_response(self._state())
        if request.path.startswith("/_nodes/data:true"):
            return web.json_response({"nodes": {"1": {"name": OTHER}, "2": {"name": NAME}}})
        return web.json_response({"nodes": {"2": {"indices": {"docs": {"count": len(self.here)}}}}})

    def _state(self) -> dict[str, Any]:
        return {
            "cluster_uuid": "u",
            "master_node": "1",
            "nodes": {"1": {"name": OTHER}, "2": {"name": NAME}},
            "routing_nodes": {"unassigned": self.nowhere, "nodes": {"1": [], "2": self.here}},
        }


Left = Callable[[int], Awaitable[str | None]]
"""What the pilot finds left on the node, in a generation of its Pilot."""


@pytest.fixture
async def played(tmp_path: Path) -> AsyncIterator[tuple[Played, Left]]:
    elasticsearch = Played()
    async with beside(tmp_path, NAME, elasticsearch.answer) as driver:

        async def left(generation: int) -> str | None:
            spec = {"decommission": True, "elasticsearch": {"roles": ["data"]}}
            return (await driver.observe(Wish(generation, "hash", spec, uid="mine"))).left

        yield elasticsearch, left


async def test_it_is_empty_once_it_is_excluded_and_holds_nothing(played: tuple[Played, Left]) -> None:
    elasticsearch, left = played
    assert "has not excluded this node yet" in str(await left(1))
    elasticsearch.excluded_for("mine/1")
    elasticsearch.here = [{"index": "books", "shard": 0, "state": "STARTED"}]
    assert await left(1) == "1 shard is left"
    elasticsearch.here = []
    assert await left(1) == ""


async def test_an_exclusion_of_an_earlier_decommission_does_not_count(played: tuple[Played, Left]) -> None:
    elasticsearch, left = played
    elasticsearch.excluded_for("mine/1")
    # Cancelled and asked for again; the leader is behind, and is about to take the exclusion back.
    assert "has not excluded this node yet" in str(await left(3))
    elasticsearch.excluded_for("mine/3")
    assert await left(3) == ""
    elasticsearch.excluded_for("of an earlier Pilot/3")
    assert "has not excluded this node yet" in str(await left(3))


async def test_a_shard_that_comes_just_before_the_exclusion_is_not_overlooked(
    played: tuple[Played, Left],
) -> None:
    elasticsearch, left = played

    def comes() -> None:
        elasticsearch.here = [{"index": "books", "shard": 0, "state": "INITIALIZING"}]
        elasticsearch.excluded_for("mine/1")

    elasticsearch.meanwhile = comes
    assert await left(1) != ""
    assert await left(1) == "1 shard is left"


async def test_it_is_not_empty_while_a_shard_is_on_no_node_and_may_be_on_its_disk(
    played: tuple[Played, Left],
) -> None:
    elasticsearch, left = played
    elasticsearch.excluded_for("mine/1")

    def nowhere(primary: bool, source: str) -> list[dict[str, Any]]:
        shard = {"index": "books", "shard": 0, "primary": primary, "state": "UNASSIGNED"}
        return [{**shard, "recovery_source": {"type": source}}]

    # It has just been started anew, or can't open what it has: nobody else has it either.
    elasticsearch.nowhere = nowhere(True, "EXISTING_STORE")
    assert "shards of books are on no node" in str(await left(1))
    # A copy that has no place yet, and an index that nothing was ever written to, are not here.
    elasticsearch.nowhere = nowhere(False, "PEER")
    assert await left(1) == ""
    elasticsearch.nowhere = nowhere(True, "EMPTY_STORE")
    assert await left(1) == ""
