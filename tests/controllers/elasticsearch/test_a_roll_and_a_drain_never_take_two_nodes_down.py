"""One account of disruptions: a cluster's own roll and evictions of its pods never take two nodes down."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Any

import pytest
from tests.kit.controller_harness import Refused, waits
from tests.kit.elasticsearch_harness import ElasticsearchHarness, elastic, partitions, pool, wrote
from tests.kit.elasticsearch_upgrade import NEW, OLD, images, the_set, three_nodes

from pilothouse.api.disruption_target import disruption_of
from pilothouse.api.kind_names import Pilot, Pod, PodDisruptionBudget, StatefulSet
from pilothouse.api.objects import Object
from pilothouse.api.pod_health import healthy
from pilothouse.controllers.disruption_budgets import DELETION_TIMEOUT, disruption_budgets
from pilothouse.controllers.disruptions import DisruptionAccount
from pilothouse.controllers.elasticsearch.cluster_controller import elasticsearch_clusters
from pilothouse.controllers.stateful_sets.stateful_set_controller import stateful_sets
from pilothouse.runtime.intents import Evict, Intent, PatchObject, SetStatus

CONFIG = {"search.max_buckets": 2000}


def budget(harness: ElasticsearchHarness) -> Object:
    return harness.of(PodDisruptionBudget, "es-test")


def allowed(harness: ElasticsearchHarness) -> tuple[int, int]:
    """What the budget asks for, and what it allows."""
    found = budget(harness)
    return found.spec["maxUnavailable"], found.status["disruptionsAllowed"]


def evict(harness: ElasticsearchHarness, name: str) -> bool:
    """As ``kubectl drain`` does; False if the budget forbids it."""
    try:
        harness.execute(Evict(harness.pod(name), because="node n1 is drained", by="kubectl"))
    except Refused:
        return False
    return True


def test_the_budget_is_1_while_a_node_can_be_spared() -> None:
    harness, test = three_nodes()
    assert allowed(harness) == (1, 1)
    harness.health, harness.settled = "Yellow", False
    harness.run_until_idle(test)
    assert allowed(harness) == (0, 0)
    harness.settled = True
    harness.run_until_idle(test)
    assert allowed(harness) == (1, 1)
    harness.health = "Red"
    harness.run_until_idle(test)
    assert allowed(harness) == (0, 0)


def test_the_budget_is_0_until_the_cluster_has_formed() -> None:
    harness = ElasticsearchHarness()
    harness.leads = False
    test = harness.add(elastic("test", pools=[pool("data", 3)]))
    harness.run_until_idle(test)
    assert allowed(harness) == (0, 0)
    harness.leads = True
    harness.run_until_idle(test)
    assert allowed(harness) == (1, 1)


def test_a_roll_books_a_node_and_says_so_before_it_goes_down() -> None:
    harness, test = three_nodes()
    harness.edit(test, version=NEW)
    order: list[str] = []
    harness.before_write = lambda intent: order.append(f"{intent.verb} {getattr(intent, 'seen', test).kind}")
    harness.step(elasticsearch_clusters, test)
    assert order[-3:] == ["SetStatus PodDisruptionBudget", "SetStatus Pod", "Update StatefulSet"]
    assert list(budget(harness).status["disruptedPods"]) == ["es-test-data-2"]
    found = disruption_of(harness.pod("es-test-data-2"))
    assert found is not None
    assert found.by == "elasticsearch-clusters"
    assert found.because == f"rolling pool data to version {NEW}, es-test-data-2 first"
    assert not evict(harness, "es-test-data-0")


@pytest.mark.parametrize("crash_after", range(5))
def test_a_roll_goes_on_after_a_crash_between_two_writes(crash_after: int) -> None:
    harness, test = three_nodes()
    harness.edit(test, version=NEW)
    harness.step(elasticsearch_clusters, test, crash_after=crash_after)
    harness.run_until_idle(test)
    assert images(harness) == [NEW] * 3
    assert allowed(harness) == (1, 1)


def test_an_evicted_node_holds_the_roll_until_it_is_back() -> None:
    harness, test = three_nodes()
    assert evict(harness, "es-test-data-0")
    harness.edit(test, version=NEW)
    # The eviction is booked, and the pod is not seen going yet.
    harness.change(harness.pod("es-test-data-0"), lambda tree: tree["metadata"].pop("deletionTimestamp"))
    intents = harness.step(elasticsearch_clusters, test)
    assert partitions(intents) == []
    assert [wait.reason for wait in waits(intents)] == ["DisruptionBudget"]
    message = harness.message(test, "Progressing")
    assert "es-test-data-0 is being taken down; one at a time" in message


def test_an_eviction_that_the_budget_shows_first_holds_the_roll() -> None:
    """The cache of pods may be behind that of budgets: the budget's own count is what counts."""
    harness, test = three_nodes()
    harness.change(
        budget(harness), lambda tree: tree["status"].update(disruptionsAllowed=0, currentHealthy=2)
    )
    harness.edit(test, version=NEW)
    intents = harness.step(elasticsearch_clusters, test)
    assert partitions(intents) == []
    assert "counts 2 healthy pods of 3" in harness.message(test, "Progressing")


