"""How a change of the template reaches the pods."""

from __future__ import annotations

from typing import Any

from tests.kit.controller_harness import ControllerHarness, created, deleted, reasons, waits
from tests.kit.workloads import pod_template, rolling, stateful_set

from pilothouse.api.kind_names import Pod
from pilothouse.api.objects import Object
from pilothouse.controllers.stateful_sets.stateful_set_controller import stateful_sets


def image(pod: Object) -> str:
    return str(pod.spec["containers"][0]["image"])


def images(harness: ControllerHarness) -> list[str]:
    return [image(pod) for pod in harness.all(Pod)]


def settled(harness: ControllerHarness, **spec: Any) -> Object:
    web = harness.add(stateful_set(**spec))
    harness.settle(stateful_sets, web)
    return web


def test_one_pod_after_the_other_from_the_top() -> None:
    harness = ControllerHarness()
    web = settled(harness)
    harness.edit(web, template=pod_template("app:2"))
    assert deleted(harness.step(stateful_sets, web)) == ["web-2"]
    assert deleted(harness.step(stateful_sets, web)) == []
    harness.run_pods()
    assert created(harness.step(stateful_sets, web)) == ["web-2"]
    assert image(harness.pod("web-2")) == "app:2"
    assert deleted(harness.step(stateful_sets, web)) == [], "web-2 is not up yet"
    harness.run_pods()
    assert deleted(harness.step(stateful_sets, web)) == ["web-1"]
    harness.settle(stateful_sets, web)
    assert images(harness) == ["app:2"] * 3


def test_the_status_tells_how_far_the_update_is() -> None:
    harness = ControllerHarness()
    web = settled(harness)
    before = harness.status(web)
    assert before["currentRevision"] == before["updateRevision"]
    harness.edit(web, template=pod_template("app:2"))
    harness.step(stateful_sets, web)
    during = harness.status(web)
    assert during["observedGeneration"] == 2
    assert during["currentRevision"] == before["currentRevision"] != during["updateRevision"]
    assert (during["currentReplicas"], during.get("updatedReplicas", 0)) == (2, 0)
    harness.settle(stateful_sets, web)
    after = harness.status(web)
    assert after["currentRevision"] == after["updateRevision"] == during["updateRevision"]
    assert after["currentReplicas"] == after["updatedReplicas"] == 3


def test_pods_below_the_partition_stay_and_come_back_as_they_were() -> None:
    harness = ControllerHarness()
    web = settled(harness, updateStrategy=rolling(partition=2))
    harness.edit(web, template=pod_template("app:2"))
    intents = harness.settle(stateful_sets, web)
    assert images(harness) == ["app:1", "app:1", "app:2"]
    assert reasons(intents) == ["Partition"]
    harness.remove(harness.pod("web-0"))
    harness.settle(stateful_sets, web)
    assert images(harness) == ["app:1", "app:1", "app:2"]
    assert harness.status(web)["currentRevision"] != harness.status(web)["updateRevision"]
    harness.edit(web, updateStrategy=rolling(partition=0))
    assert reasons(harness.settle(stateful_sets, web)) == []
    assert images(harness) == ["app:2"] * 3
    assert harness.status(web)["currentRevision"] == harness.status(web)["updateRevision"]


def test_the_partition_counts_from_the_first_ordinal() -> None:
    harness = ControllerHarness()
    web = settled(harness, ordinals={"start": 10}, updateStrategy=rolling(partition=1))
    harness.edit(web, template=pod_template("app:2"))
    harness.settle(stateful_sets, web)
    harness.remove(harness.pod("web-10"))
    harness.settle(stateful_sets, web)
    assert images(harness) == ["app:1", "app:2", "app:2"]


def test_a_pod_that_is_going_counts_for_no_revision() -> None:
    harness = ControllerHarness()
    web = settled(harness)
    harness.delete(harness.pod("web-0"))
    harness.step(stateful_sets, web)
    status = harness.status(web)
    assert (status["replicas"], status["currentReplicas"], status["updatedReplicas"]) == (3, 2, 2)


def test_on_delete_never_calls_an_update_complete() -> None:
    harness = ControllerHarness()
    web = settled(harness, updateStrategy={"type": "OnDelete"})
    before = harness.status(web)["currentRevision"]
    harness.edit(web, template=pod_template("app:2"))
    for name in harness.names(Pod):
        harness.delete(harness.pod(name))
    harness.settle(stateful_sets, web)
    status = harness.status(web)
    assert images(harness) == ["app:2"] * 3
    assert (status["currentRevision"], status["updatedReplicas"]) == (before, 3)
    assert status["updateRevision"] != before


