"""The leading pilot allows rebalancing while a Pilot asks for it, and whichever leads at the end puts it back as it was."""

from __future__ import annotations

from typing import Any

import pytest

from pilothouse.api.kind_names import Pilot
from pilothouse.api.objects import Object, Tree
from pilothouse.base.rfc3339 import format_time
from pilothouse.pilot.drivers.elasticsearch.cluster_state import ClusterState
from pilothouse.pilot.drivers.elasticsearch.rebalance import (
    REBALANCE,
    REMEMBERED,
    RebalanceDecision,
    is_even,
    rebalance_decision,
    shards_by_node,
)

NOW = 1_000_000.0
UNEVEN = {"a": 5, "b": 5, "c": 0}
EVEN = {"a": 4, "b": 3, "c": 3}


def pilot(name: str, *, request: str = "", until: float = NOW + 600) -> Object:
    spec: Tree = {"elasticsearch": {"roles": ["data"]}}
    if request:
        spec["rebalance"] = {"request": request, "until": format_time(until)}
    return Object(Pilot, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})


class Cluster:
    """Settings of an Elasticsearch that keep to what leaders decide."""

    def __init__(self, *, configured: str = "none", persistent: Tree | None = None) -> None:
        self.settings: Tree = dict(persistent or {})
        self.configured = {REBALANCE: configured} if configured else {}

    def led(
        self, *pilots: Object, shards: dict[str, int] = UNEVEN, now: float = NOW, **seen: Any
    ) -> RebalanceDecision:
        """By a pilot that knows nothing of what was before."""
        seen = {"moving": False, "still": False, **seen}
        decision = rebalance_decision(pilots, self.settings, self.configured, shards, now=now, **seen)
        for name, value in decision.settings.items():
            if value is None:
                self.settings.pop(name, None)
            else:
                self.settings[name] = value
        return decision

    @property
    def allows(self) -> bool:
        return (self.settings.get(REBALANCE) or self.configured.get(REBALANCE) or "all") == "all"


ASKING = pilot("a", request="r1")


def state_of(decision: RebalanceDecision) -> str:
    return str((decision.facts or {}).get("state", ""))


@pytest.mark.parametrize("persistent", [{}, {REBALANCE: "none"}])
def test_from_the_request_to_the_end(persistent: Tree) -> None:
    cluster = Cluster(configured="" if persistent else "none", persistent=persistent)
    assert cluster.led(pilot("a")).facts == {"enabled": False}
    assert state_of(cluster.led(ASKING)) == "Allowed"
    assert cluster.allows
    assert state_of(cluster.led(ASKING, moving=True)) == "Allowed"
    assert state_of(cluster.led(ASKING, shards=EVEN, moving=True)) == "Allowed"
    assert state_of(cluster.led(ASKING, shards=EVEN)) == "Even"
    assert not cluster.allows
    # It is not begun again while the request is there, whatever the shards do.
    assert state_of(cluster.led(ASKING)) == "Even"
    assert not cluster.allows
    assert cluster.led(pilot("a")).facts == {"enabled": False}
    assert cluster.settings == persistent


def test_a_leader_that_dies_is_followed_by_one_that_puts_it_back() -> None:
    cluster = Cluster(persistent={REBALANCE: "none"}, configured="")
    cluster.led(ASKING)
    assert cluster.allows
    # The request went while nobody led.
    assert cluster.led(pilot("a")).facts == {"enabled": False}
    assert cluster.settings == {REBALANCE: "none"}


def test_its_time_is_limited() -> None:
    cluster = Cluster()
    cluster.led(ASKING)
    assert state_of(cluster.led(ASKING, now=NOW + 600)) == "Expired"
    assert not cluster.allows
    late = Cluster()
    assert state_of(late.led(ASKING, now=NOW + 600)) == "Expired"
    assert late.settings == {}


def test_shards_that_do_not_move_any_more_are_as_even_as_they_get() -> None:
    cluster = Cluster()
    cluster.led(ASKING)
    decision = cluster.led(ASKING, still=True)
    assert state_of(decision) == "Even"
    assert "Elasticsearch moves nothing more" in (decision.facts or {})["message"]
    assert not cluster.allows


def test_what_lies_evenly_is_not_touched() -> None:
    cluster = Cluster()
    assert state_of(cluster.led(ASKING, shards=EVEN)) == "Even"
    assert REBALANCE not in cluster.settings


@pytest.mark.parametrize("setting", ["", "all", "primaries"])
def test_a_cluster_that_rebalances_anyway_needs_no_request(setting: str) -> None:
    cluster = Cluster(configured=setting)
    decision = cluster.led(ASKING)
    assert (state_of(decision), decision.settings) == ("Unneeded", {})
    assert (decision.facts or {})["enabled"]
    assert cluster.led(pilot("a")).facts is None


def test_somebody_who_forbids_it_meanwhile_is_obeyed() -> None:
    cluster = Cluster()
    cluster.led(ASKING)
    cluster.settings[REBALANCE] = "none"
    assert state_of(cluster.led(ASKING)) == "Stopped"
    assert not cluster.allows


def test_another_request_is_another_turn() -> None:
    cluster = Cluster()
    cluster.led(ASKING)
    cluster.led(ASKING, shards=EVEN)
    assert state_of(cluster.led(pilot("b", request="r2"))) == "Allowed"
    assert cluster.settings[REMEMBERED] == "allowed/r2/"


def test_only_data_nodes_that_stay_are_counted() -> None:
    leaving = Object(
        Pilot,
        {
            "metadata": {"name": "c", "namespace": "default"},
            "spec": {"decommission": True, "elasticsearch": {"roles": ["data"]}},
        },
    )
    state = ClusterState(names={"1": "a", "2": "b", "3": "c", "4": "other"}, shards={"1": 3, "3": 9, "4": 2})
    assert shards_by_node([pilot("a"), pilot("b"), leaving], state) == {"a": 3, "b": 0}
    assert is_even({})
    assert not is_even({"a": 3, "b": 0})
