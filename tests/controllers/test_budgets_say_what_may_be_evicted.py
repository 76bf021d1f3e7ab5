"""What a disruption budget's status says: on it the API server's evictions rely."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kit.controller_harness import WRITES, ControllerHarness, reasons, waits
from tests.kit.workloads import disruption_budget, stateful_set

from pilothouse.api.kind_names import Pod, PodDisruptionBudget, StatefulSet
from pilothouse.api.objects import Object
from pilothouse.base.rfc3339 import format_time
from pilothouse.controllers.disruption_budgets import disruption_budgets
from pilothouse.controllers.stateful_sets.stateful_set_controller import stateful_sets
from pilothouse.runtime.intents import RecordEvent, RequeueAfter, Wait


def fleet(harness: ControllerHarness, replicas: int = 3) -> Object:
    web = harness.add(stateful_set(replicas=replicas))
    harness.settle(stateful_sets, web)
    return web


def decided(harness: ControllerHarness, budget: Object) -> dict[str, Any]:
    harness.step(disruption_budgets, budget)
    assert not any(isinstance(intent, WRITES) for intent in harness.step(disruption_budgets, budget))
    return harness.status(budget)


def numbers(status: dict[str, Any]) -> tuple[int, int, int, int]:
    """Expected, desired, current, allowed."""
    return (
        status["expectedPods"],
        status["desiredHealthy"],
        status["currentHealthy"],
        status["disruptionsAllowed"],
    )


def condition(status: dict[str, Any]) -> tuple[str, str]:
    [found] = status["conditions"]
    assert found["type"] == "DisruptionAllowed"
    return found["status"], found["reason"]


def evicted(harness: ControllerHarness, budget: Object, name: str) -> None:
    """What the API server writes when it evicts a pod, before the pod is seen going."""

    def spend(tree: dict[str, Any]) -> None:
        tree["status"]["disruptionsAllowed"] -= 1
        tree["status"].setdefault("disruptedPods", {})[name] = format_time(harness.now)

    harness.change(budget, spend)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"minAvailable": 2}, (3, 2, 3, 1)),
        ({"minAvailable": 5}, (3, 5, 3, 0)),
        ({"minAvailable": 0}, (3, 0, 3, 3)),
        ({"minAvailable": "50%"}, (3, 2, 3, 1)),
        ({"minAvailable": "100%"}, (3, 3, 3, 0)),
        ({"maxUnavailable": 1}, (3, 2, 3, 1)),
        ({"maxUnavailable": 0}, (3, 3, 3, 0)),
        ({"maxUnavailable": 7}, (3, 0, 3, 3)),
        ({"maxUnavailable": "30%"}, (3, 2, 3, 1)),
    ],
)
def test_healthy_pods_beyond_the_desired_ones_may_go(
    spec: dict[str, Any], expected: tuple[int, int, int, int]
) -> None:
    harness = ControllerHarness()
    fleet(harness)
    status = decided(harness, harness.add(disruption_budget(**spec)))
    assert numbers(status) == expected
    assert status["observedGeneration"] == 1
    assert condition(status) == (("True", "SufficientPods") if expected[3] else ("False", "InsufficientPods"))


def test_a_share_is_a_share_of_what_the_set_asks_for() -> None:
    harness = ControllerHarness()
    web = fleet(harness)
    budget = harness.add(disruption_budget(maxUnavailable=1))
    harness.remove(harness.pod("web-2"))
    assert numbers(decided(harness, budget)) == (3, 2, 2, 0)
    harness.edit(web, replicas=6)
    assert numbers(decided(harness, budget)) == (6, 5, 2, 0)


def test_pods_that_are_not_ready_or_are_going_are_not_healthy() -> None:
    harness = ControllerHarness()
    fleet(harness, 4)
    harness.set_ready(harness.pod("web-0"), False)
    harness.delete(harness.pod("web-1"))
    assert numbers(decided(harness, harness.add(disruption_budget(minAvailable=1)))) == (4, 1, 2, 1)


def test_an_evicted_pod_counts_as_down_before_it_is_seen_going() -> None:
    harness = ControllerHarness()
    fleet(harness)
    budget = harness.add(disruption_budget(minAvailable=1))
    decided(harness, budget)
    evicted(harness, budget, "web-0")
    intents = harness.step(disruption_budgets, budget)
    assert [intent.seconds for intent in intents if isinstance(intent, RequeueAfter)] == [120.0]
    status = harness.status(budget)
    assert numbers(status) == (3, 1, 2, 1)
    assert list(status["disruptedPods"]) == ["web-0"]
    harness.delete(harness.pod("web-0"))
    status = decided(harness, budget)
    assert numbers(status) == (3, 1, 2, 1)
    assert "disruptedPods" not in status


def test_an_evicted_pod_that_stays_counts_again_and_is_told_of() -> None:
    harness = ControllerHarness()
    fleet(harness)
    budget = harness.add(disruption_budget(minAvailable=1))
    decided(harness, budget)
    evicted(harness, budget, "web-0")
    # The moment for which it was put off, and not again for no time at all.
    harness.now += 120
    intents = harness.step(disruption_budgets, budget)
    assert not [intent for intent in intents if isinstance(intent, RequeueAfter)]
    [told] = [intent for intent in intents if isinstance(intent, RecordEvent)]
    assert (told.event, told.about.name, told.warning) == ("NotDeleted", "web-0", True)
    assert numbers(harness.status(budget)) == (3, 1, 3, 2)
    assert harness.step(disruption_budgets, budget) == []


def test_an_evicted_pod_that_has_gone_is_forgotten() -> None:
    harness = ControllerHarness()
    fleet(harness)
    budget = harness.add(disruption_budget(minAvailable=1))
    decided(harness, budget)
    evicted(harness, budget, "web-0")
    harness.remove(harness.pod("web-0"))
    assert "disruptedPods" not in decided(harness, budget)


def test_without_pods_nothing_is_allowed() -> None:
    harness = ControllerHarness()
    budget = harness.add(disruption_budget(minAvailable=0))
    assert reasons(harness.step(disruption_budgets, budget)) == ["NoPods"]
    assert numbers(harness.status(budget)) == (0, 0, 0, 0)
    assert condition(harness.status(budget)) == ("False", "InsufficientPods")


def test_pods_that_nobody_controls_count_for_a_number_but_not_for_a_share() -> None:
    harness = ControllerHarness()
    fleet(harness)
    lonely = harness.add(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": {"app": "web"}}, "spec": {}}
    )
    harness.set_ready(lonely, True)
    assert numbers(decided(harness, harness.add(disruption_budget("n", minAvailable=2)))) == (4, 2, 4, 2)
    share = harness.add(disruption_budget("s", maxUnavailable=1))
    told = [intent for intent in harness.step(disruption_budgets, share) if isinstance(intent, RecordEvent)]
    assert [(one.event, one.warning) for one in told] == [("UnmanagedPods", True)]
    assert numbers(harness.status(share)) == (3, 2, 4, 2)
    [wait] = harness.step(disruption_budgets, share)
    assert isinstance(wait, Wait)
    assert (wait.reason, "minAvailable" in wait.remedy) == ("UnmanagedPods", True)


@pytest.mark.parametrize(
    ("owner", "said"),
    [
        ({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "gone"}, "which does not exist"),
        ({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"}, "which does not exist"),
        ({"apiVersion": "x/v1", "kind": "Thing", "name": "web"}, "is unknown"),
    ],
)
def test_what_a_budget_is_a_share_of_must_be_known_or_nothing_may_go(
    owner: dict[str, Any], said: str
) -> None:
    harness = ControllerHarness()
    fleet(harness)
    budget = harness.add(disruption_budget(maxUnavailable=2))
    decided(harness, budget)
    reference = {**owner, "uid": "another", "controller": True}
    harness.change(harness.pod("web-0"), lambda tree: tree["metadata"].update(ownerReferences=[reference]))
    assert reasons(harness.step(disruption_budgets, budget)) == ["SyncFailed"]
    status = harness.status(budget)
    assert status["disruptionsAllowed"] == 0
    assert condition(status) == ("False", "SyncFailed")
    assert said in status["conditions"][0]["message"]
    harness.remove(harness.pod("web-0"))
    status = decided(harness, budget)
    assert condition(status) == ("True", "SufficientPods")
    assert status["conditions"][0]["message"] == ""


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"maxUnavailable": "many"}, "spec.maxUnavailable"),
        ({"minAvailable": "many"}, "spec.minAvailable"),
        ({"minAvailable": 1, "selector": {"matchLabels": {"-": "-"}}}, "spec.selector"),
    ],
)
def test_a_budget_that_can_t_be_understood_allows_nothing(spec: dict[str, Any], path: str) -> None:
    harness = ControllerHarness()
    fleet(harness)
    budget = harness.add(disruption_budget(**spec))
    [wait] = waits(harness.step(disruption_budgets, budget))
    assert (wait.reason, path in wait.because) == ("SyncFailed", True)
    assert harness.status(budget)["disruptionsAllowed"] == 0


def test_a_budget_that_asks_for_nothing_allows_nothing_and_says_so() -> None:
    harness = ControllerHarness()
    fleet(harness)
    budget = harness.add(disruption_budget())
    assert reasons(harness.step(disruption_budgets, budget)) == ["NothingAsked"]
    assert harness.status(budget)["disruptionsAllowed"] == 0


def test_no_selector_selects_nothing_and_an_empty_one_everything() -> None:
    harness = ControllerHarness()
    fleet(harness)
    assert (
        numbers(decided(harness, harness.add(disruption_budget("none", minAvailable=1, selector=None))))[0]
        == 0
    )
    assert (
        numbers(decided(harness, harness.add(disruption_budget("all", minAvailable=1, selector={}))))[0] == 3
    )


def test_the_moment_of_the_change_is_kept_while_the_condition_stays() -> None:
    harness = ControllerHarness()
    fleet(harness)
    budget = harness.add(disruption_budget(minAvailable=1))
    since = decided(harness, budget)["conditions"][0]["lastTransitionTime"]
    harness.now += 60
    harness.set_ready(harness.pod("web-0"), False)
    assert decided(harness, budget)["conditions"][0]["lastTransitionTime"] == since
    harness.set_ready(harness.pod("web-1"), False)
    assert decided(harness, budget)["conditions"][0]["lastTransitionTime"] == format_time(harness.now)


def test_a_change_of_a_pod_or_its_set_has_the_budget_looked_at() -> None:
    harness = ControllerHarness()
    web = fleet(harness)
    harness.add(disruption_budget("mine", minAvailable=1))
    harness.add(disruption_budget("other", minAvailable=1, selector={"matchLabels": {"app": "other"}}))
    world = harness.world()
    assert disruption_budgets.primary == PodDisruptionBudget
    assert list(disruption_budgets.also[Pod](harness.pod("web-0"), world)) == [("default", "mine")]
    assert list(disruption_budgets.also[StatefulSet](web, world)) == [("default", "mine")]
