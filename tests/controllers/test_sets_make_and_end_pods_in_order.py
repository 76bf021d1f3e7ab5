"""Which pods a set makes and ends, and when."""

from __future__ import annotations

import pytest
from tests.kit.controller_harness import ControllerHarness, ended, made, reasons
from tests.kit.workloads import stateful_set

from pilothouse.api.kind_names import Pod
from pilothouse.controllers.stateful_sets.stateful_set_controller import stateful_sets


def test_an_ordered_set_makes_the_next_pod_when_the_last_one_is_ready() -> None:
    yard = ControllerHarness()
    web = yard.add(stateful_set())
    assert made(yard.step(stateful_sets, web)) == ["web-0"]
    assert made(yard.step(stateful_sets, web)) == []
    yard.run_pods()
    assert made(yard.step(stateful_sets, web)) == ["web-1"]
    yard.settle(stateful_sets, web)
    assert yard.names(Pod) == ["web-0", "web-1", "web-2"]
    assert yard.status(web)["readyReplicas"] == yard.status(web)["availableReplicas"] == 3


def test_a_parallel_set_makes_all_pods_at_once() -> None:
    yard = ControllerHarness()
    web = yard.add(stateful_set(podManagementPolicy="Parallel"))
    assert made(yard.step(stateful_sets, web)) == ["web-0", "web-1", "web-2"]


def test_ordinals_begin_where_the_spec_says() -> None:
    yard = ControllerHarness()
    web = yard.add(stateful_set(ordinals={"start": 5}, replicas=2))
    yard.settle(stateful_sets, web)
    assert yard.names(Pod) == ["web-5", "web-6"]


def test_moving_the_first_ordinal_makes_the_new_pods_before_the_old_ones_go() -> None:
    yard = ControllerHarness()
    web = yard.add(stateful_set(replicas=2))
    yard.settle(stateful_sets, web)
    yard.edit(web, ordinals={"start": 2})
    assert made(yard.step(stateful_sets, web)) == ["web-2"]
    yard.settle(stateful_sets, web)
    assert yard.names(Pod) == ["web-2", "web-3"]


def test_an_ordered_set_ends_the_highest_pod_first_and_waits_for_it_to_go() -> None:
    yard = ControllerHarness()
    web = yard.add(stateful_set())
    yard.settle(stateful_sets, web)
    yard.edit(web, replicas=1)
    assert ended(yard.step(stateful_sets, web)) == ["web-2"]
    intents = yard.step(stateful_sets, web)
    assert (ended(intents), reasons(intents)) == ([], ["PodTerminating"])
    yard.run_pods()
    assert ended(yard.step(stateful_sets, web)) == ["web-1"]
    yard.settle(stateful_sets, web)
    assert yard.names(Pod) == ["web-0"]


def test_a_parallel_set_ends_all_superfluous_pods_at_once() -> None:
    yard = ControllerHarness()
    web = yard.add(stateful_set(podManagementPolicy="Parallel"))
    yard.settle(stateful_sets, web)
    yard.edit(web, replicas=1)
    assert ended(yard.step(stateful_sets, web)) == ["web-2", "web-1"]


def test_an_ordered_set_does_not_shrink_while_a_lower_pod_is_down() -> None:
    yard = ControllerHarness()
    web = yard.add(stateful_set())
    yard.settle(stateful_sets, web)
    yard.set_ready(yard.pod("web-0"), False)
    yard.edit(web, replicas=1)
    intents = yard.step(stateful_sets, web)
    assert (ended(intents), reasons(intents)) == ([], ["PodNotReady"])


def test_of_superfluous_pods_that_are_down_the_lowest_goes_before_the_others_are_up() -> None:
    yard = ControllerHarness()
    web = yard.add(stateful_set(replicas=4))
    yard.settle(stateful_sets, web)
    yard.set_ready(yard.pod("web-2"), False)
    yard.set_ready(yard.pod("web-3"), False)
    yard.edit(web, replicas=1)
    intents = yard.step(stateful_sets, web)
    assert ended(intents) == []
    assert "web-2" in intents[-1].because
    yard.set_ready(yard.pod("web-3"), True)
    assert ended(yard.step(stateful_sets, web)) == ["web-3"]
    yard.remove(yard.pod("web-3"))
    assert ended(yard.step(stateful_sets, web)) == ["web-2"]


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
@pytest.mark.parametrize("policy", ["OrderedReady", "Parallel"])
def test_a_pod_that_has_ended_is_deleted_and_made_anew(phase: str, policy: str) -> None:
    yard = ControllerHarness()
    web = yard.add(stateful_set(podManagementPolicy=policy))
    yard.settle(stateful_sets, web)
    before = yard.pod("web-1").uid
    yard.fail(yard.pod("web-1"), phase)
    assert ended(yard.step(stateful_sets, web)) == ["web-1"]
    intents = yard.step(stateful_sets, web)
    assert made(intents) == ended(intents) == [], "it is still going, and its name taken"
    yard.settle(stateful_sets, web)
    assert yard.pod("web-1").uid != before
    assert yard.status(web)["readyReplicas"] == 3


def test_a_pod_that_was_deleted_comes_back_when_it_is_gone() -> None:
    yard = ControllerHarness()
    web = yard.add(stateful_set())
    yard.settle(stateful_sets, web)
    yard.delete(yard.pod("web-0"))
    intents = yard.step(stateful_sets, web)
    assert (made(intents), reasons(intents)) == ([], ["PodTerminating"])
    yard.run_pods()
    assert made(yard.step(stateful_sets, web)) == ["web-0"]


def test_a_set_that_is_being_deleted_touches_no_pod() -> None:
    yard = ControllerHarness()
    web = yard.add(stateful_set())
    yard.settle(stateful_sets, web)
    yard.change(
        web,
        lambda tree: tree["metadata"].update(deletionTimestamp="2024-01-01T00:00:00Z", finalizers=["orphan"]),
    )
    yard.remove(yard.pod("web-2"))
    intents = yard.step(stateful_sets, web)
    assert [intent.verb for intent in intents] == ["SetStatus"]
    assert yard.status(web)["replicas"] == 2
    assert yard.step(stateful_sets, web) == []


def test_a_pod_counts_when_it_has_been_ready_for_min_ready_seconds() -> None:
    yard = ControllerHarness()
    web = yard.add(stateful_set(minReadySeconds=10))
    yard.step(stateful_sets, web)
    yard.run_pods()
    intents = yard.step(stateful_sets, web)
    assert (made(intents), reasons(intents)) == ([], ["PodNotAvailable"])
    assert [intent.seconds for intent in intents if intent.verb == "After"] == [10.0]
    assert yard.status(web)["readyReplicas"] == 1
    assert yard.status(web)["availableReplicas"] == 0
    yard.now += 10
    assert made(yard.step(stateful_sets, web)) == ["web-1"]
    assert yard.status(web)["availableReplicas"] == 1


def test_no_replicas_means_no_pods() -> None:
    yard = ControllerHarness()
    web = yard.add(stateful_set(replicas=0))
    yard.settle(stateful_sets, web)
    assert yard.names(Pod) == []
    assert yard.status(web)["observedGeneration"] == 1
