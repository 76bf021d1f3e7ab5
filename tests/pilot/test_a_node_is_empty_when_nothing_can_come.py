"""When an Elasticsearch node says that it is empty: only what was seen after it was excluded counts, and only an exclusion for this very decommission."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from tests.kit.fake_elasticsearch import beside

from pilothouse.pilot.driver import DesiredState, Observation
from pilothouse.pilot.drivers.elasticsearch.cluster_actions import DECOMMISSIONS, EXCLUDED

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
        self.there: list[dict[str, Any]] = []
        """The shards on the other node."""
        self.documents: int | None = None
        """That the node says it has; else one for each shard."""

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
        count = len(self.here) if self.documents is None else self.documents
        return web.json_response({"nodes": {"2": {"indices": {"docs": {"count": count}}}}})

    def _state(self) -> dict[str, Any]:
        return {
            "cluster_uuid": "u",
            "master_node": "1",
            "nodes": {"1": {"name": OTHER}, "2": {"name": NAME}},
            "routing_nodes": {"unassigned": self.nowhere, "nodes": {"1": self.there, "2": self.here}},
        }


Left = Callable[[int], Awaitable[str | None]]
"""What the pilot finds left on the node, in a generation of its Pilot."""
Observe = Callable[[int], Awaitable[Observation]]


@pytest.fixture
async def observed(tmp_path: Path) -> AsyncIterator[tuple[Played, Observe]]:
    elasticsearch = Played()
    async with beside(tmp_path, NAME, elasticsearch.answer) as driver:

        async def observe(generation: int) -> Observation:
            spec = {"decommission": True, "elasticsearch": {"roles": ["data"]}}
            return await driver.observe(DesiredState(generation, "hash", spec, uid="mine"))

        yield elasticsearch, observe


@pytest.fixture
def played(observed: tuple[Played, Observe]) -> tuple[Played, Left]:
    elasticsearch, observe = observed

    async def left(generation: int) -> str | None:
        return (await observe(generation)).left

    return elasticsearch, left


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


async def test_copies_that_have_nowhere_to_go_are_named_and_not_called_nothing(
    observed: tuple[Played, Observe],
) -> None:
    """More copies are asked for than there are nodes: the other has one of each."""
    elasticsearch, observe = observed
    elasticsearch.excluded_for("mine/1")
    elasticsearch.here = [{"index": "books", "shard": n, "state": "STARTED"} for n in range(4)]
    elasticsearch.there, elasticsearch.documents = list(elasticsearch.here), 5001
    seen = await observe(1)
    assert seen.left == ""
    assert (seen.status["shards"], seen.status["documents"]) == (4, 5001)
    assert "on the nodes that stay. 4 copies of shards (5001 documents) are still here" in seen.surplus


async def test_shards_that_have_moved_count_until_the_node_has_let_go_of_them(
    observed: tuple[Played, Observe],
) -> None:
    elasticsearch, observe = observed
    elasticsearch.excluded_for("mine/1")
    # The master has moved them; the node itself has not heard of it yet.
    elasticsearch.documents = 5001
    seen = await observe(1)
    assert seen.left == "5001 documents of shards that have moved away are still being removed"
    elasticsearch.documents = 0
    seen = await observe(1)
    assert (seen.left, seen.surplus) == ("", "")
    assert (seen.status["shards"], seen.status["documents"]) == (0, 0)


async def test_what_it_holds_is_asked_after_what_is_left(observed: tuple[Played, Observe]) -> None:
    """Else it could say that it is empty, and what it held before that."""
    elasticsearch, observe = observed
    elasticsearch.here = [{"index": "books", "shard": 0, "state": "STARTED"}]
    elasticsearch.excluded_for("mine/1")
    elasticsearch.meanwhile = elasticsearch.here.clear
    seen = await observe(1)
    assert (seen.left, seen.status["shards"], seen.status["documents"]) == ("", 0, 0)
