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
    harness, test = three_nodes()
    harness.missing_images = {NEW}
    harness.edit(test, version=NEW)
    harness.run_until_idle(test)
    return harness, test


def test_a_version_that_breaks_a_node_is_mended_out_of_turn() -> None:
    harness, test = three_nodes()
    harness.reports["es-test-data-2"] = {"broken": True}
    harness.edit(test, version=NEW, image={"repository": "mine", "tag": "bad"})
    harness.run_until_idle(test)
    harness.now += 100
    harness.run_until_idle(test)
    assert images(harness) == [OLD, OLD, "bad"]
    harness.edit(test, image={"repository": "mine", "tag": "good"})
    harness.run_until_idle(test, rounds=3)
    del harness.reports["es-test-data-2"]
    harness.run_until_idle(test)
    assert images(harness) == ["good"] * 3
    assert the_set(harness).at("spec", "updateStrategy", "type") == "RollingUpdate"


def test_a_version_that_no_node_has_can_be_corrected() -> None:
    harness, test = three_nodes()
    harness.missing_images = {"6.8.99"}
    harness.edit(test, version="6.8.99")
    harness.run_until_idle(test)
    assert images(harness) == [OLD, OLD, "6.8.99"]
    assert harness.condition(test, "Degraded") == ("True", "ErrImageNeverPull")
    harness.edit(test, version=OLD)
    harness.run_until_idle(test)
    assert images(harness) == [OLD] * 3
    assert harness.condition(test, "Degraded") == ("False", "AsAsked")
    assert the_set(harness).at("spec", "updateStrategy", "type") == "RollingUpdate"


def test_a_new_cluster_of_a_version_that_no_node_has_can_be_corrected() -> None:
    harness = ElasticsearchHarness()
    harness.missing_images = {"6.8.99"}
    test = harness.add(elastic("test", pools=[pool("data", 3)], version="6.8.99"))
    harness.run_until_idle(test)
    harness.edit(test, version=OLD)
    harness.run_until_idle(test)
    assert images(harness) == [OLD] * 3


def test_a_pod_that_starts_while_its_version_is_taken_back_keeps_it() -> None:
    harness, test = asked_for_what_nobody_has()
    harness.edit(test, version=OLD)
    harness.step(elasticsearch_clusters, test)
    assert image_of(the_set(harness)).endswith(f":{OLD}")
    deletion = [intent for intent in harness.decide_cluster(test) if isinstance(intent, Delete)]
    assert [intent.seen.name for intent in deletion] == ["es-test-data-2"]
    harness.missing_images = set()
    harness.set_ready(harness.of(Pod, "es-test-data-2"), False)
    with pytest.raises(Refused):
        harness.execute(deletion[0])
    harness.run_until_idle(test)
    assert images(harness) == [OLD, OLD, NEW]
    assert harness.condition(test, "Degraded") == ("True", "VersionRefused")
    assert image_of(the_set(harness)).endswith(f":{NEW}"), "it comes back as it is"


def test_a_pod_that_ran_and_is_lost_before_its_version_was_told_does_not_come_back_as_an_older_one() -> None:
    harness, test = three_nodes()
    harness.reports["es-test-data-2"] = {"broken": True}
    harness.edit(test, version=NEW)
    harness.run_until_idle(test)
    assert harness.of(Pilot, "es-test-data-2").at("status", "elasticsearch", "version") == OLD
    harness.edit(test, version=OLD)
    harness.remove(harness.of(Pod, "es-test-data-2"))
    harness.run_until_idle(test)
    assert images(harness) == [OLD, OLD, NEW]
    assert harness.condition(test, "Degraded") == ("True", "VersionRefused")


def test_a_pod_that_is_seen_to_have_run_on_its_way_out_keeps_its_version() -> None:
    """It was started, and deleted before its node could tell so."""
    harness, test = asked_for_what_nobody_has()
    harness.edit(test, version=OLD)
    harness.step(elasticsearch_clusters, test)
    harness.delete(harness.of(Pod, "es-test-data-2"))
    ended = {"name": "elasticsearch", "state": {"terminated": {"exitCode": 143}}}
    harness.change(
        harness.of(Pod, "es-test-data-2"), lambda tree: tree["status"].update(containerStatuses=[ended])
    )
    harness.missing_images = set()
    harness.step(elasticsearch_clusters, test)
    assert image_of(the_set(harness)).endswith(f":{NEW}")
    harness.run_until_idle(test)
    assert images(harness) == [OLD, OLD, NEW]
    assert harness.condition(test, "Degraded") == ("True", "VersionRefused")


