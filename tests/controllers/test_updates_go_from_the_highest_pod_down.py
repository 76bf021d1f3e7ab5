"""How a change of the template reaches the pods."""

from __future__ import annotations

from tests.kit.controller_harness import ControllerHarness, ended, made, reasons, waits
from tests.kit.workloads import pod_template, rolling, stateful_set

from pilothouse.api.kind_names import Pod
from pilothouse.api.objects import Object
from pilothouse.controllers.stateful_sets.stateful_set_controller import stateful_sets


def image(pod: Object) -> str:
    return str(pod.spec["containers"][0]["image"])


def images(yard: ControllerHarness) -> list[str]:
    return [image(pod) for pod in yard.all(Pod)]


def settled(yard: ControllerHarness, **spec: object) -> Object:
    web = yard.add(stateful_set(**spec))
    yard.settle(stateful_sets, web)
    return web


def test_one_pod_after_the_other_from_the_top() -> None:
    yard = ControllerHarness()
    web = settled(yard)
    yard.edit(web, template=pod_template("app:2"))
    assert ended(yard.step(stateful_sets, web)) == ["web-2"]
    assert ended(yard.step(stateful_sets, web)) == []
    yard.run_pods()
    assert made(yard.step(stateful_sets, web)) == ["web-2"]
    assert image(yard.pod("web-2")) == "app:2"
    assert ended(yard.step(stateful_sets, web)) == [], "web-2 is not up yet"
    yard.run_pods()
    assert ended(yard.step(stateful_sets, web)) == ["web-1"]
    yard.settle(stateful_sets, web)
    assert images(yard) == ["app:2"] * 3


def test_the_status_tells_how_far_the_update_is() -> None:
    yard = ControllerHarness()
    web = settled(yard)
    before = yard.status(web)
    assert before["currentRevision"] == before["updateRevision"]
    yard.edit(web, template=pod_template("app:2"))
    yard.step(stateful_sets, web)
    during = yard.status(web)
    assert during["observedGeneration"] == 2
    assert during["currentRevision"] == before["currentRevision"] != during["updateRevision"]
    assert (during["currentReplicas"], during.get("updatedReplicas", 0)) == (2, 0)
    yard.settle(stateful_sets, web)
    after = yard.status(web)
    assert after["currentRevision"] == after["updateRevision"] == during["updateRevision"]
    assert after["currentReplicas"] == after["updatedReplicas"] == 3


def test_pods_below_the_partition_stay_and_come_back_as_they_were() -> None:
    yard = ControllerHarness()
    web = settled(yard, updateStrategy=rolling(partition=2))
    yard.edit(web, template=pod_template("app:2"))
    intents = yard.settle(stateful_sets, web)
    assert images(yard) == ["app:1", "app:1", "app:2"]
    assert reasons(intents) == ["Partition"]
    yard.remove(yard.pod("web-0"))
    yard.settle(stateful_sets, web)
    assert images(yard) == ["app:1", "app:1", "app:2"]
    assert yard.status(web)["currentRevision"] != yard.status(web)["updateRevision"]
    yard.edit(web, updateStrategy=rolling(partition=0))
    assert reasons(yard.settle(stateful_sets, web)) == []
    assert images(yard) == ["app:2"] * 3
    assert yard.status(web)["currentRevision"] == yard.status(web)["updateRevision"]


def test_the_partition_counts_from_the_first_ordinal() -> None:
    yard = ControllerHarness()
    web = settled(yard, ordinals={"start": 10}, updateStrategy=rolling(partition=1))
    yard.edit(web, template=pod_template("app:2"))
    yard.settle(stateful_sets, web)
    yard.remove(yard.pod("web-10"))
    yard.settle(stateful_sets, web)
    assert images(yard) == ["app:1", "app:2", "app:2"]


def test_a_pod_that_is_going_counts_for_no_revision() -> None:
    yard = ControllerHarness()
    web = settled(yard)
    yard.delete(yard.pod("web-0"))
    yard.step(stateful_sets, web)
    status = yard.status(web)
    assert (status["replicas"], status["currentReplicas"], status["updatedReplicas"]) == (3, 2, 2)


def test_on_delete_never_calls_an_update_complete() -> None:
    yard = ControllerHarness()
    web = settled(yard, updateStrategy={"type": "OnDelete"})
    before = yard.status(web)["currentRevision"]
    yard.edit(web, template=pod_template("app:2"))
    for name in yard.names(Pod):
        yard.delete(yard.pod(name))
    yard.settle(stateful_sets, web)
    status = yard.status(web)
    assert images(yard) == ["app:2"] * 3
    assert (status["currentRevision"], status["updatedReplicas"]) == (before, 3)
    assert status["updateRevision"] != before