def test_a_roll_that_decided_before_an_eviction_is_refused() -> None:
    harness, test = three_nodes()
    harness.edit(test, version=NEW)
    intents = harness.decide_cluster(test)
    assert partitions(intents) == [2]
    assert evict(harness, "es-test-data-0")
    [booking] = [
        each for each in intents if isinstance(each, SetStatus) and each.seen.kind == "PodDisruptionBudget"
    ]
    with pytest.raises(Refused):
        harness.execute(booking)
    assert intents.index(booking) < next(
        number for number, each in enumerate(intents) if getattr(each, "seen", test).kind == "StatefulSet"
    )


def test_a_restart_in_place_is_booked_and_given_back() -> None:
    harness, test = three_nodes()
    harness.edit(test, config=CONFIG)
    intents = harness.step(elasticsearch_clusters, test)
    [patch] = [each for each in intents if isinstance(each, PatchObject) and each.seen.kind == "Pilot"]
    name = patch.seen.name
    assert list(budget(harness).status["disruptedPods"]) == [name]
    assert not evict(harness, "es-test-data-0")
    harness.run_until_idle(test)
    assert "disruptedPods" not in budget(harness).status
    assert allowed(harness) == (1, 1)
    for pod in harness.all(Pod):
        assert disruption_of(pod) is None
    for pilot in harness.all(Pilot):
        assert pilot.at("spec", "configuration", "settings")["search.max_buckets"] == 2000


def test_an_entry_of_an_eviction_is_not_given_back() -> None:
    harness, test = three_nodes()
    harness.edit(test, config=CONFIG)
    harness.step(elasticsearch_clusters, test)
    [name] = budget(harness).status["disruptedPods"]
    later = "2030-01-01T00:00:00Z"
    harness.change(budget(harness), lambda tree: tree["status"].update(disruptedPods={name: later}))
    harness.report_pilots(test)
    harness.step(elasticsearch_clusters, test)
    assert budget(harness).status["disruptedPods"] == {name: later}


def test_a_roll_that_is_taken_back_before_it_began_is_given_back() -> None:
    harness, test = three_nodes()
    harness.edit(test, version=NEW)
    intents = harness.decide_cluster(test)
    last = next(
        number for number, each in enumerate(intents) if getattr(each, "seen", test).kind == "StatefulSet"
    )
    for intent in intents[:last]:
        if isinstance(intent, SetStatus):
            harness.execute(intent)
    harness.edit(test, version=OLD)
    harness.run_until_idle(test)
    assert allowed(harness) == (1, 1)
    assert disruption_of(harness.pod("es-test-data-2")) is None
    assert images(harness) == [OLD] * 3


def test_the_last_master_to_go_is_booked_and_an_emptied_data_node_costs_nothing() -> None:
    harness = ElasticsearchHarness()
    pools = [pool("master", 4, "master"), pool("data", 3, "data")]
    test = harness.add(elastic("test", pools=pools))
    harness.run_until_idle(test)
    booked: list[str] = []

    def note(intent: Intent) -> None:
        if isinstance(intent, SetStatus) and intent.seen.kind == "PodDisruptionBudget":
            booked.extend(intent.status.get("disruptedPods") or ())

    harness.before_write = note
    harness.edit_pool(test, "data", replicas=1)
    harness.run_until_idle(test)
    assert booked == []
    harness.edit_pool(test, "master", replicas=3)
    harness.run_until_idle(test)
    assert set(booked) == {"es-test-master-3"}
    assert len(harness.all(Pod)) == 4


@pytest.mark.parametrize("seed", range(20))
def test_never_two_are_down_whatever_comes_first(seed: int) -> None:
    """Decisions are made on any state that there was a moment ago, and evictions come in between."""
    rng = random.Random(seed)
    harness, test = three_nodes()
    names = [pod.name for pod in harness.all(Pod)]
    changes: Iterator[dict[str, Any]] = itertools.cycle(
        [{"version": NEW}, {"config": CONFIG}, {"config": {}}]
    )
    for _ in range(150):
        match rng.randrange(7):
            case 0:
                name = rng.choice(names)
                pod = harness.get(Pod, name)
                if pod is not None and not DisruptionAccount(harness.world()).why_kept(pod):
                    evict(harness, name)
            case 1 if rng.random() < 0.2:
                harness.edit(test, **next(changes))
            case 2:
                harness.run_pods()
            case 3:
                harness.report_pilots(test)
            case 4:
                for one in harness.all(PodDisruptionBudget):
                    harness.step(disruption_budgets, one)
            case 5:
                for one in harness.all(StatefulSet):
                    harness.step(stateful_sets, one)
            case _:
                harness.step(elasticsearch_clusters, test, crash_after=rng.choice((None, 1, 2, 3)))
        for pod in harness.all(Pod):
            pilot = harness.get(Pilot, pod.name)
            if healthy(pod) and pilot is not None and pilot.at("status", "configuration") is None:
                harness.report_pilots(test)
        down = [name for name in names if _is_down(harness, name)]
        assert len(down) < 2, down
        harness.now += 1
    harness.run_until_idle(test)
    # What was booked by a decision that crashed, and was not decided again, ends by itself.
    harness.now += DELETION_TIMEOUT
    harness.run_until_idle(test)
    assert allowed(harness) == (1, 1)
    assert not wrote(harness.decide_cluster(test))
    assert the_set(harness).status["readyReplicas"] == 3


def _is_down(harness: ElasticsearchHarness, name: str) -> bool:
    pod = harness.get(Pod, name)
    return pod is None or not healthy(pod)
