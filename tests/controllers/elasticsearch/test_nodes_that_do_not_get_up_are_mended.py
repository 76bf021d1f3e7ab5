"""Nodes that do not get up with what they got: helped out of turn, and none of the others is taken with them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kit.controller_harness import Refused, reasons
from tests.kit.elasticsearch_harness import ElasticsearchHarness, elastic, pool
from tests.kit.elasticsearch_upgrade import NEW, OLD, image_of, images, the_set, three_nodes

from pilothouse.api.kind_names import ElasticsearchCluster, Pilot, Pod
from pilothouse.api.navigator.conditions import HOOK_FAILED
from pilothouse.api.objects import Object, Tree
from pilothouse.base.rfc3339 import format_time
from pilothouse.controllers.elasticsearch.cluster_controller import elasticsearch_clusters
from pilothouse.controllers.elasticsearch.observed.database_container import has_run as has_run_once
from pilothouse.controllers.elasticsearch.observed.observed_cluster import observe
from pilothouse.runtime.intents import Delete

CHANGED = "action.auto_create_index"


def asked_for_what_nobody_has() -> tuple[ElasticsearchHarness, Object]:
    """The first node that gets the version has no image of it, and waits."""
    sea, test = three_nodes()
    sea.lacks = {NEW}
    sea.edit(test, version=NEW)
    sea.sail(test)
    return sea, test


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
    sea = ElasticsearchHarness()
    sea.lacks = {"6.8.99"}
    test = sea.add(elastic("test", pools=[pool("data", 3)], version="6.8.99"))
    sea.sail(test)
    sea.edit(test, version=OLD)
    sea.sail(test)
    assert images(sea) == [OLD] * 3


def test_a_pod_that_starts_while_its_version_is_taken_back_keeps_it() -> None:
    sea, test = asked_for_what_nobody_has()
    sea.edit(test, version=OLD)
    sea.step(elasticsearch_clusters, test)
    assert image_of(the_set(sea)).endswith(f":{OLD}")
    deletion = [intent for intent in sea.decided(test) if isinstance(intent, Delete)]
    assert [intent.seen.name for intent in deletion] == ["es-test-data-2"]
    sea.lacks = set()
    sea.set_ready(sea.of(Pod, "es-test-data-2"), False)
    with pytest.raises(Refused):
        sea.execute(deletion[0])
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


def test_a_pod_that_is_seen_to_have_run_on_its_way_out_keeps_its_version() -> None:
    """It was started, and deleted before its node could tell so."""
    sea, test = asked_for_what_nobody_has()
    sea.edit(test, version=OLD)
    sea.step(elasticsearch_clusters, test)
    sea.delete(sea.of(Pod, "es-test-data-2"))
    ended = {"name": "elasticsearch", "state": {"terminated": {"exitCode": 143}}}
    sea.change(sea.of(Pod, "es-test-data-2"), lambda tree: tree["status"].update(containerStatuses=[ended]))
    sea.lacks = set()
    sea.step(elasticsearch_clusters, test)
    assert image_of(the_set(sea)).endswith(f":{NEW}")
    sea.sail(test)
    assert images(sea) == [OLD, OLD, NEW]
    assert sea.condition(test, "Degraded") == ("True", "VersionRefused")


def test_a_pod_that_ran_unseen_says_by_what_its_data_was_written_and_gets_that_again() -> None:
    """Its node's pilot finds a folder of the later version, and does not start the earlier one."""
    sea, test = asked_for_what_nobody_has()
    sea.says["es-test-data-2"] = {"broken": True, "reason": HOOK_FAILED}
    sea.edit(test, version=OLD)
    sea.sail(test)
    assert images(sea) == [OLD] * 3
    assert sea.condition(test, "Degraded") == ("True", HOOK_FAILED)
    sea.now += 100
    sea.lacks = set()
    sea.edit(test, version=NEW)
    sea.sail(test, rounds=3)
    del sea.says["es-test-data-2"]
    sea.sail(test)
    assert images(sea) == [NEW] * 3


@pytest.mark.parametrize(
    "status",
    [
        {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": {"exitCode": 1}}},
        {"state": {"waiting": {"reason": "ErrImageNeverPull"}}, "restartCount": 1},
        {"state": {"waiting": {"reason": "ContainerCreating"}}},
        {"state": {"waiting": {"reason": "CreateContainerError"}}},
        {"state": {"waiting": {"reason": "RunContainerError"}}},
        {"state": {"terminated": {"exitCode": 1}}},
        None,
    ],
)
def test_what_may_have_run_does_not_go_back(status: dict[str, Any] | None) -> None:
    sea, test = asked_for_what_nobody_has()
    told = [{"name": "elasticsearch", **status}] if status else []
    sea.change(sea.of(Pod, "es-test-data-2"), lambda tree: tree["status"].update(containerStatuses=told))
    sea.edit(test, version=OLD)
    sea.step(elasticsearch_clusters, test)
    assert image_of(the_set(sea)).endswith(f":{NEW}")
    assert the_set(sea).at("spec", "updateStrategy", "type") == "RollingUpdate"
    has_run = has_run_once(sea.of(Pod, "es-test-data-2"))
    assert sea.condition(test, "Degraded") == ("True", "VersionRefused" if has_run else "VersionInDoubt")


def slow_nodes(*pools: Tree) -> tuple[ElasticsearchHarness, Object]:
    """A cluster all of whose nodes are down, that was asked for a version that no node has an image of."""
    sea = ElasticsearchHarness()
    test = sea.add(elastic("test", pools=list(pools), version=OLD))
    sea.sail(test)
    for name in sea.names(Pilot):
        sea.says[name] = {"broken": True}
    sea.sail(test)
    sea.now += 100
    sea.lacks = {NEW}
    sea.edit(test, version=NEW)
    sea.sail(test)
    return sea, test


def test_an_image_that_is_nowhere_takes_one_node_and_no_more() -> None:
    sea, test = slow_nodes(pool("data", 3))
    assert images(sea) == [OLD, OLD, NEW]
    assert reasons(sea.decided(test)) == ["NodeNotStarted"]
    sea.says.clear()
    sea.sail(test)
    assert images(sea) == [OLD, OLD, NEW]
    sea.edit(test, version=OLD)
    sea.sail(test)
    assert images(sea) == [OLD] * 3


def test_an_image_that_is_nowhere_does_not_go_on_to_another_pool() -> None:
    sea, test = slow_nodes(pool("data", 1, "data"), pool("master", 3, "master"))
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
    node = observe(sea.of(ElasticsearchCluster, "test"), sea.world()).nodes[0]
    assert node.down_for(sea.now) >= 600
    assert node.broken_for(sea.now) == 0
    assert node.broken_for(sea.now + 61) == 61


def test_a_node_that_does_not_come_up_gets_what_is_asked_for_at_once() -> None:
    sea, test = three_nodes()
    sea.says["es-test-data-0"] = {"broken": True}
    sea.sail(test)
    sea.edit(test, config={CHANGED: False})
    sea.sail(test)
    told = [one.name for one in sea.all(Pilot) if CHANGED in one.at("spec", "configuration", "settings")]
    assert told == ["es-test-data-0"]
