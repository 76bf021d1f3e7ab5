"""Before a master stops: the only vote goes to another. And what a leading pilot does, it does only for as long as it leads."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from tests.kit.fake_elasticsearch import beside

from pilothouse.api.kind_names import Pilot
from pilothouse.api.objects import Object
from pilothouse.pilot.driver import DesiredState, HookFailed
from pilothouse.pilot.drivers.elasticsearch.cluster_actions import ALLOCATION, HELD_BACK

NAME, OTHER = "es-demo-data-0", "es-demo-data-1"
EXCLUSIONS = "/_cluster/voting_config_exclusions"
MASTER = DesiredState(1, "hash", {"elasticsearch": {"roles": ["master", "data"]}})


class Played:
    """Two masters, one of which is asked."""

    def __init__(self, voters: list[str], *, excluded: tuple[str, ...] = ()) -> None:
        self._coordination = {
            "last_committed_config": voters,
            "voting_config_exclusions": [{"node_name": name} for name in excluded],
        }
        self.changed: list[tuple[str, str, Mapping[str, str]]] = []
        """What was asked for, other than to be told something."""

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        nodes = {"0": {"name": NAME}, "1": {"name": OTHER}}
        if request.method != "GET":
            self.changed.append((request.method, request.path, dict(request.query)))
        said: dict[str, Any] = {"nodes": nodes}
        if request.path.startswith("/_cluster/state"):
            metadata = {"cluster_uuid": "u", "cluster_coordination": self._coordination}
            said |= {"cluster_uuid": "u", "master_node": "0", "metadata": metadata}
        elif request.path == "/_cluster/settings":
            said = {"persistent": {ALLOCATION: HELD_BACK}}
        return web.json_response(said)

    @property
    def given_away(self) -> list[str]:
        """By whom."""
        return [
            query["node_names"]
            for method, path, query in self.changed
            if (method, path) == ("POST", EXCLUSIONS)
        ]


async def stopped(folder: Path, played: Played, version: str = "8.17.0") -> list[str]:
    """What is done before it stops, and by whom a vote is given away."""
    async with beside(folder, NAME, played.answer, version=version) as driver:
        for hook in driver.hooks("PreStop", MASTER):
            await hook.run()
    return played.given_away


async def test_who_has_the_only_vote_gives_it_to_the_other(tmp_path: Path) -> None:
    assert await stopped(tmp_path, Played(["0"])) == [NAME]


@pytest.mark.parametrize(
    "played",
    [
        pytest.param(Played(["1"]), id="the other has it"),
        pytest.param(Played(["0", "1", "2"]), id="others have one too"),
        pytest.param(Played(["0"], excluded=(OTHER,)), id="the other is to have none"),
    ],
)
async def test_nobody_else_does(tmp_path: Path, played: Played) -> None:
    assert await stopped(tmp_path, played) == []


async def test_before_version_7_there_are_no_votes(tmp_path: Path) -> None:
    assert await stopped(tmp_path, Played(["0"]), "6.8.23") == []


async def test_who_leads_no_longer_changes_nothing(tmp_path: Path) -> None:
    """What was held back would be let go, and a node that is to go excluded."""
    leaving = {"decommission": True, "elasticsearch": {"roles": ["data"]}}
    played = Played(["0"])
    async with beside(tmp_path, NAME, played.answer) as driver:
        peers = [pilot_of(OTHER, leaving)]
        with pytest.raises(HookFailed, match="another pilot"):
            await driver.lead(MASTER, peers, lambda: False)
        assert played.changed == []
        await driver.lead(MASTER, peers, lambda: True)
        assert ("PUT", "/_cluster/settings", {}) in played.changed


@pytest.mark.parametrize(("excluded", "reported"), [((OTHER,), [OTHER]), ((), None), (("a-persons",), None)])
async def test_who_has_not_got_its_vote_back_is_reported(
    tmp_path: Path, excluded: tuple[str, ...], reported: list[str] | None
) -> None:
    """By whoever leads: until it has, no other master may be restarted."""
    spec = {**MASTER.spec, "configuration": {"settings": {"cluster.name": "demo"}}}
    async with beside(tmp_path, NAME, Played(["0"], excluded=excluded).answer) as driver:
        peers = [pilot_of(each, dict(MASTER.spec)) for each in (NAME, OTHER)]
        facts = await driver.lead(DesiredState(1, "hash", spec), peers, lambda: True)
    assert facts.get("withoutVote") == reported


def pilot_of(name: str, spec: dict[str, Any]) -> Object:
    metadata = {"name": name, "namespace": "default", "uid": f"uid-of-{name}", "generation": 1}
    return Object(Pilot, {"metadata": metadata, "spec": spec, "status": {"phase": "Running"}})
