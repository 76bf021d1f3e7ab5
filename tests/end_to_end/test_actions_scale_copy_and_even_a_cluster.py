"""ApplicationActions on a real Elasticsearch under load: a third data node, shards spread evenly over all three, a second copy and back, and
the third node drained and gone. Whatever was acknowledged is there at the end.

The cluster keeps ``cluster.routing.rebalance.enable: none``, so that the third node stays empty until it is asked for.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from tests.kit.elasticsearch_on_up import Cluster, ElasticsearchOnUp, pool
from tests.kit.elasticsearch_traffic import Traffic
from tests.kit.waiting import eventually

from pilothouse.api.kind_names import ApplicationAction, ElasticsearchCluster, KindName, StatefulSet
from pilothouse.api.objects import Object, Tree
from pilothouse.api.openstorage.actions import FINISHED, REBALANCE, REDUNDANCY, SCALE

DOCUMENTS = 5_000
SECONDS = 600.0
NEVER = "cluster.routing.rebalance.enable"


class Actions:
    """Created by the test in the place of a rule."""

    def __init__(self, installation: ElasticsearchOnUp) -> None:
        self._api = installation.api
        self._count = 0

    async def done(self, noun: KindName, about: str, action: str, **target: str) -> Object:
        """The action when it has ended."""
        self._count += 1
        name = f"by-hand-{self._count}"
        found = await self._api.get(noun, about, "default")
        reference = {"apiVersion": noun.api_version, "kind": noun.kind, "name": about, "uid": found.uid}
        tree: Tree = {
            "apiVersion": ApplicationAction.api_version,
            "kind": ApplicationAction.kind,
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"rule": "by-hand", "object": reference, "action": action, "target": target},
        }
        await self._api.create(ApplicationAction, tree)

        async def ended() -> Object | None:
            seen = await self._api.get(ApplicationAction, name, "default")
            return seen if seen.status.get("phase") in FINISHED else None

        return await eventually(ended, seconds=SECONDS)


def outcome(action: Object) -> tuple[str, str]:
    return action.status["phase"], (action.condition("Complete") or {})["reason"]


async def shards(demo: Cluster) -> list[int]:
    """How many shards of the index each data node has, the fewest first."""
    nodes = await demo.http("GET", "/_cat/nodes?format=json&h=name")
    placed = await demo.http("GET", "/_cat/shards/books?format=json&h=node,state")
    names = [each["node"] for each in placed if each["state"] == "STARTED"]
    return sorted(names.count(each["name"]) for each in nodes)


async def copies(demo: Cluster) -> str:
    settings: Any = await demo.http("GET", "/books/_settings/index.number_of_replicas?flat_settings=true")
    return str(settings["books"]["settings"]["index.number_of_replicas"])


@pytest.mark.long
@pytest.mark.timeout(1800)
async def test_a_cluster_is_scaled_copied_and_evened_under_load(tmp_path: Path) -> None:
    async with ElasticsearchOnUp.open(tmp_path) as installation:
        demo = await installation.cluster("demo", pools=[pool("data", 2)], config={NEVER: "none"})
        await demo.until(lambda seen: seen.is_done)
        actions = Actions(installation)
        async with Traffic.through(await demo.address(), "books") as traffic:
            await traffic.make_index(shards=3, replicas=1)
            await traffic.load(DOCUMENTS)
            async with traffic.going_on():
                began = time.monotonic()
                grown = await actions.done(StatefulSet, "es-demo-data", SCALE, **{"from": "2", "to": "3"})
                assert outcome(grown) == ("Succeeded", "Scaled"), grown.status
                seen = await demo.until(lambda seen: seen.is_done and seen.nodes == 3)
                assert seen.cluster.spec["nodePools"][0]["replicas"] == 3
                managers = seen.cluster.managers("spec", "nodePools", {"name": "data"}, "replicas")
                assert managers[0] == "pilothouse-workload-scale"
                assert await shards(demo) == [0, 3, 3]

                await demo.until(lambda seen: seen.cluster.status.get("rebalance") == {"enabled": False})
                evened = await actions.done(ElasticsearchCluster, "demo", REBALANCE)
                assert outcome(evened) == ("Succeeded", "Even"), evened.status
                assert await shards(demo) == [2, 2, 2]
                settings = await demo.http("GET", "/_cluster/settings?flat_settings=true")
                assert not {name for name in settings["persistent"] if "rebalance" in name}, settings
                assert not any(each.spec.get("rebalance") for each in await demo.pilots())

                for to in ("2", "1"):
                    before = "" if to == "2" else "2"
                    copied = await actions.done(
                        ElasticsearchCluster, "demo", REDUNDANCY, **{"from": before, "to": to}
                    )
                    assert outcome(copied) == ("Succeeded", "CopiesKept"), copied.status
                    assert await copies(demo) == to

                before_drain = await demo.status()
                shrunk = await actions.done(StatefulSet, "es-demo-data", SCALE, **{"from": "3", "to": "2"})
                assert outcome(shrunk) == ("Succeeded", "Scaled"), shrunk.status
                seen = await demo.until(lambda seen: seen.is_done and seen.nodes == 2)
                assert await shards(demo) == [3, 3]
                assert len(before_drain.names) == 3
                print(f"all of it took {time.monotonic() - began:.0f} s")

            assert await traffic.lost() == {}
            # No database was restarted for any of it.
            assert all(not each.status.get("restarts") for each in seen.pilots)
