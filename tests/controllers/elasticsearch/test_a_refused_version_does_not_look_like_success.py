"""What is asked for and what runs: a condition and columns that tell them apart, images that are looked for first, and events that only say what was seen."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from tests.kit.elasticsearch_harness import ElasticsearchHarness, elastic, pool
from tests.kit.elasticsearch_upgrade import NEW, OLD, image_of, images, the_set, three_nodes

from pilothouse.api.kind_names import ElasticsearchCluster, Node, Pilot, Pod
from pilothouse.api.navigator.cluster_kinds import ELASTICSEARCH_V1BETA1
from pilothouse.api.node_images import DATA_FOLDER
from pilothouse.api.objects import Object, Tree
from pilothouse.base.rfc3339 import format_time
from pilothouse.controllers.elasticsearch.cluster_controller import (
    clusters_without_images,
    elasticsearch_clusters,
)
from pilothouse.runtime.intents import Intent, RecordEvent

REPOSITORY = "docker.elastic.co/elasticsearch/elasticsearch"


def machine(
    harness: ElasticsearchHarness,
    name: str,
    *tags: str,
    folder: str = "/data",
    runtime: str = "pilothouse://0.1",
) -> Object:
    """A node of ours, with images of Elasticsearch."""
    return harness.add(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "annotations": {DATA_FOLDER: folder}},
            "status": {"nodeInfo": {"containerRuntimeVersion": runtime}, "images": listed(*tags)},
        }
    )


def listed(*tags: str) -> list[dict[str, Any]]:
    return [
        {"names": [f"elasticsearch@sha256:{tag}", f"elasticsearch:{tag}"], "sizeBytes": 1} for tag in tags
    ]


def bind(machine: str, tree: Tree) -> None:
    tree["spec"]["nodeName"] = machine


def on_machines(*machines: str) -> tuple[ElasticsearchHarness, Object]:
    """A cluster that is up, each of its nodes on the machine of its number."""
    harness, test = three_nodes()
    for pod, name in zip(harness.all(Pod), machines, strict=True):
        harness.change(pod, partial(bind, name))
    return harness, test


def message(harness: ElasticsearchHarness, kind: str) -> str:
    condition = harness.of(ElasticsearchCluster, "test").condition(kind)
    assert condition is not None
    return str(condition["message"])


def told(intents: list[Intent]) -> list[str]:
    return [intent.because for intent in intents if isinstance(intent, RecordEvent)]


def cells(harness: ElasticsearchHarness) -> dict[str, Any]:
    """What kubectl shows by its columns' paths, of those about versions."""
    test = harness.of(ElasticsearchCluster, "test")
    accepted = test.condition("VersionAccepted") or {}
    found = {".status.version": test.status.get("version"), ".spec.version": test.spec["version"]}
    shown = {column.name: column.path for column in ELASTICSEARCH_V1BETA1.columns if column.priority == 0}
    assert 'VersionAccepted")].status' in shown["Accepted"]
    return {
        "Version": found[shown["Version"]],
        "Wanted": found[shown["Wanted"]],
        "Accepted": accepted["status"],
    }


def test_columns_and_condition_say_what_runs_and_what_was_refused() -> None:
    harness, test = three_nodes("8.18.0")
    assert cells(harness) == {"Version": "8.18.0", "Wanted": "8.18.0", "Accepted": "True"}
    assert harness.condition(test, "VersionAccepted") == ("True", "Running")
    harness.edit(test, version="9.0.0")
    harness.run_until_idle(test)
    assert cells(harness) == {"Version": "8.18.0", "Wanted": "9.0.0", "Accepted": "False"}
    assert harness.condition(test, "VersionAccepted") == ("False", "VersionRefused")
    assert message(harness, "VersionAccepted").startswith("9.0.0 is requested, 3 nodes run 8.18.0: ")


