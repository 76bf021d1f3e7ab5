"""Scaling down and removing pools: nodes are decommissioned first, and go when they say that they are empty."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kit.controller_harness import reasons, waits
from tests.kit.elasticsearch_harness import ElasticsearchHarness, decommissioned, elastic, pool, replicas_set

from pilothouse.api.kind_names import ElasticsearchCluster, PersistentVolumeClaim, Pilot, Pod, StatefulSet
from pilothouse.api.navigator.labels import DECOMMISSIONED_FOR
from pilothouse.api.objects import Object
from pilothouse.controllers.elasticsearch.cluster_controller import elasticsearch_clusters
from pilothouse.runtime.intents import RecordEvent


def three_data_nodes(**spec: Any) -> tuple[ElasticsearchHarness, Object]:
    """As in the cases: the set es-test-data of three, here beside a master."""
    harness = ElasticsearchHarness()
    test = harness.add(elastic("test", pools=[pool("master", 1, "master"), pool("data", 3, "data")], **spec))
    harness.run_until_idle(test)
    return harness, test


def drain(harness: ElasticsearchHarness, test: Object, *documents: int | None, to: int = 2) -> None:
    """Ask for fewer, and have the pilots report these documents when they have been told."""
    for number, count in enumerate(documents):
        harness.reports[f"es-test-data-{number}"] = {"documents": count}
    harness.edit_pool(test, "data", replicas=to)
    harness.run_until_idle(test)


def replicas(harness: ElasticsearchHarness, name: str = "es-test-data") -> int:
    return int(harness.of(StatefulSet, name).spec["replicas"])


def test_nav_A01_a_node_that_holds_documents_stays() -> None:
    harness, test = three_data_nodes()
    drain(harness, test, 0, 0, 2)
    assert replicas(harness) == 3
    assert harness.of(Pilot, "es-test-data-2").spec["decommission"] is True
    wait = waits(harness.decide_cluster(test))[0]
    assert "es-test-data-2 holds 2 documents" in wait.because
    assert harness.condition(test, "Progressing") == ("True", "Draining")


def test_nav_A02_an_empty_node_goes_once_it_says_that_it_is_decommissioned() -> None:
    harness, test = three_data_nodes()
    harness.reports["es-test-data-2"] = {"documents": 0, "decommissioned": False}
    drain(harness, test, 1, 1)
    assert replicas(harness) == 3, "it is empty by chance, and more may come"
    del harness.reports["es-test-data-2"]
    harness.run_until_idle(test)
    assert replicas(harness) == 2
    assert harness.get(Pod, "es-test-data-2") is None


@pytest.mark.parametrize(
    ("left", "says"),
    [
        (2, "from 3 to 2: es-test-data-2 is empty"),
        (1, "from 3 to 1: es-test-data-1, es-test-data-2 are empty"),
    ],
)
def test_who_goes_is_told(left: int, says: str) -> None:
    harness, test = three_data_nodes()
    told: list[str] = []
    harness.before_write = lambda intent: told.append(intent.because)
    harness.edit_pool(test, "data", replicas=left)
    harness.run_until_idle(test)
    assert any(says in because for because in told), told


def test_one_that_goes_with_copies_of_what_is_elsewhere_is_not_told_to_be_empty() -> None:
    harness, test = three_data_nodes()
    told: list[str] = []
    harness.before_write = lambda intent: told.append(intent.because)
    harness.reports["es-test-data-2"] = {"documents": 5001, "decommissioned": True}
    harness.edit_pool(test, "data", replicas=2)
    harness.run_until_idle(test)
    assert replicas(harness) == 2
    said = "es-test-data-2 holds only copies of data that other nodes have"
    assert any(said in because for because in told), told
    lies = [because for because in told if "es-test-data-2 is empty" in because]
    assert lies == []


@pytest.mark.parametrize("missing", ["es-test-data-1", "es-test-data-2"])
def test_nav_A03_a_node_of_the_pool_without_a_pilot_is_waited_for(missing: str) -> None:
    harness, test = three_data_nodes()
    for number in range(3):
        harness.reports[f"es-test-data-{number}"] = {"documents": 0}
    harness.edit_pool(test, "data", replicas=2)
    harness.step(elasticsearch_clusters, test)
    harness.report_pilots(test)
    harness.remove(harness.of(Pilot, missing))
    intents = harness.step(elasticsearch_clusters, test)
    assert replicas_set(intents) == []
    assert f"{missing} has no Pilot" in waits(intents)[0].because
    assert replicas(harness) == 3
    harness.run_until_idle(test)
    assert replicas(harness) == 2, "it gets one, and things go on"


def test_nav_A04_a_set_that_is_not_there_is_made_with_the_size_that_is_asked_for() -> None:
    harness, test = three_data_nodes()
    harness.edit_pool(test, "data", replicas=2)
    harness.remove(harness.of(StatefulSet, "es-test-data"))
    harness.step(elasticsearch_clusters, test)
    assert replicas(harness) == 2


def test_nav_A05_A16_nothing_is_done_for_the_size_there_is() -> None:
    harness, test = three_data_nodes()
    assert harness.decide_cluster(test) == []


def test_nav_A06_A08_only_the_pools_own_pilots_are_asked() -> None:
    harness = ElasticsearchHarness()
    pools = [pool("master", 1, "master"), pool("data", 3, "data"), pool("data-2", 3, "data")]
    test = harness.add(elastic("test", pools=pools))
    harness.run_until_idle(test)
    harness.reports["es-test-data-2-2"] = {"documents": 7}
    harness.edit_pool(test, "data", replicas=2)
    assert decommissioned(harness.decide_cluster(test)) == ["es-test-data-2"]
    harness.run_until_idle(test)
    assert (replicas(harness), replicas(harness, "es-test-data-2")) == (2, 3)


def test_nav_A07_two_pilots_of_three_are_not_enough_to_decide_by() -> None:
    harness, test = three_data_nodes()
    harness.edit_pool(test, "data", replicas=2)
    harness.run_until_idle(test, rounds=1)
    harness.remove(harness.of(Pilot, "es-test-data-0"))
    intents = harness.decide_cluster(test)
    assert replicas_set(intents) == []
    assert "es-test-data-0 has no Pilot" in waits(intents)[0].because


@pytest.mark.parametrize(
    ("case", "documents", "goes"),
    [
        ("nav-A09", (10, 10, 0), True),
        ("nav-A10", (0, 0, 100), False),
        ("nav-A11", (0, 0, None), False),
    ],
)
def test_a_set_shrinks_when_those_that_go_are_empty(
    case: str, documents: tuple[int | None, ...], goes: bool
) -> None:
    harness, test = three_data_nodes()
    drain(harness, test, *documents)
    assert replicas(harness) == (2 if goes else 3), case


def test_nav_A12_A17_growing_asks_nobody() -> None:
    harness, test = three_data_nodes()
    harness.reports["es-test-data-2"] = {"documents": None}
    harness.edit_pool(test, "data", replicas=4)
    intents = harness.decide_cluster(test)
    assert replicas_set(intents) == [4]
    assert decommissioned(intents) == []


def test_nav_A13_A14_the_highest_of_the_pool_go() -> None:
    harness, test = three_data_nodes()
    stranger = {"apiVersion": Pilot.api_version, "kind": "Pilot", "metadata": {"name": "es-test-data-9"}}
    harness.add({**stranger, "spec": {}})
    harness.edit_pool(test, "data", replicas=1)
    assert decommissioned(harness.decide_cluster(test)) == ["es-test-data-1", "es-test-data-2"]
    harness.run_until_idle(test)
    assert [name for name in harness.names(Pod) if "data" in name] == ["es-test-data-0"]
    assert harness.of(Pilot, "es-test-data-9").spec == {}


def test_nav_A15_a_missing_pilot_of_a_pool_that_stays_is_no_reason_to_act() -> None:
    harness, test = three_data_nodes()
    harness.remove(harness.of(Pilot, "es-test-data-1"))
    intents = harness.decide_cluster(test)
    assert decommissioned(intents) == []
    assert replicas_set(intents) == []


def test_all_that_go_have_to_be_empty_before_one_does() -> None:
    harness, test = three_data_nodes()
    harness.reports["es-test-data-1"] = {"documents": 3}
    drain(harness, test, to=1)
    assert replicas(harness) == 3
    harness.reports.clear()
    harness.run_until_idle(test)
    assert replicas(harness) == 1


def test_a_drain_is_cancelled_by_asking_for_the_nodes_again() -> None:
    harness, test = three_data_nodes()
    drain(harness, test, 5, 5, 5)
    pilot = harness.of(Pilot, "es-test-data-2")
    assert DECOMMISSIONED_FOR in pilot.annotations
    harness.edit_pool(test, "data", replicas=3)
    harness.run_until_idle(test)
    pilot = harness.of(Pilot, "es-test-data-2")
    assert pilot.spec["decommission"] is False
    assert DECOMMISSIONED_FOR not in pilot.annotations
    assert replicas(harness) == 3
    assert harness.condition(test, "Progressing") == ("False", "AsAsked")


def test_a_node_that_is_wanted_again_while_its_pod_goes_gets_no_shards_before_it_is_gone() -> None:
    harness, test = three_data_nodes()
    harness.edit_pool(test, "data", replicas=2)
    for _ in range(3):
        harness.step(elasticsearch_clusters, test)
        harness.report_pilots(test)
    assert replicas(harness) == 2
    assert harness.get(Pod, "es-test-data-2") is not None
    harness.edit_pool(test, "data", replicas=3)
    harness.step(elasticsearch_clusters, test)
    assert harness.of(Pilot, "es-test-data-2").spec["decommission"] is True
    assert replicas(harness) == 2
    harness.run_until_idle(test)
    assert harness.of(Pilot, "es-test-data-2").spec["decommission"] is False
    assert replicas(harness) == 3


def test_what_a_person_decommissioned_stays_so() -> None:
    harness, test = three_data_nodes()
    harness.edit(harness.of(Pilot, "es-test-data-1"), decommission=True)
    harness.run_until_idle(test)
    drain(harness, test)
    harness.edit_pool(test, "data", replicas=3)
    harness.run_until_idle(test)
    assert harness.of(Pilot, "es-test-data-1").spec["decommission"] is True
    assert harness.of(Pilot, "es-test-data-2").spec["decommission"] is False


def test_what_was_said_of_an_earlier_decommission_does_not_count() -> None:
    harness, test = three_data_nodes()
    drain(harness, test)
    assert replicas(harness) == 2
    harness.edit_pool(test, "data", replicas=3)
    harness.run_until_idle(test)
    harness.reports["es-test-data-2"] = {"silent": True}
    harness.edit_pool(test, "data", replicas=2)
    harness.run_until_idle(test)
    assert harness.of(Pilot, "es-test-data-2").is_true("Decommissioned"), "from before"
    assert replicas(harness) == 3


def test_a_pod_that_is_deleted_while_it_is_drained_changes_nothing() -> None:
    harness, test = three_data_nodes()
    drain(harness, test, 5, 5, 5)
    harness.remove(harness.of(Pod, "es-test-data-2"))
    assert replicas_set(harness.decide_cluster(test)) == []
    harness.run_until_idle(test)
    assert replicas(harness) == 3
    harness.reports.clear()
    harness.run_until_idle(test)
    assert replicas(harness) == 2


def test_a_node_that_never_started_goes_without_a_word() -> None:
    harness, test = three_data_nodes()
    harness.reports["es-test-data-3"] = {"broken": True}
    harness.edit_pool(test, "data", replicas=4)
    harness.run_until_idle(test)
    assert harness.condition(test, "Progressing") == ("True", "NodesStarting")
    harness.edit_pool(test, "data", replicas=3)
    harness.run_until_idle(test)
    assert replicas(harness) == 3


def test_it_stays_as_long_as_data_is_missing_elsewhere() -> None:
    harness, test = three_data_nodes()
    harness.reports["es-test-data-3"] = {"broken": True}
    harness.health = "Red"
    harness.edit_pool(test, "data", replicas=4)
    harness.run_until_idle(test)
    harness.edit_pool(test, "data", replicas=3)
    harness.run_until_idle(test)
    assert replicas(harness) == 4


def test_the_last_data_nodes_have_nowhere_to_move_to() -> None:
    harness, test = three_data_nodes()
    drain(harness, test, to=0)
    assert replicas(harness) == 3
    assert decommissioned(harness.decide_cluster(test)) == []
    assert harness.condition(test, "Degraded") == ("True", "DrainRefused")


def test_masters_go_one_by_one_when_all_others_are_in() -> None:
    harness = ElasticsearchHarness()
    test = harness.add(elastic("test", pools=[pool("master", 5, "master"), pool("data", 2, "data")]))
    harness.run_until_idle(test)
    harness.edit_pool(test, "master", replicas=3)
    assert decommissioned(harness.decide_cluster(test)) == ["es-test-master-4"]
    harness.reports["es-test-data-0"] = {"ready": False}
    harness.run_until_idle(test)
    assert reasons(harness.decide_cluster(test)) == ["NodeNotReady"]
    assert replicas(harness, "es-test-master") == 5
    harness.reports.clear()
    harness.run_until_idle(test)
    assert replicas(harness, "es-test-master") == 3


def test_a_master_does_not_go_while_another_is_without_its_vote() -> None:
    harness = ElasticsearchHarness()
    test = harness.add(elastic("test", pools=[pool("master", 3, "master"), pool("data", 2, "data")]))
    harness.without_vote = ["es-test-master-0"]
    harness.run_until_idle(test)
    harness.edit_pool(test, "master", replicas=2)
    harness.run_until_idle(test)
    assert reasons(harness.decide_cluster(test)) == ["VoteHeld"]
    assert not harness.of(Pilot, "es-test-master-2").spec.get("decommission")
    harness.without_vote = []
    harness.run_until_idle(test)
    assert replicas(harness, "es-test-master") == 2


def test_a_pool_that_is_removed_is_drained_before_its_set_goes() -> None:
    harness = ElasticsearchHarness()
    pools = [pool("master", 1, "master"), pool("old", 2, "data"), pool("new", 2, "data")]
    test = harness.add(elastic("test", pools=pools))
    harness.run_until_idle(test)
    harness.reports["es-test-old-1"] = {"documents": 4}
    harness.change(test, lambda tree: tree["spec"]["nodePools"].pop(1))
    harness.run_until_idle(test)
    assert replicas(harness, "es-test-old") == 2
    assert harness.of(Pilot, "es-test-old-0").spec["decommission"] is True
    harness.reports.clear()
    harness.run_until_idle(test)
    assert harness.names(StatefulSet) == ["es-test-master", "es-test-new"]
    assert not [name for name in harness.names(Pod) if "old" in name]


def test_claims_are_kept_unless_told_otherwise() -> None:
    harness = ElasticsearchHarness()
    pools = [pool("data", 2, "data", "master", persistence={"size": "1Gi"})]
    test = harness.add(elastic("test", pools=pools))
    harness.run_until_idle(test)
    harness.edit_pool(test, "data", replicas=1)
    harness.run_until_idle(test)
    assert harness.names(PersistentVolumeClaim) == [
        "elasticsearch-data-es-test-data-0",
        "elasticsearch-data-es-test-data-1",
    ]
    harness.edit(test, persistentVolumeClaimRetentionPolicy={"whenScaled": "Delete"})
    harness.run_until_idle(test)
    harness.edit_pool(test, "data", replicas=2)
    harness.run_until_idle(test)
    harness.edit_pool(test, "data", replicas=1)
    harness.run_until_idle(test)
    assert harness.names(PersistentVolumeClaim) == ["elasticsearch-data-es-test-data-0"]


def test_a_drain_that_waits_is_told_once() -> None:
    harness, test = three_data_nodes()
    drain(harness, test, 5, 5, 5)
    told = [intent for intent in harness.decide_cluster(test) if isinstance(intent, RecordEvent)]
    assert told == [], "what is said already is not said again"
    harness.reports["es-test-data-2"] = {"documents": 3}
    harness.report_pilots(test)
    told = [intent for intent in harness.decide_cluster(test) if isinstance(intent, RecordEvent)]
    assert told == [], "how far it is changes all the time; it is in the condition"
    harness.run_until_idle(test, rounds=1)
    said = harness.of(ElasticsearchCluster, "test").condition("Progressing") or {}
    assert "es-test-data-2 holds 3 documents" in said["message"]
