"""What is asked for and what runs: a condition and columns that tell them apart, images that are looked for first, and events that only say what was seen."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kit.elasticsearch_harness import ElasticsearchHarness, elastic, pool
from tests.kit.elasticsearch_upgrade import NEW, OLD, images, three_nodes

from pilothouse.api.kind_names import ElasticsearchCluster, Node, Pod
from pilothouse.api.navigator.cluster_kinds import ELASTICSEARCH_V1BETA1
from pilothouse.api.node_images import DATA_FOLDER
from pilothouse.api.objects import Object
from pilothouse.controllers.elasticsearch.cluster_controller import (
    clusters_without_images,
    elasticsearch_clusters,
)
from pilothouse.runtime.intents import Intent, RecordEvent

REPOSITORY = "docker.elastic.co/elasticsearch/elasticsearch"


def machine(
    sea: ElasticsearchHarness, name: str, *tags: str, folder: str = "/data", runtime: str = "pilothouse://0.1"
) -> Object:
    """A node of ours, with images of Elasticsearch."""
    return sea.add(
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


def on_machines(*machines: str) -> tuple[ElasticsearchHarness, Object]:
    """A cluster that is up, each of its nodes on the machine of its number."""
    sea, test = three_nodes()
    for pod, name in zip(sea.all(Pod), machines, strict=True):
        sea.change(pod, lambda tree, name=name: tree["spec"].update(nodeName=name))  # type: ignore[misc]
    return sea, test


def message(sea: ElasticsearchHarness, kind: str) -> str:
    condition = sea.of(ElasticsearchCluster, "test").condition(kind)
    assert condition is not None
    return str(condition["message"])


def told(intents: list[Intent]) -> list[str]:
    return [intent.because for intent in intents if isinstance(intent, RecordEvent)]


def cells(sea: ElasticsearchHarness) -> dict[str, Any]:
    """What kubectl shows by its columns' paths, of those about versions."""
    test = sea.of(ElasticsearchCluster, "test")
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
    sea, test = three_nodes("8.18.0")
    assert cells(sea) == {"Version": "8.18.0", "Wanted": "8.18.0", "Accepted": "True"}
    assert sea.condition(test, "VersionAccepted") == ("True", "Running")
    sea.edit(test, version="9.0.0")
    sea.sail(test)
    assert cells(sea) == {"Version": "8.18.0", "Wanted": "9.0.0", "Accepted": "False"}
    assert sea.condition(test, "VersionAccepted") == ("False", "VersionRefused")
    assert message(sea, "VersionAccepted").startswith("9.0.0 is requested, 3 nodes run 8.18.0: ")


def test_a_roll_says_how_far_it_has_come() -> None:
    sea, test = three_nodes()
    sea.edit(test, version=NEW)
    sea.sail(test, rounds=3)
    assert sea.condition(test, "VersionAccepted") == ("True", "RollingOut")
    assert message(sea, "VersionAccepted") == f"{NEW} is requested, 2 nodes run {OLD}, 1 node runs {NEW}."
    sea.sail(test)
    assert sea.condition(test, "VersionAccepted") == ("True", "Running")


def test_a_version_that_a_paused_cluster_is_asked_for_is_not_said_to_roll() -> None:
    sea, test = three_nodes()
    sea.edit(test, paused=True, version=NEW)
    sea.sail(test)
    assert sea.condition(test, "VersionAccepted") == ("True", "ClusterPaused")
    assert message(sea, "VersionAccepted") == f"{NEW} is requested, 3 nodes run {OLD}."


def test_no_node_is_taken_down_for_an_image_that_a_machine_lacks() -> None:
    sea, test = on_machines("n1", "n2", "n3")
    for name, folder in (("n1", "/data"), ("n2", "/data"), ("n3", "/elsewhere")):
        machine(sea, name, OLD, folder=folder)
    sea.edit(test, version=NEW)
    sea.sail(test)
    assert images(sea) == [OLD] * 3
    assert all(pod.is_true("Ready") for pod in sea.all(Pod))
    assert sea.condition(test, "VersionAccepted") == ("False", "ImageMissing")
    assert sea.condition(test, "Degraded") == ("True", "ImageMissing")
    said = message(sea, "Degraded")
    assert f"image {REPOSITORY}:{NEW} is not on nodes n1, n2, n3" in said
    importing = f"pilothouse image import elasticsearch:{NEW} FILE --strip-components 1 --data"
    assert f"on n1, n2: {importing} /data; on n3: {importing} /elsewhere" in said

    # It goes on by itself where the images come, and not before they are everywhere.
    for name in ("n2", "n3"):
        sea.change(sea.of(Node, name), lambda tree: tree["status"].update(images=listed(OLD, NEW)))
    sea.sail(test)
    assert images(sea) == [OLD] * 3
    assert "is not on node n1, and" in message(sea, "VersionAccepted")
    waiting = clusters_without_images(sea.of(Node, "n1"), sea.world())
    assert list(waiting) == [("default", "test")], (
        "a node whose images change concerns those that wait for one"
    )
    sea.change(sea.of(Node, "n1"), lambda tree: tree["status"].update(images=listed(OLD, NEW)))
    sea.sail(test)
    assert images(sea) == [NEW] * 3
    assert not list(clusters_without_images(sea.of(Node, "n1"), sea.world()))