@pytest.mark.parametrize("version", ["9.0.0", "6.2.0"])
def test_a_refused_version_is_reported_with_the_first_look_at_it(version: str) -> None:
    harness, test = three_nodes("8.18.0")
    harness.edit(test, version=version)
    harness.step(elasticsearch_clusters, test)
    assert cells(harness) == {"Version": "8.18.0", "Wanted": version, "Accepted": "False"}
    assert harness.condition(test, "Degraded") == ("True", "VersionRefused")


def test_a_refused_version_is_reported_while_the_secrets_of_a_cluster_are_made() -> None:
    harness = ElasticsearchHarness()
    test = harness.add(elastic("test", pools=[pool("data", 1)], version="6.2.0", security={}))
    harness.step(elasticsearch_clusters, test)
    assert harness.condition(test, "Progressing")[1] == "SecretMissing"
    assert harness.condition(test, "VersionAccepted") == ("False", "VersionRefused")
    assert harness.condition(test, "Degraded") == ("True", "VersionRefused")


def test_a_refused_version_is_reported_while_a_cluster_is_paused() -> None:
    harness, test = three_nodes("8.18.0")
    harness.edit(test, paused=True, version="9.0.0")
    harness.run_until_idle(test)
    assert harness.condition(test, "VersionAccepted") == ("False", "VersionRefused")
    assert harness.condition(test, "Progressing") == ("False", "ClusterPaused")
    assert images(harness) == ["8.18.0"] * 3


def test_a_roll_says_how_far_it_has_come() -> None:
    harness, test = three_nodes()
    harness.edit(test, version=NEW)
    harness.run_until_idle(test, rounds=3)
    assert harness.condition(test, "VersionAccepted") == ("True", "RollingOut")
    assert message(harness, "VersionAccepted") == f"{NEW} is requested, 2 nodes run {OLD}, 1 node runs {NEW}."
    harness.run_until_idle(test)
    assert harness.condition(test, "VersionAccepted") == ("True", "Running")


def test_a_version_that_a_paused_cluster_is_asked_for_is_not_said_to_roll() -> None:
    harness, test = three_nodes()
    harness.edit(test, paused=True, version=NEW)
    harness.run_until_idle(test)
    assert harness.condition(test, "VersionAccepted") == ("True", "ClusterPaused")
    assert message(harness, "VersionAccepted") == f"{NEW} is requested, 3 nodes run {OLD}."


def test_no_node_is_taken_down_for_an_image_that_a_machine_lacks() -> None:
    harness, test = on_machines("n1", "n2", "n3")
    for name, folder in (("n1", "/data"), ("n2", "/data"), ("n3", "/elsewhere")):
        machine(harness, name, OLD, folder=folder)
    harness.edit(test, version=NEW)
    harness.run_until_idle(test)
    assert images(harness) == [OLD] * 3
    assert all(pod.is_true("Ready") for pod in harness.all(Pod))
    assert harness.condition(test, "VersionAccepted") == ("False", "ImageMissing")
    assert harness.condition(test, "Degraded") == ("True", "ImageMissing")
    said = message(harness, "Degraded")
    assert f"image {REPOSITORY}:{NEW} is not on nodes n1, n2, n3" in said
    importing = f"pilothouse image import elasticsearch:{NEW} FILE --strip-components 1 --data"
    assert f"on n1, n2: {importing} /data; on n3: {importing} /elsewhere" in said

    # It goes on by itself where the images come, and not before they are everywhere.
    for name in ("n2", "n3"):
        harness.change(harness.of(Node, name), lambda tree: tree["status"].update(images=listed(OLD, NEW)))
    harness.run_until_idle(test)
    assert images(harness) == [OLD] * 3
    assert "is not on node n1, and" in message(harness, "VersionAccepted")
    waiting = clusters_without_images(harness.of(Node, "n1"), harness.world())
    assert list(waiting) == [("default", "test")], (
        "a node whose images change concerns those that wait for one"
    )
    harness.change(harness.of(Node, "n1"), lambda tree: tree["status"].update(images=listed(OLD, NEW)))
    harness.run_until_idle(test)
    assert images(harness) == [NEW] * 3
    assert not list(clusters_without_images(harness.of(Node, "n1"), harness.world()))


