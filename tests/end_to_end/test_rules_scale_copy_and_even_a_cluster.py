"""Rules on a real Elasticsearch under load: a third data node, shards spread evenly over all three, a second copy and back, and
the third node drained and gone. Whatever was acknowledged is there at the end.

What they go by is what the pilots report, read by the managers themselves.

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

from pilothouse.api.kind_names import ApplicationAction, AutopilotRule
from pilothouse.api.objects import Object, Tree
from pilothouse.api.openstorage.actions import FINISHED, REDUNDANCY, SCALE
from pilothouse.api.policies.expansion import expand
from pilothouse.api.policies.policy_module import RuleFields
from pilothouse.api.policies.rule_fields import action, conditions, expression, rule

DOCUMENTS = 5_000
SECONDS = 600.0
NEVER = "cluster.routing.rebalance.enable"


class Rules:
    """Rules that act once, by what the pilots report."""

    def __init__(self, installation: ElasticsearchOnUp) -> None:
        self._api = installation.api
        self._count = 0

    async def acts(self, spec: RuleFields) -> Object:
        """The action of a rule when it has ended. The rule is deleted then."""
        self._count += 1
        name = f"rule-{self._count}"
        conditions = {**spec["conditions"], "for": 1}
        quick = {**spec, "conditions": conditions, "pollInterval": 2, "actionsCoolDownPeriod": 3600}
        tree: Tree = {
            "apiVersion": AutopilotRule.api_version,
            "kind": AutopilotRule.kind,
            "metadata": {"name": name},
            "spec": quick,
        }
        await self._api.create(AutopilotRule, tree)

        async def ended() -> Object | None:
            for one in (await self._api.list(ApplicationAction, "default")).objects:
                if one.spec["rule"] == name and one.status.get("phase") in FINISHED:
                    return one
            return None

        try:
            found = await eventually(ended, seconds=SECONDS)
        except AssertionError:
            seen = await self._api.get(AutopilotRule, name)
            raise AssertionError(f"{name} has not acted: {seen.status}") from None
        await self._api.delete(AutopilotRule, name)
        return found


def policy(name: str, **parameters: str) -> RuleFields:
    """The rule that a policy for Elasticsearch becomes."""
    chosen = {"name": name, "parameters": parameters}
    found = expand("demo", {"application": "elasticsearch", "policies": [chosen]})
    assert not found.problems, found.problems
    return found.rules[0].spec


def scaled(step: str, when: RuleFields, **bounds: str) -> RuleFields:
    return rule(conditions(when), object="workload", actions=(action(SCALE, step=step, **bounds),))


MANY_DOCUMENTS = expression(
    "max by (namespace, cluster) (elasticsearch_indices_docs)", "Gt", "1000", on="application"
)
MORE_THAN_TWO = expression(
    "max by (namespace, cluster) (elasticsearch_cluster_health_number_of_data_nodes)",
    "Gt",
    "2",
    on="application",
)
ONE_COPY_LESS = rule(
    conditions(MORE_THAN_TWO), object="application", actions=(action(REDUNDANCY, step="-1", min="1"),)
)


def outcome(done: Object) -> tuple[str, str]:
    return done.status["phase"], (done.condition("Complete") or {})["reason"]


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
        rules = Rules(installation)
        async with Traffic.through(await demo.address(), "books") as traffic:
            await traffic.make_index(shards=3, replicas=1)
            await traffic.load(DOCUMENTS)
            async with traffic.going_on():
                began = time.monotonic()
                grown = await rules.acts(scaled("1", MANY_DOCUMENTS, max="3"))
                assert outcome(grown) == ("Succeeded", "Scaled"), grown.status
                assert (grown.spec["target"]["from"], grown.spec["target"]["to"]) == ("2", "3")
                seen = await demo.until(lambda seen: seen.is_done and seen.nodes == 3)
                assert seen.cluster.spec["nodePools"][0]["replicas"] == 3
                managers = seen.cluster.managers("spec", "nodePools", {"name": "data"}, "replicas")
                assert managers[0] == "pilothouse-workload-scale"
                assert await shards(demo) == [0, 3, 3]

                await demo.until(lambda seen: seen.cluster.status.get("rebalance") == {"enabled": False})
                evened = await rules.acts(policy("uneven-shards", deviation="30"))
                assert outcome(evened) == ("Succeeded", "Even"), evened.status
                assert await shards(demo) == [2, 2, 2]
                settings = await demo.http("GET", "/_cluster/settings?flat_settings=true")
                assert not {name for name in settings["persistent"] if "rebalance" in name}, settings
                assert not any(each.spec.get("rebalance") for each in await demo.pilots())

                for to, copying in (("2", policy("few-copies", copies="2")), ("1", ONE_COPY_LESS)):
                    copied = await rules.acts(copying)
                    assert outcome(copied) == ("Succeeded", "CopiesKept"), copied.status
                    assert await copies(demo) == to

                before_drain = await demo.status()
                shrunk = await rules.acts(scaled("-1", MORE_THAN_TWO, min="2"))
                assert outcome(shrunk) == ("Succeeded", "Scaled"), shrunk.status
                seen = await demo.until(lambda seen: seen.is_done and seen.nodes == 2)
                assert await shards(demo) == [3, 3]
                assert len(before_drain.names) == 3
                print(f"all of it took {time.monotonic() - began:.0f} s")

            assert await traffic.lost() == {}
            # No database was restarted for any of it.
            assert all(not each.status.get("restarts") for each in seen.pilots)