def test_on_delete_leaves_leaves_it_to_the_user() -> None:
    yard = ControllerHarness()
    web = settled(yard, updateStrategy={"type": "OnDelete"})
    yard.edit(web, template=pod_template("app:2"))
    assert reasons(yard.settle(stateful_sets, web)) == ["OnDelete"]
    assert images(yard) == ["app:1"] * 3
    yard.delete(yard.pod("web-1"))
    yard.settle(stateful_sets, web)
    assert images(yard) == ["app:1", "app:2", "app:1"]


def test_a_parallel_update_too_waits_for_min_ready_seconds() -> None:
    yard = ControllerHarness()
    web = settled(yard, podManagementPolicy="Parallel", minReadySeconds=10)
    yard.edit(web, template=pod_template("app:2"))
    yard.step(stateful_sets, web)
    yard.run_pods()
    yard.step(stateful_sets, web)
    yard.run_pods()
    intents = yard.step(stateful_sets, web)
    assert (ended(intents), reasons(intents)) == ([], ["PodNotAvailable"])
    yard.now += 10
    assert ended(yard.step(stateful_sets, web)) == ["web-1"]


def test_as_many_pods_go_at_once_as_may_be_unavailable() -> None:
    yard = ControllerHarness()
    web = settled(yard, replicas=5, podManagementPolicy="Parallel", updateStrategy=rolling(maxUnavailable=2))
    yard.edit(web, template=pod_template("app:2"))
    assert ended(yard.step(stateful_sets, web)) == ["web-4", "web-3"]
    assert ended(yard.step(stateful_sets, web)) == []
    yard.run_pods()
    yard.step(stateful_sets, web)
    yard.run_pods()
    assert ended(yard.step(stateful_sets, web)) == ["web-2", "web-1"]


def test_a_pod_that_is_down_already_takes_up_the_room() -> None:
    yard = ControllerHarness()
    web = settled(
        yard, replicas=4, podManagementPolicy="Parallel", updateStrategy=rolling(maxUnavailable="50%")
    )
    yard.set_ready(yard.pod("web-0"), False)
    yard.edit(web, template=pod_template("app:2"))
    assert ended(yard.step(stateful_sets, web)) == ["web-3", "web-0"]


def test_without_a_word_on_partitions_a_pod_lost_before_its_turn_comes_back_as_it_was() -> None:
    yard = ControllerHarness()
    web = settled(yard, updateStrategy={"type": "RollingUpdate"})
    yard.edit(web, template=pod_template("app:2"))
    yard.step(stateful_sets, web)
    yard.remove(yard.pod("web-2"))
    assert made(yard.step(stateful_sets, web)) == ["web-2"]
    assert image(yard.pod("web-2")) == "app:2"
    yard.remove(yard.pod("web-0"))
    yard.step(stateful_sets, web)
    assert image(yard.pod("web-0")) == "app:1"
    yard.settle(stateful_sets, web)
    assert images(yard) == ["app:2"] * 3


def test_an_ordered_update_stops_at_a_pod_that_never_gets_ready_and_says_how_to_go_on() -> None:
    yard = ControllerHarness()
    web = settled(yard)
    yard.edit(web, template=pod_template("broken"))
    for _ in range(6):
        yard.step(stateful_sets, web)
        yard.run_pods(broken=lambda pod: image(pod) == "broken")
    assert images(yard) == ["app:1", "app:1", "broken"]
    yard.edit(web, template=pod_template("app:1"))
    intents = yard.step(stateful_sets, web)
    assert ended(intents) == [], "as with Kubernetes, going back does not replace the broken pod"
    [wait] = waits(intents)
    assert wait.reason == "PodNotReady"
    assert "kubectl delete pod web-2 -n default" in wait.remedy
    yard.delete(yard.pod("web-2"))
    yard.settle(stateful_sets, web)
    assert images(yard) == ["app:1"] * 3


def test_a_parallel_update_replaces_a_broken_pod_by_itself() -> None:
    yard = ControllerHarness()
    web = settled(yard, podManagementPolicy="Parallel")
    yard.edit(web, template=pod_template("broken"))
    for _ in range(6):
        yard.step(stateful_sets, web)
        yard.run_pods(broken=lambda pod: image(pod) == "broken")
    assert images(yard) == ["app:1", "app:1", "broken"]
    yard.edit(web, template=pod_template("app:3"))
    yard.settle(stateful_sets, web)
    assert images(yard) == ["app:3"] * 3


def test_an_update_and_a_smaller_size_at_once_shrink_first() -> None:
    yard = ControllerHarness()
    web = settled(yard)
    yard.edit(web, template=pod_template("app:2"), replicas=2)
    assert ended(yard.step(stateful_sets, web)) == ["web-2"]
    yard.run_pods()
    assert ended(yard.step(stateful_sets, web)) == ["web-1"]
    yard.settle(stateful_sets, web)
    assert images(yard) == ["app:2"] * 2