def test_an_image_that_is_missing_is_warned_of_once() -> None:
    harness, test = on_machines("n1", "n1", "n1")
    machine(harness, "n1", OLD)
    harness.edit(test, version=NEW)
    [warning] = told(harness.step(elasticsearch_clusters, test))
    assert "is not on node n1" in warning
    assert told(harness.step(elasticsearch_clusters, test)) == []


def test_a_size_can_be_changed_while_an_image_is_missing() -> None:
    harness, test = on_machines("n1", "n1", "n1")
    machine(harness, "n1", OLD)
    harness.edit(test, version=NEW)
    harness.run_until_idle(test)
    harness.edit_pool(test, "data", replicas=4)
    harness.run_until_idle(test)
    assert images(harness) == [OLD] * 4


def test_an_image_that_goes_half_way_stops_the_roll_with_all_nodes_up() -> None:
    harness, test = on_machines("n1", "n1", "n1")
    machine(harness, "n1", OLD, NEW)
    harness.edit(test, version=NEW)
    harness.run_until_idle(test, rounds=2)
    assert images(harness) == [OLD, OLD, NEW]
    harness.change(harness.of(Node, "n1"), lambda tree: tree["status"].update(images=listed(OLD)))
    harness.run_until_idle(test)
    assert images(harness) == [OLD, OLD, NEW]
    assert all(pod.is_true("Ready") for pod in harness.all(Pod))
    assert harness.condition(test, "VersionAccepted") == ("False", "ImageMissing")


@pytest.mark.parametrize("runtime", ["containerd://1.7.2", ""])
def test_nodes_that_fetch_images_are_left_to_fetch_them(runtime: str) -> None:
    harness, test = on_machines("n1", "n1", "n1")
    machine(harness, "n1", OLD, runtime=runtime)
    harness.edit(test, version=NEW)
    harness.run_until_idle(test)
    assert images(harness) == [NEW] * 3


def test_an_image_of_ones_own_is_found_by_its_name() -> None:
    own = {"repository": "quay.io/team/search", "tag": "ours"}
    harness, test = three_nodes(image=own)
    for pod in harness.all(Pod):
        harness.change(pod, lambda tree: tree["spec"].update(nodeName="n1"))
    one = machine(harness, "n1")
    harness.change(
        one, lambda tree: tree["status"].update(images=[{"names": ["search:ours"], "sizeBytes": 1}])
    )
    harness.edit(test, version=NEW)
    harness.run_until_idle(test)
    assert images(harness) == ["ours"] * 3
    assert harness.condition(test, "VersionAccepted") == ("True", "Running")


def test_no_event_says_that_a_node_is_at_a_version_that_it_never_ran() -> None:
    harness, test = three_nodes()
    harness.edit(test, version="6.8.99")
    warnings = told(harness.step(elasticsearch_clusters, test))
    # Its pod is made, and nobody knows yet whether it was started.
    harness.remove(harness.of(Pod, "es-test-data-2"))
    harness.edit(test, version=OLD)
    warnings += told(harness.step(elasticsearch_clusters, test))
    assert harness.condition(test, "VersionAccepted")[0] == "False"
    assert not any("6.8.99" in each for each in warnings), warnings
    assert "at 6.8.99" not in message(harness, "Degraded")


def test_an_empty_pool_has_no_nodes_that_have_a_version() -> None:
    harness = ElasticsearchHarness()
    test = harness.add(elastic("test", pools=[pool("data", 1), pool("spare", 0, "data")], version=OLD))
    harness.run_until_idle(test)
    harness.edit(test, version=NEW)
    because = []
    for _ in range(20):
        because += [intent.because for intent in harness.step(elasticsearch_clusters, test)]
        harness.round(test)
    said = [each for each in because if "pool spare" in each]
    assert said, because
    assert not any("all nodes" in each for each in said)


