"""Which pods a set makes and ends, and when."""

from __future__ import annotations

import pytest
from tests.kit.controller_harness import ControllerHarness, created, deleted, reasons
from tests.kit.workloads import stateful_set

from pilothouse.api.kind_names import Pod
from pilothouse.controllers.stateful_sets.stateful_set_controller import stateful_sets
from pilothouse.runtime.intents import RequeueAfter


def test_an_ordered_set_makes_the_next_pod_when_the_last_one_is_ready() -> None:
    harness = ControllerHarness()
    web = harness.add(stateful_set())
    assert created(harness.step(stateful_sets, web)) == ["web-0"]
    assert created(harness.step(stateful_sets, web)) == []
    harness.run_pods()
    assert created(harness.step(stateful_sets, web)) == ["web-1"]
    harness.settle(stateful_sets, web)
    assert harness.names(Pod) == ["web-0", "web-1", "web-2"]
    assert harness.status(web)["readyReplicas"] == harness.status(web)["availableReplicas"] == 3


def test_a_parallel_set_makes_all_pods_at_once() -> None:
    harness = ControllerHarness()
    web = harness.add(stateful_set(podManagementPolicy="Parallel"))
    assert created(harness.step(stateful_sets, web)) == ["web-0", "web-1", "web-2"]


def test_ordinals_begin_where_the_spec_says() -> None:
    harness = ControllerHarness()
    web = harness.add(stateful_set(ordinals={"start": 5}, replicas=2))
    harness.settle(stateful_sets, web)
    assert harness.names(Pod) == ["web-5", "web-6"]


def test_moving_the_first_ordinal_makes_the_new_pods_before_the_old_ones_go() -> None:
    harness = ControllerHarness()
    web = harness.add(stateful_set(replicas=2))
    harness.settle(stateful_sets, web)
    harness.edit(web, ordinals={"start": 2})
    assert created(harness.step(stateful_sets, web)) == ["web-2"]
    harness.settle(stateful_sets, web)
    assert harness.names(Pod) == ["web-2", "web-3"]


def test_an_ordered_set_ends_the_highest_pod_first_and_waits_for_it_to_go() -> None:
    harness = ControllerHarness()
    web = harness.add(stateful_set())
    harness.settle(stateful_sets, web)
    harness.edit(web, replicas=1)
    assert deleted(harness.step(stateful_sets, web)) == ["web-2"]
    intents = harness.step(stateful_sets, web)
    assert (deleted(intents), reasons(intents)) == ([], ["PodTerminating"])
    harness.run_pods()
    assert deleted(harness.step(stateful_sets, web)) == ["web-1"]
    harness.settle(stateful_sets, web)
    assert harness.names(Pod) == ["web-0"]


def test_a_parallel_set_ends_all_superfluous_pods_at_once() -> None:
    harness = ControllerHarness()
    web = harness.add(stateful_set(podManagementPolicy="Parallel"))
    harness.settle(stateful_sets, web)
    harness.edit(web, replicas=1)
    assert deleted(harness.step(stateful_sets, web)) == ["web-2", "web-1"]


def test_an_ordered_set_does_not_shrink_while_a_lower_pod_is_down() -> None:
    harness = ControllerHarness()
    web = harness.add(stateful_set())
    harness.settle(stateful_sets, web)
    harness.set_ready(harness.pod("web-0"), False)
    harness.edit(web, replicas=1)
    intents = harness.step(stateful_sets, web)
    assert (deleted(intents), reasons(intents)) == ([], ["PodNotReady"])


def test_of_superfluous_pods_that_are_down_the_lowest_goes_before_the_others_are_up() -> None:
    harness = ControllerHarness()
    web = harness.add(stateful_set(replicas=4))
    harness.settle(stateful_sets, web)
    harness.set_ready(harness.pod("web-2"), False)
    harness.set_ready(harness.pod("web-3"), False)
    harness.edit(web, replicas=1)
    intents = harness.step(stateful_sets, web)
    assert deleted(intents) == []
    assert "web-2" in intents[-1].because
    harness.set_ready(harness.pod("web-3"), True)
    assert deleted(harness.step(stateful_sets, web)) == ["web-3"]
    harness.remove(harness.pod("web-3"))
    assert deleted(harness.step(stateful_sets, web)) == ["web-2"]


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
@pytest.mark.parametrize("policy", ["OrderedReady", "Parallel"])
def test_a_pod_that_has_ended_is_deleted_and_made_anew(phase: str, policy: str) -> None:
    harness = ControllerHarness()
    web = harness.add(stateful_set(podManagementPolicy=policy))
    harness.settle(stateful_sets, web)
    before = harness.pod("web-1").uid
    harness.fail(harness.pod("web-1"), phase)
    assert deleted(harness.step(stateful_sets, web)) == ["web-1"]
    intents = harness.step(stateful_sets, web)
    assert created(intents) == deleted(intents) == [], "it is still going, and its name taken"
    harness.settle(stateful_sets, web)
    assert harness.pod("web-1").uid != before
    assert harness.status(web)["readyReplicas"] == 3


def test_a_pod_that_was_deleted_comes_back_when_it_is_gone() -> None:
    harness = ControllerHarness()
    web = harness.add(stateful_set())
    harness.settle(stateful_sets, web)
    harness.delete(harness.pod("web-0"))
    intents = harness.step(stateful_sets, web)
    assert (created(intents), reasons(intents)) == ([], ["PodTerminating"])
    harness.run_pods()
    assert created(harness.step(stateful_sets, web)) == ["web-0"]


def test_a_set_that_is_being_deleted_touches_no_pod() -> None:
    harness = ControllerHarness()
    web = harness.add(stateful_set())
    harness.settle(stateful_sets, web)
    harness.change(
        web,
        lambda tree: tree["metadata"].update(deletionTimestamp="2024-01-01T00:00:00Z", finalizers=["orphan"]),
    )
    harness.remove(harness.pod("web-2"))
    intents = harness.step(stateful_sets, web)
    assert [intent.verb for intent in intents] == ["SetStatus"]
    assert harness.status(web)["replicas"] == 2
    assert harness.step(stateful_sets, web) == []


def test_a_pod_counts_when_it_has_been_ready_for_min_ready_seconds() -> None:
    harness = ControllerHarness()
    web = harness.add(stateful_set(minReadySeconds=10))
    harness.step(stateful_sets, web)
    harness.run_pods()
    intents = harness.step(stateful_sets, web)
    assert (created(intents), reasons(intents)) == ([], ["PodNotAvailable"])
    assert [intent.seconds for intent in intents if isinstance(intent, RequeueAfter)] == [10.0]
    assert harness.status(web)["readyReplicas"] == 1
    assert harness.status(web)["availableReplicas"] == 0
    harness.now += 10
    assert created(harness.step(stateful_sets, web)) == ["web-1"]
    assert harness.status(web)["availableReplicas"] == 1


def test_no_replicas_means_no_pods() -> None:
    harness = ControllerHarness()
    web = harness.add(stateful_set(replicas=0))
    harness.settle(stateful_sets, web)
    assert harness.names(Pod) == []
    assert harness.status(web)["observedGeneration"] == 1