def test_a_pod_that_ran_unseen_says_by_what_its_data_was_written_and_gets_that_again() -> None:
    """Its node's pilot finds a folder of the later version, and does not start the earlier one."""
    harness, test = asked_for_what_nobody_has()
    harness.reports["es-test-data-2"] = {"broken": True, "reason": HOOK_FAILED}
    harness.edit(test, version=OLD)
    harness.run_until_idle(test)
    assert images(harness) == [OLD] * 3
    assert harness.condition(test, "Degraded") == ("True", HOOK_FAILED)
    harness.now += 100
    harness.missing_images = set()
    harness.edit(test, version=NEW)
    harness.run_until_idle(test, rounds=3)
    del harness.reports["es-test-data-2"]
    harness.run_until_idle(test)
    assert images(harness) == [NEW] * 3


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
    harness, test = asked_for_what_nobody_has()
    told = [{"name": "elasticsearch", **status}] if status else []
    harness.change(
        harness.of(Pod, "es-test-data-2"), lambda tree: tree["status"].update(containerStatuses=told)
    )
    harness.edit(test, version=OLD)
    harness.step(elasticsearch_clusters, test)
    assert image_of(the_set(harness)).endswith(f":{NEW}")
    assert the_set(harness).at("spec", "updateStrategy", "type") == "RollingUpdate"
    has_run = has_run_once(harness.of(Pod, "es-test-data-2"))
    assert harness.condition(test, "Degraded") == ("True", "VersionRefused" if has_run else "VersionInDoubt")


def slow_nodes(*pools: Tree) -> tuple[ElasticsearchHarness, Object]:
    """A cluster all of whose nodes are down, that was asked for a version that no node has an image of."""
    harness = ElasticsearchHarness()
    test = harness.add(elastic("test", pools=list(pools), version=OLD))
    harness.run_until_idle(test)
    for name in harness.names(Pilot):
        harness.reports[name] = {"broken": True}
    harness.run_until_idle(test)
    harness.now += 100
    harness.missing_images = {NEW}
    harness.edit(test, version=NEW)
    harness.run_until_idle(test)
    return harness, test


def test_an_image_that_is_nowhere_takes_one_node_and_no_more() -> None:
    harness, test = slow_nodes(pool("data", 3))
    assert images(harness) == [OLD, OLD, NEW]
    assert reasons(harness.decide_cluster(test)) == ["NodeNotStarted"]
    harness.reports.clear()
    harness.run_until_idle(test)
    assert images(harness) == [OLD, OLD, NEW]
    harness.edit(test, version=OLD)
    harness.run_until_idle(test)
    assert images(harness) == [OLD] * 3


def test_an_image_that_is_nowhere_does_not_go_on_to_another_pool() -> None:
    harness, test = slow_nodes(pool("data", 1, "data"), pool("master", 3, "master"))
    assert images(harness) == [NEW, OLD, OLD, OLD]
    harness.missing_images = set()
    harness.reports.clear()
    harness.run_until_idle(test)
    assert images(harness) == [NEW] * 4


def test_a_broken_node_does_not_wait_for_one_that_has_what_it_gets_and_is_away() -> None:
    harness, test = three_nodes()
    harness.reports["es-test-data-2"] = {"broken": True}
    harness.edit(test, image={"repository": "mine", "tag": "bad"})
    harness.run_until_idle(test)
    harness.now += 100
    # Its machine is lost: it has been asked to go, and does not.
    harness.delete(harness.of(Pod, "es-test-data-0"))
    harness.change(test, lambda tree: tree["spec"].pop("image"))
    harness.step(elasticsearch_clusters, test)
    deleted = [intent.seen.name for intent in harness.decide_cluster(test) if isinstance(intent, Delete)]
    assert deleted == ["es-test-data-2"]


def test_a_node_that_was_started_a_moment_ago_is_not_broken() -> None:
    harness, test = three_nodes()
    for name in harness.names(Pilot):
        harness.reports[name] = {"broken": True}
    harness.run_until_idle(test)
    harness.now += 600
    running = {"name": "elasticsearch", "state": {"running": {"startedAt": format_time(harness.now)}}}
    for pod in harness.all(Pod):
        harness.change(pod, lambda tree: tree["status"].update(containerStatuses=[running]))
    node = observe(harness.of(ElasticsearchCluster, "test"), harness.world()).nodes[0]
    assert node.down_for(harness.now) >= 600
    assert node.broken_for(harness.now) == 0
    assert node.broken_for(harness.now + 61) == 61


def test_a_node_that_does_not_come_up_gets_what_is_asked_for_at_once() -> None:
    harness, test = three_nodes()
    harness.reports["es-test-data-0"] = {"broken": True}
    harness.run_until_idle(test)
    harness.edit(test, config={CHANGED: False})
    harness.run_until_idle(test)
    told = [one.name for one in harness.all(Pilot) if CHANGED in one.at("spec", "configuration", "settings")]
    assert told == ["es-test-data-0"]
