"""Upgrades: pool by pool, non-masters first, the highest ordinal first, one node at a time."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kit.controller_harness import reasons
from tests.kit.elasticsearch_harness import (
    ElasticsearchHarness,
    elastic,
    partitions,
    pool,
    replicas_set,
    writes,
    wrote,
)
from tests.kit.elasticsearch_upgrade import NEW, OLD, image_of, images, the_set, three_nodes

from pilothouse.api.kind_names import ElasticsearchCluster, Lease, Pilot, Pod
from pilothouse.api.navigator.conditions import OUT_OF_TOUCH
from pilothouse.api.navigator.labels import VERSION
from pilothouse.api.objects import Object
from pilothouse.controllers.elasticsearch.cluster_controller import elasticsearch_clusters
from pilothouse.controllers.elasticsearch.steps.restart_gate import SHUT_OUT_AFTER
from pilothouse.runtime.intents import Intent, PatchObject, RecordEvent, Update, Wait


def test_nav_U01_the_first_step_is_the_highest_pod_and_the_image() -> None:
    sea, test = three_nodes()
    sea.edit(test, version=NEW)
    assert partitions(sea.step(elasticsearch_clusters, test)) == [2]
    assert image_of(the_set(sea)).endswith(f":{NEW}")
    assert the_set(sea).annotations[VERSION] == OLD


def test_nav_U02_the_next_when_the_one_before_reports_the_version() -> None:
    sea, test = three_nodes()
    sea.edit(test, version=NEW)
    sea.sail(test, rounds=2)
    assert images(sea) == [OLD, OLD, NEW]
    sea.sail(test, rounds=1)
    assert the_set(sea).at("spec", "updateStrategy", "rollingUpdate", "partition") == 1


def test_nav_U03_nothing_while_data_is_missing() -> None:
    sea, test = three_nodes()
    sea.health = "Red"
    sea.sail(test)
    sea.edit(test, version=NEW)
    intents = sea.decided(test)
    assert writes(intents, "StatefulSet") == []
    assert reasons(intents) == ["Red"]
    assert [intent.event for intent in intents if isinstance(intent, RecordEvent)] == ["ErrUpdateVersion"]


def test_nav_U04_nothing_while_a_node_is_down() -> None:
    sea, test = three_nodes()
    sea.says["es-test-data-0"] = {"ready": False}
    sea.sail(test)
    sea.edit(test, version=NEW)
    intents = sea.decided(test)
    assert writes(intents, "StatefulSet") == []
    assert reasons(intents) == ["NodeNotReady"]


def test_nav_U05_the_version_is_reached_when_all_pilots_report_it() -> None:
    sea, test = three_nodes()
    sea.edit(test, version=NEW)
    sea.sail(test)
    assert images(sea) == [NEW] * 3
    assert the_set(sea).annotations[VERSION] == NEW
    status = sea.status(test)
    assert status["version"] == NEW
    assert status["nodePools"]["data"]["updatedReplicas"] == 3


def test_nav_U06_a_node_that_still_reports_the_old_version_is_waited_for() -> None:
    sea, test = three_nodes()
    sea.says["es-test-data-2"] = {"version": OLD}
    sea.edit(test, version=NEW)
    sea.sail(test)
    assert images(sea) == [OLD, OLD, NEW]
    intents = sea.decided(test)
    assert not wrote(intents)
    assert (
        "es-test-data-2 reports version 6.8.22"
        in sea.of(ElasticsearchCluster, "test").condition(  # type: ignore[index]
            "Progressing"
        )["message"]
    )


def test_nav_U07_nothing_while_the_health_is_unknown() -> None:
    sea, test = three_nodes()
    leader = sea.of(Pilot, "es-test-data-0")
    sea.change(leader, lambda tree: tree["status"]["elasticsearch"].pop("cluster"))
    sea.edit(test, version=NEW)
    assert reasons(sea.decided(test)) == ["HealthUnknown"]


@pytest.mark.parametrize(("settled", "goes"), [(False, False), (True, True)])
def test_nav_U08_yellow_will_do_where_it_can_not_get_green(settled: bool, goes: bool) -> None:
    sea, test = three_nodes()
    sea.health, sea.settled = "Yellow", settled
    sea.sail(test)
    sea.edit(test, version=NEW)
    assert (partitions(sea.decided(test)) == [2]) is goes


def test_nav_U09_pools_without_masters_first_whatever_their_order() -> None:
    sea = ElasticsearchHarness()
    pools = [pool("master", 3, "master"), pool("data", 2, "data"), pool("ingest", 1, "ingest")]
    test = sea.add(elastic("test", pools=pools, version=OLD))
    sea.sail(test)
    order: list[str] = []
    sea.edit(test, version=NEW)
    for _ in range(200):
        at_new = [pod.name for pod in sea.all(Pod) if pod.annotations[VERSION] == NEW]
        order += sorted(set(at_new) - set(order))
        if not sea.round(test):
            break
    assert order == [
        "es-test-data-1",
        "es-test-data-0",
        "es-test-ingest-0",
        "es-test-master-2",
        "es-test-master-1",
        "es-test-master-0",
    ]


def test_nav_U10_the_version_comes_before_the_size() -> None:
    sea, test = three_nodes()
    sea.edit_pool(test, "data", replicas=5)
    sea.edit(test, version=NEW)
    intents = sea.decided(test)
    assert partitions(intents) == [2]
    assert replicas_set(intents) == []
    sea.sail(test)
    assert images(sea) == [NEW] * 5


def test_the_health_has_to_be_seen_after_the_node_came_back() -> None:
    sea, test = three_nodes()
    sea.edit(test, version=NEW)
    sea.sail(test, rounds=1)
    sea.leads = False
    sea.sail(test)
    assert images(sea) == [OLD, OLD, NEW]
    assert reasons(sea.decided(test)) == ["HealthOutdated"]
    sea.leads = True
    sea.sail(test)
    assert images(sea) == [NEW] * 3


def test_what_a_former_leader_saw_counts_for_nothing() -> None:
    sea, test = three_nodes()
    sea.edit(sea.of(Lease, "test-leader"), holderIdentity="es-test-data-1_7")
    sea.edit(test, version=NEW)
    assert reasons(sea.decided(test)) == ["HealthUnknown"]


@pytest.mark.parametrize("change", [{"config": {"action.auto_create_index": False}}, {"version": NEW}])
def test_a_node_that_is_out_of_touch_is_not_down_and_has_its_turn(change: dict[str, Any]) -> None:
    sea, test = three_nodes()
    started = sea.of(Pilot, "es-test-data-0").status["lastStartedTime"]
    # All lose sight of the master, as when it has just ended; they run, and hold what they hold.
    for name in sea.names(Pilot):
        sea.says[name] = {"broken": True, "reason": OUT_OF_TOUCH}
    sea.sail(test)
    sea.edit(test, **change)
    sea.now += 100
    sea.sail(test)
    assert not [name for name in sea.names(Pilot) if _has_changed(sea, name)]
    sea.says.clear()
    sea.sail(test)
    assert all(_has_changed(sea, name) for name in sea.names(Pilot))
    assert sea.of(Pilot, "es-test-data-0").status["lastStartedTime"] > started


def out_of_touch(name: str, *, of: int) -> tuple[ElasticsearchHarness, Object]:
    """A cluster of so many nodes whose highest is on its way to a later version, and one of the others sees no master."""
    sea = ElasticsearchHarness()
    test = sea.add(elastic("test", pools=[pool("data", of)], version="7.17.29"))
    sea.sail(test)
    sea.edit(test, version="8.17.0")
    sea.sail(test, rounds=1)
    sea.says[name] = {"broken": True, "reason": OUT_OF_TOUCH}
    return sea, test


def test_a_node_that_is_shut_out_by_a_later_version_is_moved_on() -> None:
    """The one that has moved had the only vote, and came back alone; nobody who is behind may join it."""
    sea, test = out_of_touch("es-test-data-0", of=2)
    sea.health = "Red"
    sea.sail(test)
    assert images(sea) == ["7.17.29", "8.17.0"], "it may be back in a moment"
    sea.now += SHUT_OUT_AFTER
    sea.sail(test, rounds=3)
    assert images(sea) == ["8.17.0", "8.17.0"], "whatever the others are like"
    sea.says.clear()
    sea.health = "Green"
    sea.sail(test)
    assert images(sea) == ["8.17.0", "8.17.0"]


def test_a_node_that_is_out_of_touch_with_its_equals_is_not_shut_out() -> None:
    sea, test = out_of_touch("es-test-data-1", of=3)
    sea.sail(test)
    sea.now += 10 * SHUT_OUT_AFTER
    sea.sail(test)
    assert images(sea) == ["7.17.29", "7.17.29", "8.17.0"]


def test_one_node_is_down_at_a_time_whatever_is_changed() -> None:
    sea, test = three_nodes()
    sea.edit(test, version=NEW, config={"action.auto_create_index": False})
    for _ in range(100):
        down = [pilot.name for pilot in sea.all(Pilot) if not pilot.is_true("Ready")]
        missing = [name for name in sea.names(Pilot) if sea.get(Pod, name) is None]
        assert len({*down, *missing}) <= 1
        if not sea.round(test):
            break
    assert images(sea) == [NEW] * 3


def test_resources_and_placement_roll_the_pods() -> None:
    sea, test = three_nodes()
    sea.edit_pool(test, "data", resources={"limits": {"memory": "2Gi"}}, tolerations=[{"operator": "Exists"}])
    sea.sail(test)
    for pod in sea.all(Pod):
        assert pod.spec["containers"][0]["resources"] == {"limits": {"memory": "2Gi"}}
        assert pod.spec["tolerations"] == [{"operator": "Exists"}]
    opts = [p.at("spec", "configuration", "environment", "ES_JAVA_OPTS") for p in sea.all(Pilot)]
    assert opts == ["-Xms1024m -Xmx1024m"] * 3


def two_masters() -> tuple[ElasticsearchHarness, Object]:
    sea = ElasticsearchHarness()
    pools = [pool("master", 2, "master"), pool("data", 2, "data")]
    test = sea.add(elastic("test", pools=pools, version="7.17.9"))
    sea.sail(test)
    return sea, test


@pytest.mark.parametrize("change", [{"config": {"action.auto_create_index": False}}, {"version": "7.17.29"}])
def test_the_second_of_two_masters_waits_until_the_first_has_its_vote_back(change: dict[str, Any]) -> None:
    sea, test = two_masters()
    started = sea.of(Pilot, "es-test-master-0").status["lastStartedTime"]
    sea.edit(test, **change)

    def give_vote_away(intent: Intent) -> None:
        if isinstance(intent, (PatchObject, Update)) and intent.seen.name in (
            "es-test-master",
            "es-test-master-1",
        ):
            sea.without_vote = ["es-test-master-1"]

    # It has no shards, so that the cluster is green whatever becomes of it.
    sea.watch = give_vote_away
    sea.sail(test)
    assert sea.of(Pilot, "es-test-master-1").status["lastStartedTime"] > started
    assert sea.of(Pilot, "es-test-master-0").status["lastStartedTime"] == started
    assert reasons(sea.decided(test)) == ["VoteHeld"]
    said = sea.of(ElasticsearchCluster, "test").condition("Progressing")["message"]  # type: ignore[index]
    assert "es-test-master-0 is next" in said
    assert "es-test-master-1 does not have its vote back yet; one master at a time" in said
    sea.watch = lambda intent: None
    sea.without_vote = []
    sea.sail(test)
    assert sea.of(Pilot, "es-test-master-0").status["lastStartedTime"] > started
    assert sea.condition(test, "Progressing") == ("False", "AsAsked")


def test_who_has_no_vote_waits_for_nobody_s() -> None:
    sea, test = two_masters()
    sea.without_vote = ["es-test-master-1"]
    sea.sail(test)
    sea.edit(test, version="7.17.29")
    sea.sail(test)
    assert images(sea) == ["7.17.29", "7.17.29", "7.17.9", "7.17.9"]


def test_nobody_is_warned_of_what_every_restart_brings_along() -> None:
    sea, test = two_masters()
    sea.edit(test, version="7.17.29")
    waited: set[str] = set()
    for _ in range(200):
        intents = sea.decided(test)
        waited |= {intent.reason for intent in intents if isinstance(intent, Wait)}
        assert [intent.because for intent in intents if isinstance(intent, RecordEvent)] == []
        # While nodes are away, nobody looks for a moment, and shards are being built.
        away = any(not pilot.is_true("Ready") for pilot in sea.all(Pilot))
        sea.health, sea.settled, sea.leads = ("Yellow", False, False) if away else ("Green", True, True)
        if not sea.round(test):
            break
    assert {"NodeNotReady", "HealthOutdated"} <= waited
    assert sea.condition(test, "Progressing") == ("False", "AsAsked")


def test_a_template_is_never_written_without_a_partition_that_holds_the_others() -> None:
    sea, test = three_nodes()
    seen: list[Update] = []
    sea.watch = lambda intent: seen.append(intent) if isinstance(intent, Update) else None
    sea.edit(test, version=NEW)
    sea.sail(test)
    assert [each.object["spec"]["updateStrategy"]["rollingUpdate"]["partition"] for each in seen] == [2, 1, 0]


def _has_changed(sea: ElasticsearchHarness, name: str) -> bool:
    """Whether a node was told something else than what it was started with."""
    settings = sea.of(Pilot, name).at("spec", "configuration", "settings")
    pod = sea.get(Pod, name)
    return "action.auto_create_index" in settings or pod is None or pod.annotations[VERSION] == NEW