def test_on_delete_leaves_leaves_it_to_the_user() -> None:
    harness = ControllerHarness()
    web = settled(harness, updateStrategy={"type": "OnDelete"})
    harness.edit(web, template=pod_template("app:2"))
    assert reasons(harness.settle(stateful_sets, web)) == ["OnDelete"]
    assert images(harness) == ["app:1"] * 3
    harness.delete(harness.pod("web-1"))
    harness.settle(stateful_sets, web)
    assert images(harness) == ["app:1", "app:2", "app:1"]


def test_a_parallel_update_too_waits_for_min_ready_seconds() -> None:
    harness = ControllerHarness()
    web = settled(harness, podManagementPolicy="Parallel", minReadySeconds=10)
    harness.edit(web, template=pod_template("app:2"))
    harness.step(stateful_sets, web)
    harness.run_pods()
    harness.step(stateful_sets, web)
    harness.run_pods()
    intents = harness.step(stateful_sets, web)
    assert (deleted(intents), reasons(intents)) == ([], ["PodNotAvailable"])
    harness.now += 10
    assert deleted(harness.step(stateful_sets, web)) == ["web-1"]


def test_as_many_pods_go_at_once_as_may_be_unavailable() -> None:
    harness = ControllerHarness()
    web = settled(
        harness, replicas=5, podManagementPolicy="Parallel", updateStrategy=rolling(maxUnavailable=2)
    )
    harness.edit(web, template=pod_template("app:2"))
    assert deleted(harness.step(stateful_sets, web)) == ["web-4", "web-3"]
    assert deleted(harness.step(stateful_sets, web)) == []
    harness.run_pods()
    harness.step(stateful_sets, web)
    harness.run_pods()
    assert deleted(harness.step(stateful_sets, web)) == ["web-2", "web-1"]


def test_a_pod_that_is_down_already_takes_up_the_room() -> None:
    harness = ControllerHarness()
    web = settled(
        harness, replicas=4, podManagementPolicy="Parallel", updateStrategy=rolling(maxUnavailable="50%")
    )
    harness.set_ready(harness.pod("web-0"), False)
    harness.edit(web, template=pod_template("app:2"))
    assert deleted(harness.step(stateful_sets, web)) == ["web-3", "web-0"]


def test_without_a_word_on_partitions_a_pod_lost_before_its_turn_comes_back_as_it_was() -> None:
    harness = ControllerHarness()
    web = settled(harness, updateStrategy={"type": "RollingUpdate"})
    harness.edit(web, template=pod_template("app:2"))
    harness.step(stateful_sets, web)
    harness.remove(harness.pod("web-2"))
    assert created(harness.step(stateful_sets, web)) == ["web-2"]
    assert image(harness.pod("web-2")) == "app:2"
    harness.remove(harness.pod("web-0"))
    harness.step(stateful_sets, web)
    assert image(harness.pod("web-0")) == "app:1"
    harness.settle(stateful_sets, web)
    assert images(harness) == ["app:2"] * 3


def test_an_ordered_update_stops_at_a_pod_that_never_gets_ready_and_says_how_to_go_on() -> None:
    harness = ControllerHarness()
    web = settled(harness)
    harness.edit(web, template=pod_template("broken"))
    for _ in range(6):
        harness.step(stateful_sets, web)
        harness.run_pods(broken=lambda pod: image(pod) == "broken")
    assert images(harness) == ["app:1", "app:1", "broken"]
    harness.edit(web, template=pod_template("app:1"))
    intents = harness.step(stateful_sets, web)
    assert deleted(intents) == [], "as with Kubernetes, going back does not replace the broken pod"
    [wait] = waits(intents)
    assert wait.reason == "PodNotReady"
    assert "kubectl delete pod web-2 -n default" in wait.remedy
    harness.delete(harness.pod("web-2"))
    harness.settle(stateful_sets, web)
    assert images(harness) == ["app:1"] * 3


def test_a_parallel_update_replaces_a_broken_pod_by_itself() -> None:
    harness = ControllerHarness()
    web = settled(harness, podManagementPolicy="Parallel")
    harness.edit(web, template=pod_template("broken"))
    for _ in range(6):
        harness.step(stateful_sets, web)
        harness.run_pods(broken=lambda pod: image(pod) == "broken")
    assert images(harness) == ["app:1", "app:1", "broken"]
    harness.edit(web, template=pod_template("app:3"))
    harness.settle(stateful_sets, web)
    assert images(harness) == ["app:3"] * 3


def test_an_update_and_a_smaller_size_at_once_shrink_first() -> None:
    harness = ControllerHarness()
    web = settled(harness)
    harness.edit(web, template=pod_template("app:2"), replicas=2)
    assert deleted(harness.step(stateful_sets, web)) == ["web-2"]
    harness.run_pods()
    assert deleted(harness.step(stateful_sets, web)) == ["web-1"]
    harness.settle(stateful_sets, web)
    assert images(harness) == ["app:2"] * 2
