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

from pilothouse.api.kind_names import Lease, Pilot, Pod
from pilothouse.api.navigator.conditions import OUT_OF_TOUCH
from pilothouse.api.navigator.labels import VERSION
from pilothouse.api.objects import Object
from pilothouse.controllers.elasticsearch.cluster_controller import elasticsearch_clusters
from pilothouse.controllers.elasticsearch.steps.restart_gate import SHUT_OUT_AFTER
from pilothouse.runtime.intents import Intent, PatchObject, RecordEvent, Update, Wait


def test_nav_U01_the_first_step_is_the_highest_pod_and_the_image() -> None:
    harness, test = three_nodes()
    harness.edit(test, version=NEW)
    assert partitions(harness.step(elasticsearch_clusters, test)) == [2]
    assert image_of(the_set(harness)).endswith(f":{NEW}")
    assert the_set(harness).annotations[VERSION] == OLD


def test_nav_U02_the_next_when_the_one_before_reports_the_version() -> None:
    harness, test = three_nodes()
    harness.edit(test, version=NEW)
    harness.run_until_idle(test, rounds=2)
    assert images(harness) == [OLD, OLD, NEW]
    harness.run_until_idle(test, rounds=1)
    assert the_set(harness).at("spec", "updateStrategy", "rollingUpdate", "partition") == 1


def test_nav_U03_nothing_while_data_is_missing() -> None:
    harness, test = three_nodes()
    harness.health = "Red"
    harness.run_until_idle(test)
    harness.edit(test, version=NEW)
    intents = harness.decide_cluster(test)
    assert writes(intents, "StatefulSet") == []
    assert reasons(intents) == ["Red"]
    assert [intent.event for intent in intents if isinstance(intent, RecordEvent)] == ["ErrUpdateVersion"]


def test_nav_U04_nothing_while_a_node_is_down() -> None:
    harness, test = three_nodes()
    harness.reports["es-test-data-0"] = {"ready": False}
    harness.run_until_idle(test)
    harness.edit(test, version=NEW)
    intents = harness.decide_cluster(test)
    assert writes(intents, "StatefulSet") == []
    assert reasons(intents) == ["NodeNotReady"]


def test_nav_U05_the_version_is_reached_when_all_pilots_report_it() -> None:
    harness, test = three_nodes()
    harness.edit(test, version=NEW)
    harness.run_until_idle(test)
    assert images(harness) == [NEW] * 3
    assert the_set(harness).annotations[VERSION] == NEW
    status = harness.status(test)
    assert status["version"] == NEW
    assert status["nodePools"]["data"]["updatedReplicas"] == 3


def test_nav_U06_a_node_that_still_reports_the_old_version_is_waited_for() -> None:
    harness, test = three_nodes()
    harness.reports["es-test-data-2"] = {"version": OLD}
    harness.edit(test, version=NEW)
    harness.run_until_idle(test)
    assert images(harness) == [OLD, OLD, NEW]
    intents = harness.decide_cluster(test)
    assert not wrote(intents)
    assert "es-test-data-2 reports version 6.8.22" in harness.message(test, "Progressing")


def test_nav_U07_nothing_while_the_health_is_unknown() -> None:
    harness, test = three_nodes()
    leader = harness.of(Pilot, "es-test-data-0")
    harness.change(leader, lambda tree: tree["status"]["elasticsearch"].pop("cluster"))
    harness.edit(test, version=NEW)
    assert reasons(harness.decide_cluster(test)) == ["HealthUnknown"]


@pytest.mark.parametrize(("settled", "goes"), [(False, False), (True, True)])
def test_nav_U08_yellow_will_do_where_it_can_not_get_green(settled: bool, goes: bool) -> None:
    harness, test = three_nodes()
    harness.health, harness.settled = "Yellow", settled
    harness.run_until_idle(test)
    harness.edit(test, version=NEW)
    assert (partitions(harness.decide_cluster(test)) == [2]) is goes


def test_nav_U09_pools_without_masters_first_whatever_their_order() -> None:
    harness = ElasticsearchHarness()
    pools = [pool("master", 3, "master"), pool("data", 2, "data"), pool("ingest", 1, "ingest")]
    test = harness.add(elastic("test", pools=pools, version=OLD))
    harness.run_until_idle(test)
    order: list[str] = []
    harness.edit(test, version=NEW)
    for _ in range(200):
        at_new = [pod.name for pod in harness.all(Pod) if pod.annotations[VERSION] == NEW]
        order += sorted(set(at_new) - set(order))
        if not harness.round(test):
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
    harness, test = three_nodes()
    harness.edit_pool(test, "data", replicas=5)
    harness.edit(test, version=NEW)
    intents = harness.decide_cluster(test)
    assert partitions(intents) == [2]
    assert replicas_set(intents) == []
    harness.run_until_idle(test)
    assert images(harness) == [NEW] * 5


