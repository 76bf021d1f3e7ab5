"""Upgrades: pool by pool, non-masters first, the highest ordinal first, one node at a time."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kit.elastic import Sea, elastic, partitions, pool, replicas_set, writes, wrote
from tests.kit.stepping import Refused, reasons

from pilothouse.api.navigator.conditions import OUT_OF_TOUCH
from pilothouse.api.navigator.labels import VERSION
from pilothouse.api.nouns import ElasticsearchCluster, Lease, Pilot, Pod, StatefulSet
from pilothouse.api.objects import Object
from pilothouse.base.times import format_time
from pilothouse.controllers.elasticsearch.deciding import elasticsearch_clusters
from pilothouse.controllers.elasticsearch.health import SHUT_OUT_FOR
from pilothouse.controllers.elasticsearch.scene import look
from pilothouse.controllers.elasticsearch.upgrades import refusal
from pilothouse.runtime.intents import Delete, Tell, Update

OLD, NEW = "6.8.22", "6.8.23"


def three_nodes(version: str = OLD, **spec: Any) -> tuple[Sea, Object]:
    sea = Sea()
    test = sea.add(elastic("test", pools=[pool("data", 3)], version=version, **spec))
    sea.sail(test)
    return sea, test


def images(sea: Sea) -> list[str]:
    return [pod.spec["containers"][0]["image"].rpartition(":")[2] for pod in sea.all(Pod)]


def the_set(sea: Sea, name: str = "es-test-data") -> Object:
    return sea.of(StatefulSet, name)


def image_of(stateful_set: Object) -> str:
    return str(stateful_set.at("spec", "template", "spec")["containers"][0]["image"])


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
    assert [intent.event for intent in intents if isinstance(intent, Tell)] == ["ErrUpdateVersion"]


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
    sea = Sea()
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


def test_reverting_half_way_stops_and_says_who_can_not_go_back() -> None:
    sea, test = three_nodes()
    sea.edit(test, version=NEW)
    sea.sail(test, rounds=2)
    assert images(sea) == [OLD, OLD, NEW]
    sea.edit(test, version=OLD)
    sea.sail(test)
    assert images(sea) == [OLD, OLD, NEW]
    assert sea.condition(test, "Degraded") == ("True", "VersionRefused")
    message = sea.of(ElasticsearchCluster, "test").condition("Degraded")["message"]  # type: ignore[index]
    assert "es-test-data-2 is at" in message
    assert "es-test-data-1" not in message
    sea.remove(sea.of(Pod, "es-test-data-2"))
    sea.remove(sea.of(Pod, "es-test-data-0"))
    sea.sail(test)
    assert images(sea) == [OLD, OLD, NEW], "each comes back as it was"
    sea.edit(test, version=NEW)
    sea.sail(test)
    assert images(sea) == [NEW] * 3


def test_who_can_not_go_back_is_told_of_all_pools_whatever_else_goes_on() -> None:
    sea = Sea()
    pools = [pool("data", 2, "data"), pool("master", 1, "master")]
    test = sea.add(elastic("test", pools=pools, version=NEW))
    sea.sail(test)
    sea.says["es-test-data-0"] = {"broken": True}
    sea.sail(test)
    sea.edit(test, version=OLD)
    warned = [intent.event for intent in sea.step(elasticsearch_clusters, test) if isinstance(intent, Tell)]
    assert warned == ["ErrUpdateVersion"]
    sea.sail(test)
    assert sea.condition(test, "Progressing") == ("True", "NodesStarting")
    assert sea.condition(test, "Degraded") == ("True", "VersionRefused")
    said = sea.of(ElasticsearchCluster, "test").condition("Degraded")["message"]  # type: ignore[index]
    assert "es-test-data-0, es-test-data-1, es-test-master-0 are at 6.8.23 and can't go back" in said


def test_two_refusals_are_both_told() -> None:
    sea = Sea()
    test = sea.add(elastic("test", pools=[pool("data", 2, "data"), pool("master", 1, "master")], version=NEW))
    sea.sail(test)
    sea.edit(test, version=OLD, nodePools=[pool("master", 1, "master")])
    sea.sail(test)
    said = sea.of(ElasticsearchCluster, "test").condition("Degraded")["message"]  # type: ignore[index]
    assert "can't go back" in said
    assert "nowhere to move it" in said


def test_what_nobody_has_moved_to_can_be_taken_back() -> None:
    sea, test = three_nodes()
    sea.edit(test, version=NEW)
    sea.step(elasticsearch_clusters, test)
    sea.edit(test, version=OLD)
    sea.sail(test)
    assert images(sea) == [OLD] * 3
    assert sea.condition(test, "Degraded") == ("False", "AsAsked")


def test_a_size_can_be_changed_while_a_version_is_refused() -> None:
    sea, test = three_nodes(NEW)
    sea.edit(test, version=OLD)
    sea.edit_pool(test, "data", replicas=4)
    sea.sail(test)
    assert images(sea) == [NEW] * 4


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("7.17.9", "7.17.29", ""),
        ("7.17.29", "8.17.0", ""),
        ("6.8.23", "7.17.9", ""),
        ("7.17.29", "7.17.9", "can't go back"),
        ("6.8.23", "8.17.0", "go to the last 7.x in between"),
        ("7.10.2", "8.17.0", "go to 7.17 or later first"),
    ],
)
def test_only_ways_that_elasticsearch_goes(old: str, new: str, says: str) -> None:
    assert says in refusal(old, new)
    assert bool(says) == bool(refusal(old, new))


@pytest.mark.parametrize("version", ["5.6.16", "6.7.2", "9.0.0", "99.1.0"])
def test_a_version_that_no_pilot_runs_is_told_with_those_that_they_do(version: str) -> None:
    sea = Sea()
    sea.lacks = {version}
    test = sea.add(elastic("test", pools=[pool("data", 1)], version=version))
    sea.sail(test)
    assert sea.condition(test, "Degraded") == ("True", "VersionRefused")
    said = sea.of(ElasticsearchCluster, "test").condition("Degraded")["message"]  # type: ignore[index]
    assert f"Elasticsearch {version}: put spec.version to one of 6.8, 7 or 8" in said
    sea.edit(test, version=NEW)
    sea.sail(test)
    assert images(sea) == [NEW]
    assert sea.condition(test, "Degraded") == ("False", "AsAsked")


def test_nobody_is_moved_to_a_version_that_no_pilot_runs() -> None:
    sea, test = three_nodes("8.18.0")
    sea.edit(test, version="9.0.0")
    sea.sail(test)
    assert images(sea) == ["8.18.0"] * 3
    assert sea.condition(test, "Degraded") == ("True", "VersionRefused")


def test_a_version_that_breaks_a_node_is_mended_out_of_turn() -> None:
    sea, test = three_nodes()
    sea.says["es-test-data-2"] = {"broken": True}
    sea.edit(test, version=NEW, image={"repository": "mine", "tag": "bad"})
    sea.sail(test)
    sea.now += 100
    sea.sail(test)
    assert images(sea) == [OLD, OLD, "bad"]
    sea.edit(test, image={"repository": "mine", "tag": "good"})
    sea.sail(test, rounds=3)
    del sea.says["es-test-data-2"]
    sea.sail(test)
    assert images(sea) == ["good"] * 3
    assert the_set(sea).at("spec", "updateStrategy", "type") == "RollingUpdate"


def test_a_version_that_no_node_has_can_be_corrected() -> None:
    sea, test = three_nodes()
    sea.lacks = {"6.8.99"}
    sea.edit(test, version="6.8.99")
    sea.sail(test)
    assert images(sea) == [OLD, OLD, "6.8.99"]
    assert sea.condition(test, "Degraded") == ("True", "ErrImageNeverPull")
    sea.edit(test, version=OLD)
    sea.sail(test)
    assert images(sea) == [OLD] * 3
    assert sea.condition(test, "Degraded") == ("False", "AsAsked")
    assert the_set(sea).at("spec", "updateStrategy", "type") == "RollingUpdate"


def test_a_new_cluster_of_a_version_that_no_node_has_can_be_corrected() -> None:
    sea = Sea()
    sea.lacks = {"6.8.99"}
    test = sea.add(elastic("test", pools=[pool("data", 3)], version="6.8.99"))
    sea.sail(test)
    sea.edit(test, version=OLD)
    sea.sail(test)
    assert images(sea) == [OLD] * 3


def test_a_pod_that_starts_while_its_version_is_taken_back_keeps_it() -> None:
    sea, test = three_nodes()
    sea.lacks = {NEW}
    sea.edit(test, version=NEW)
    sea.sail(test)
    sea.edit(test, version=OLD)
    sea.step(elasticsearch_clusters, test)
    assert image_of(the_set(sea)).endswith(f":{OLD}")
    deletion = [intent for intent in sea.decided(test) if isinstance(intent, Delete)]
    assert [intent.seen.name for intent in deletion] == ["es-test-data-2"]
    sea.lacks = set()
    sea.set_ready(sea.of(Pod, "es-test-data-2"), False)
    with pytest.raises(Refused):
        sea.carry_out(deletion[0])
    sea.sail(test)
    assert images(sea) == [OLD, OLD, NEW]
    assert sea.condition(test, "Degraded") == ("True", "VersionRefused")
    assert image_of(the_set(sea)).endswith(f":{NEW}"), "it comes back as it is"


def test_a_pod_that_ran_and_is_lost_before_its_version_was_told_does_not_come_back_as_an_older_one() -> None:
    sea, test = three_nodes()
    sea.says["es-test-data-2"] = {"broken": True}
    sea.edit(test, version=NEW)
    sea.sail(test)
    assert sea.of(Pilot, "es-test-data-2").at("status", "elasticsearch", "version") == OLD
    sea.edit(test, version=OLD)
    sea.remove(sea.of(Pod, "es-test-data-2"))
    sea.sail(test)
    assert images(sea) == [OLD, OLD, NEW]
    assert sea.condition(test, "Degraded") == ("True", "VersionRefused")


@pytest.mark.parametrize(
    "status",
    [
        {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": {"exitCode": 1}}},
        {"state": {"waiting": {"reason": "ErrImageNeverPull"}}, "restartCount": 1},
        {"state": {"waiting": {"reason": "ContainerCreating"}}},
        {"state": {"terminated": {"exitCode": 1}}},
        None,
    ],
)
def test_what_may_have_run_does_not_go_back(status: dict[str, Any] | None) -> None:
    sea, test = three_nodes()
    sea.lacks = {NEW}
    sea.edit(test, version=NEW)
    sea.sail(test)
    told = [{"name": "elasticsearch", **status}] if status else []
    sea.change(sea.of(Pod, "es-test-data-2"), lambda tree: tree["status"].update(containerStatuses=told))
    sea.edit(test, version=OLD)
    sea.step(elasticsearch_clusters, test)
    assert image_of(the_set(sea)).endswith(f":{NEW}")
    assert the_set(sea).at("spec", "updateStrategy", "type") == "RollingUpdate"
    assert sea.condition(test, "Degraded") == ("True", "VersionRefused")


def test_an_image_that_is_nowhere_takes_one_node_and_no_more() -> None:
    sea, test = three_nodes()
    for name in sea.names(Pilot):
        sea.says[name] = {"broken": True}
    sea.sail(test)
    sea.now += 100
    sea.lacks = {NEW}
    sea.edit(test, version=NEW)
    sea.sail(test)
    assert images(sea) == [OLD, OLD, NEW]
    assert reasons(sea.decided(test)) == ["NodeNotStarted"]
    sea.says.clear()
    sea.sail(test)
    assert images(sea) == [OLD, OLD, NEW]
    sea.edit(test, version=OLD)
    sea.sail(test)
    assert images(sea) == [OLD] * 3


def test_an_image_that_is_nowhere_does_not_go_on_to_another_pool() -> None:
    sea = Sea()
    test = sea.add(elastic("test", pools=[pool("data", 1, "data"), pool("master", 3, "master")], version=OLD))
    sea.sail(test)
    for name in sea.names(Pilot):
        sea.says[name] = {"broken": True}
    sea.sail(test)
    sea.now += 100
    sea.lacks = {NEW}
    sea.edit(test, version=NEW)
    sea.sail(test)
    assert images(sea) == [NEW, OLD, OLD, OLD]
    sea.lacks = set()
    sea.says.clear()
    sea.sail(test)
    assert images(sea) == [NEW] * 4


def test_a_broken_node_does_not_wait_for_one_that_has_what_it_gets_and_is_away() -> None:
    sea, test = three_nodes()
    sea.says["es-test-data-2"] = {"broken": True}
    sea.edit(test, image={"repository": "mine", "tag": "bad"})
    sea.sail(test)
    sea.now += 100
    # Its machine is lost: it has been asked to go, and does not.
    sea.delete(sea.of(Pod, "es-test-data-0"))
    sea.change(test, lambda tree: tree["spec"].pop("image"))
    sea.step(elasticsearch_clusters, test)
    deleted = [intent.seen.name for intent in sea.decided(test) if isinstance(intent, Delete)]
    assert deleted == ["es-test-data-2"]


def test_a_node_that_was_started_a_moment_ago_is_not_broken() -> None:
    sea, test = three_nodes()
    for name in sea.names(Pilot):
        sea.says[name] = {"broken": True}
    sea.sail(test)
    sea.now += 600
    running = {"name": "elasticsearch", "state": {"running": {"startedAt": format_time(sea.now)}}}
    for pod in sea.all(Pod):
        sea.change(pod, lambda tree: tree["status"].update(containerStatuses=[running]))
    node = look(sea.of(ElasticsearchCluster, "test"), sea.world()).nodes[0]
    assert node.down_for(sea.now) >= 600
    assert node.broken_for(sea.now) == 0
    assert node.broken_for(sea.now + 61) == 61


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


def out_of_touch(name: str, *, of: int) -> tuple[Sea, Object]:
    """A cluster of so many nodes whose highest is on its way to a later version, and one of the others sees no master."""
    sea = Sea()
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
    sea.now += SHUT_OUT_FOR
    sea.sail(test, rounds=3)
    assert images(sea) == ["8.17.0", "8.17.0"], "whatever the others are like"
    sea.says.clear()
    sea.health = "Green"
    sea.sail(test)
    assert images(sea) == ["8.17.0", "8.17.0"]


def test_a_node_that_is_out_of_touch_with_its_equals_is_not_shut_out() -> None:
    sea, test = out_of_touch("es-test-data-1", of=3)
    sea.sail(test)
    sea.now += 10 * SHUT_OUT_FOR
    sea.sail(test)
    assert images(sea) == ["7.17.29", "7.17.29", "8.17.0"]


def test_a_node_that_does_not_come_up_gets_what_is_asked_for_at_once() -> None:
    sea, test = three_nodes()
    sea.says["es-test-data-0"] = {"broken": True}
    sea.sail(test)
    sea.edit(test, config={"action.auto_create_index": False})
    sea.sail(test)
    assert [name for name in sea.names(Pod) if _has_changed(sea, name)] == ["es-test-data-0"]


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


def test_a_template_is_never_written_without_a_partition_that_holds_the_others() -> None:
    sea, test = three_nodes()
    seen: list[Update] = []
    sea.watch = lambda intent: seen.append(intent) if isinstance(intent, Update) else None
    sea.edit(test, version=NEW)
    sea.sail(test)
    assert [each.object["spec"]["updateStrategy"]["rollingUpdate"]["partition"] for each in seen] == [2, 1, 0]


def _has_changed(sea: Sea, name: str) -> bool:
    """Whether a node was told something else than what it was started with."""
    settings = sea.of(Pilot, name).at("spec", "configuration", "settings")
    pod = sea.get(Pod, name)
    return "action.auto_create_index" in settings or pod is None or pod.annotations[VERSION] == NEW