def test_an_image_of_another_version_is_no_success_and_can_be_taken_back() -> None:
    harness, test = three_nodes()
    last = harness.all(Pod)[-1].name
    harness.reports[last] = {"version": OLD}
    harness.edit(test, version=NEW)
    harness.run_until_idle(test)
    assert images(harness) == [OLD, OLD, NEW], "no other node gets what is not what its name says"
    for kind, status in (("VersionAccepted", "False"), ("Degraded", "True")):
        assert harness.condition(test, kind) == (status, "WrongImage")
        assert f"{last} was created for {NEW} but runs {OLD}" in message(harness, kind)
        assert f"kubectl delete pod {last} -n default" in message(harness, kind)

    # No later version has ever written there.
    harness.edit(test, version=OLD)
    harness.run_until_idle(test)
    assert images(harness) == [OLD] * 3
    assert harness.condition(test, "VersionAccepted") == ("True", "Running")
    assert harness.condition(test, "Degraded")[0] == "False"


def test_a_pod_of_a_wrong_image_is_replaced_once_however_long_it_takes_to_end() -> None:
    harness, test = three_nodes()
    last = harness.all(Pod)[-1].name
    harness.reports[last] = {"version": OLD}
    harness.edit(test, version=NEW)
    harness.run_until_idle(test)
    harness.edit(test, version=OLD)
    while not harness.of(Pod, last).deleting:
        harness.step(elasticsearch_clusters, test)
    for serves in (True, False):
        harness.reports[last] = {"version": OLD, "ready": serves}
        harness.report_pilots(test)
        for _ in range(2):
            harness.step(elasticsearch_clusters, test)
            assert image_of(the_set(harness)).endswith(f":{OLD}")
            assert harness.condition(test, "VersionAccepted")[0] == "True"
    harness.reports[last] = {"version": OLD}
    harness.run_until_idle(test)
    assert images(harness) == [OLD] * 3
    assert harness.condition(test, "VersionAccepted") == ("True", "Running")


@pytest.mark.parametrize(
    ("age_of_ready", "status"),
    [(2, {}), (-2, {"version": NEW})],
    ids=["it has not served since its start", "its database was started with the later version"],
)
def test_a_pod_that_is_deleted_while_it_starts_keeps_its_version(
    age_of_ready: int, status: dict[str, Any]
) -> None:
    """Its pilot reports the start, and until the database answers, the version of the pod before it."""
    harness, test = three_nodes()
    last = harness.all(Pod)[-1].name
    harness.reports[last] = {"silent": True}
    harness.edit(test, version=NEW)
    harness.run_until_idle(test)
    assert images(harness) == [OLD, OLD, NEW]
    ready = {
        "type": "Ready",
        "status": "False",
        "lastTransitionTime": format_time(harness.now - age_of_ready),
    }
    status = {**status, "lastStartedTime": format_time(harness.now), "conditions": [ready]}
    harness.change(harness.of(Pilot, last), lambda tree: tree["status"].update(status))
    harness.delete(harness.of(Pod, last))
    harness.edit(test, version=OLD)
    for _ in range(3):
        harness.step(elasticsearch_clusters, test)
        assert image_of(the_set(harness)).endswith(f":{NEW}")
    assert harness.condition(test, "VersionAccepted") == ("False", "VersionRefused")


def test_a_version_of_which_no_node_serves_is_not_said_to_run() -> None:
    harness, test = three_nodes()
    for pod in harness.all(Pod):
        harness.reports[pod.name] = {"ready": False}
        harness.set_ready(pod, False)
    harness.run_until_idle(test, rounds=2)
    assert harness.condition(test, "VersionAccepted") == ("True", "Accepted")
    assert message(harness, "VersionAccepted") == f"All nodes were last seen with {OLD}; 0 of 3 are serving."