def test_the_health_has_to_be_seen_after_the_node_came_back() -> None:
    harness, test = three_nodes()
    harness.edit(test, version=NEW)
    harness.run_until_idle(test, rounds=1)
    harness.leads = False
    harness.run_until_idle(test)
    assert images(harness) == [OLD, OLD, NEW]
    assert reasons(harness.decide_cluster(test)) == ["HealthOutdated"]
    harness.leads = True
    harness.run_until_idle(test)
    assert images(harness) == [NEW] * 3


def test_what_a_former_leader_saw_counts_for_nothing() -> None:
    harness, test = three_nodes()
    harness.edit(harness.of(Lease, "test-leader"), holderIdentity="es-test-data-1_7")
    harness.edit(test, version=NEW)
    assert reasons(harness.decide_cluster(test)) == ["HealthUnknown"]


@pytest.mark.parametrize("change", [{"config": {"action.auto_create_index": False}}, {"version": NEW}])
def test_a_node_that_is_out_of_touch_is_not_down_and_has_its_turn(change: dict[str, Any]) -> None:
    harness, test = three_nodes()
    started = harness.of(Pilot, "es-test-data-0").status["lastStartedTime"]
    # All lose sight of the master, as when it has just ended; they run, and hold what they hold.
    for name in harness.names(Pilot):
        harness.reports[name] = {"broken": True, "reason": OUT_OF_TOUCH}
    harness.run_until_idle(test)
    harness.edit(test, **change)
    harness.now += 100
    harness.run_until_idle(test)
    assert not [name for name in harness.names(Pilot) if _has_changed(harness, name)]
    harness.reports.clear()
    harness.run_until_idle(test)
    assert all(_has_changed(harness, name) for name in harness.names(Pilot))
    assert harness.of(Pilot, "es-test-data-0").status["lastStartedTime"] > started


def out_of_touch(name: str, *, of: int) -> tuple[ElasticsearchHarness, Object]:
    """A cluster of so many nodes whose highest is on its way to a later version, and one of the others sees no master."""
    harness = ElasticsearchHarness()
    test = harness.add(elastic("test", pools=[pool("data", of)], version="7.17.29"))
    harness.run_until_idle(test)
    harness.edit(test, version="8.17.0")
    harness.run_until_idle(test, rounds=1)
    harness.reports[name] = {"broken": True, "reason": OUT_OF_TOUCH}
    return harness, test


def test_a_node_that_is_shut_out_by_a_later_version_is_moved_on() -> None:
    """The one that has moved had the only vote, and came back alone; nobody who is behind may join it."""
    harness, test = out_of_touch("es-test-data-0", of=2)
    harness.health = "Red"
    harness.run_until_idle(test)
    assert images(harness) == ["7.17.29", "8.17.0"], "it may be back in a moment"
    harness.now += SHUT_OUT_AFTER
    harness.run_until_idle(test, rounds=3)
    assert images(harness) == ["8.17.0", "8.17.0"], "whatever the others are like"
    harness.reports.clear()
    harness.health = "Green"
    harness.run_until_idle(test)
    assert images(harness) == ["8.17.0", "8.17.0"]


def test_a_node_that_is_out_of_touch_with_its_equals_is_not_shut_out() -> None:
    harness, test = out_of_touch("es-test-data-1", of=3)
    harness.run_until_idle(test)
    harness.now += 10 * SHUT_OUT_AFTER
    harness.run_until_idle(test)
    assert images(harness) == ["7.17.29", "7.17.29", "8.17.0"]


def test_one_node_is_down_at_a_time_whatever_is_changed() -> None:
    harness, test = three_nodes()
    harness.edit(test, version=NEW, config={"action.auto_create_index": False})
    for _ in range(100):
        down = [pilot.name for pilot in harness.all(Pilot) if not pilot.is_true("Ready")]
        missing = [name for name in harness.names(Pilot) if harness.get(Pod, name) is None]
        assert len({*down, *missing}) <= 1
        if not harness.round(test):
            break
    assert images(harness) == [NEW] * 3