def test_an_image_that_is_missing_is_warned_of_once() -> None:
    sea, test = on_machines("n1", "n1", "n1")
    machine(sea, "n1", OLD)
    sea.edit(test, version=NEW)
    [warning] = told(sea.step(elasticsearch_clusters, test))
    assert "is not on node n1" in warning
    assert told(sea.step(elasticsearch_clusters, test)) == []


def test_a_size_can_be_changed_while_an_image_is_missing() -> None:
    sea, test = on_machines("n1", "n1", "n1")
    machine(sea, "n1", OLD)
    sea.edit(test, version=NEW)
    sea.sail(test)
    sea.edit_pool(test, "data", replicas=4)
    sea.sail(test)
    assert images(sea) == [OLD] * 4


def test_an_image_that_goes_half_way_stops_the_roll_with_all_nodes_up() -> None:
    sea, test = on_machines("n1", "n1", "n1")
    machine(sea, "n1", OLD, NEW)
    sea.edit(test, version=NEW)
    sea.sail(test, rounds=2)
    assert images(sea) == [OLD, OLD, NEW]
    sea.change(sea.of(Node, "n1"), lambda tree: tree["status"].update(images=listed(OLD)))
    sea.sail(test)
    assert images(sea) == [OLD, OLD, NEW]
    assert all(pod.is_true("Ready") for pod in sea.all(Pod))
    assert sea.condition(test, "VersionAccepted") == ("False", "ImageMissing")


@pytest.mark.parametrize("runtime", ["containerd://1.7.2", ""])
def test_nodes_that_fetch_images_are_left_to_fetch_them(runtime: str) -> None:
    sea, test = on_machines("n1", "n1", "n1")
    machine(sea, "n1", OLD, runtime=runtime)
    sea.edit(test, version=NEW)
    sea.sail(test)
    assert images(sea) == [NEW] * 3


def test_an_image_of_ones_own_is_found_by_its_name() -> None:
    own = {"repository": "quay.io/team/search", "tag": "ours"}
    sea, test = three_nodes(image=own)
    for pod in sea.all(Pod):
        sea.change(pod, lambda tree: tree["spec"].update(nodeName="n1"))
    one = machine(sea, "n1")
    sea.change(one, lambda tree: tree["status"].update(images=[{"names": ["search:ours"], "sizeBytes": 1}]))
    sea.edit(test, version=NEW)
    sea.sail(test)
    assert images(sea) == ["ours"] * 3
    assert sea.condition(test, "VersionAccepted") == ("True", "Running")


def test_no_event_says_that_a_node_is_at_a_version_that_it_never_ran() -> None:
    sea, test = three_nodes()
    sea.edit(test, version="6.8.99")
    warnings = told(sea.step(elasticsearch_clusters, test))
    # Its pod is made, and nobody knows yet whether it was started.
    sea.remove(sea.of(Pod, "es-test-data-2"))
    sea.edit(test, version=OLD)
    warnings += told(sea.step(elasticsearch_clusters, test))
    assert sea.condition(test, "VersionAccepted")[0] == "False"
    assert not any("6.8.99" in each for each in warnings), warnings
    assert "at 6.8.99" not in message(sea, "Degraded")


def test_an_empty_pool_has_no_nodes_that_have_a_version() -> None:
    sea = ElasticsearchHarness()
    test = sea.add(elastic("test", pools=[pool("data", 1), pool("spare", 0, "data")], version=OLD))
    sea.sail(test)
    sea.edit(test, version=NEW)
    because = []
    for _ in range(20):
        because += [intent.because for intent in sea.step(elasticsearch_clusters, test)]
        sea.round(test)
    said = [each for each in because if "pool spare" in each]
    assert said, because
    assert not any("all nodes" in each for each in said)


def test_an_image_of_another_version_is_no_success_and_can_be_taken_back() -> None:
    sea, test = three_nodes()
    last = sea.all(Pod)[-1].name
    sea.says[last] = {"version": OLD}
    sea.edit(test, version=NEW)
    sea.sail(test)
    assert images(sea) == [OLD, OLD, NEW], "no other node gets what is not what its name says"
    for kind, status in (("VersionAccepted", "False"), ("Degraded", "True")):
        assert sea.condition(test, kind) == (status, "WrongImage")
        assert f"{last} was created for {NEW} but runs {OLD}" in message(sea, kind)
        assert f"kubectl delete pod {last} -n default" in message(sea, kind)

    # No later version has ever written there.
    sea.edit(test, version=OLD)
    sea.sail(test)
    assert images(sea) == [OLD] * 3
    assert sea.condition(test, "VersionAccepted") == ("True", "Running")
    assert sea.condition(test, "Degraded")[0] == "False"


def test_a_version_of_which_no_node_serves_is_not_said_to_run() -> None:
    sea, test = three_nodes()
    for pod in sea.all(Pod):
        sea.says[pod.name] = {"ready": False}
        sea.set_ready(pod, False)
    sea.sail(test, rounds=2)
    assert sea.condition(test, "VersionAccepted") == ("True", "Accepted")
    assert message(sea, "VersionAccepted") == f"All nodes were last seen with {OLD}; 0 of 3 are serving."