def test_resources_and_placement_roll_the_pods() -> None:
    harness, test = three_nodes()
    harness.edit_pool(
        test, "data", resources={"limits": {"memory": "2Gi"}}, tolerations=[{"operator": "Exists"}]
    )
    harness.run_until_idle(test)
    for pod in harness.all(Pod):
        assert pod.spec["containers"][0]["resources"] == {"limits": {"memory": "2Gi"}}
        assert pod.spec["tolerations"] == [{"operator": "Exists"}]
    opts = [p.at("spec", "configuration", "environment", "ES_JAVA_OPTS") for p in harness.all(Pilot)]
    assert opts == ["-Xms1024m -Xmx1024m"] * 3


def two_masters() -> tuple[ElasticsearchHarness, Object]:
    harness = ElasticsearchHarness()
    pools = [pool("master", 2, "master"), pool("data", 2, "data")]
    test = harness.add(elastic("test", pools=pools, version="7.17.9"))
    harness.run_until_idle(test)
    return harness, test


@pytest.mark.parametrize("change", [{"config": {"action.auto_create_index": False}}, {"version": "7.17.29"}])
def test_the_second_of_two_masters_waits_until_the_first_has_its_vote_back(change: dict[str, Any]) -> None:
    harness, test = two_masters()
    started = harness.of(Pilot, "es-test-master-0").status["lastStartedTime"]
    harness.edit(test, **change)

    def give_vote_away(intent: Intent) -> None:
        if isinstance(intent, (PatchObject, Update)) and intent.seen.name in (
            "es-test-master",
            "es-test-master-1",
        ):
            harness.without_vote = ["es-test-master-1"]

    # It has no shards, so that the cluster is green whatever becomes of it.
    harness.before_write = give_vote_away
    harness.run_until_idle(test)
    assert harness.of(Pilot, "es-test-master-1").status["lastStartedTime"] > started
    assert harness.of(Pilot, "es-test-master-0").status["lastStartedTime"] == started
    assert reasons(harness.decide_cluster(test)) == ["VoteHeld"]
    said = harness.message(test, "Progressing")
    assert "es-test-master-0 is next" in said
    assert "es-test-master-1 does not have its vote back yet; one master at a time" in said
    harness.before_write = lambda intent: None
    harness.without_vote = []
    harness.run_until_idle(test)
    assert harness.of(Pilot, "es-test-master-0").status["lastStartedTime"] > started
    assert harness.condition(test, "Progressing") == ("False", "AsAsked")


def test_who_has_no_vote_waits_for_nobody_s() -> None:
    harness, test = two_masters()
    harness.without_vote = ["es-test-master-1"]
    harness.run_until_idle(test)
    harness.edit(test, version="7.17.29")
    harness.run_until_idle(test)
    assert images(harness) == ["7.17.29", "7.17.29", "7.17.9", "7.17.9"]


def test_nobody_is_warned_of_what_every_restart_brings_along() -> None:
    harness, test = two_masters()
    harness.edit(test, version="7.17.29")
    waited: set[str] = set()
    for _ in range(200):
        intents = harness.decide_cluster(test)
        waited |= {intent.reason for intent in intents if isinstance(intent, Wait)}
        assert [intent.because for intent in intents if isinstance(intent, RecordEvent)] == []
        # While nodes are away, nobody looks for a moment, and shards are being built.
        away = any(not pilot.is_true("Ready") for pilot in harness.all(Pilot))
        harness.health, harness.settled, harness.leads = (
            ("Yellow", False, False) if away else ("Green", True, True)
        )
        if not harness.round(test):
            break
    assert {"NodeNotReady", "HealthOutdated"} <= waited
    assert harness.condition(test, "Progressing") == ("False", "AsAsked")


def test_a_template_is_never_written_without_a_partition_that_holds_the_others() -> None:
    harness, test = three_nodes()
    seen: list[Update] = []

    def note(intent: Intent) -> None:
        if isinstance(intent, Update) and intent.seen.kind == "StatefulSet":
            seen.append(intent)

    harness.before_write = note
    harness.edit(test, version=NEW)
    harness.run_until_idle(test)
    assert [each.object["spec"]["updateStrategy"]["rollingUpdate"]["partition"] for each in seen] == [2, 1, 0]


def _has_changed(harness: ElasticsearchHarness, name: str) -> bool:
    """Whether a node was told something else than what it was started with."""
    settings = harness.of(Pilot, name).at("spec", "configuration", "settings")
    pod = harness.get(Pod, name)
    return "action.auto_create_index" in settings or pod is None or pod.annotations[VERSION] == NEW
