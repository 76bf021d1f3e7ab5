"""Pilots are made for pods, go when their pods are gone for good, and say so when nobody hears of them."""

from __future__ import annotations

from typing import Any

from tests.kit.controller_harness import ControllerHarness
from tests.kit.elasticsearch_harness import PILOT_CREATOR, ElasticsearchHarness, elastic, pool

from pilothouse.api.kind_names import CassandraCluster, Lease, Pilot, Pod, StatefulSet
from pilothouse.api.navigator.labels import APPLICATION, HAS_PILOT
from pilothouse.api.objects import Object, Tree
from pilothouse.base.rfc3339 import format_time
from pilothouse.controllers.cassandra_clusters import cassandra_clusters
from pilothouse.controllers.pilots.pilot_collection import pilot_collector
from pilothouse.controllers.pilots.pilot_heartbeats import silent_pilots
from pilothouse.runtime.intents import Create, Delete, RequeueAfter, SetStatus
from pilothouse.runtime.snapshot import Snapshot, StaticView

GRACE = 300.0


def pod(name: str = "db-0", **metadata: Any) -> Tree:
    labels = {HAS_PILOT: "", "app": "db"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels, **metadata},
        "spec": {"containers": [{"name": "db", "image": "redis:7"}]},
    }


def pilot(name: str = "db-0", **status: Any) -> Tree:
    tree = {"apiVersion": Pilot.api_version, "kind": "Pilot", "metadata": {"name": name}, "spec": {}}
    return {**tree, "status": status} if status else tree


def test_nav_P01_a_labelled_pod_gets_one_pilot() -> None:
    harness = ControllerHarness()
    one = harness.add(pod(annotations={APPLICATION: "redis"}))
    harness.step(PILOT_CREATOR, one)
    made = harness.all(Pilot)
    assert [each.name for each in made] == ["db-0"]
    assert made[0].labels == {HAS_PILOT: ""}
    assert made[0].spec == {"application": "redis"}
    assert harness.decide(PILOT_CREATOR, one) == []


def test_a_pod_without_the_label_gets_none() -> None:
    harness = ControllerHarness()
    one = harness.add(pod(labels={"app": "db"}))
    assert harness.decide(PILOT_CREATOR, one) == []


def test_a_pilot_of_a_cluster_is_the_clusters_and_says_all_that_the_database_needs() -> None:
    harness = ElasticsearchHarness()
    demo = harness.add(elastic(pools=[pool("data", 1)], plugins=[{"name": "analysis-icu"}]))
    harness.run_until_idle(demo)
    harness.remove(harness.of(Pilot, "es-demo-data-0"))
    intents = harness.decide(PILOT_CREATOR, harness.of(Pod, "es-demo-data-0"))
    assert isinstance(intents[0], Create)
    tree = intents[0].object
    assert tree["metadata"]["ownerReferences"][0]["uid"] == demo.uid
    assert tree["spec"]["application"] == "elasticsearch"
    assert tree["spec"]["elasticsearch"] == {
        "nodePool": "data",
        "roles": ["data", "master"],
        "plugins": [{"name": "analysis-icu"}],
    }
    assert tree["spec"]["configuration"]["version"] == "7.17.9"


def test_a_pilot_is_made_again_with_the_configuration_that_counts_by_then() -> None:
    harness = ElasticsearchHarness()
    demo = harness.add(elastic(pools=[pool("data", 1)]))
    harness.run_until_idle(demo)
    harness.remove(harness.of(Pilot, "es-demo-data-0"))
    harness.edit(demo, config={"a": 1})
    harness.run_until_idle(demo)
    assert harness.of(Pilot, "es-demo-data-0").at("spec", "configuration", "settings")["a"] == 1


def test_a_pod_of_a_set_that_nobody_sees_waits_for_it() -> None:
    harness = ControllerHarness()
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "x", "controller": True}
    one = harness.add(pod(ownerReferences=[owner]))
    assert [intent.verb for intent in harness.decide(PILOT_CREATOR, one)] == ["Wait"]


def test_nav_P30_a_pilot_whose_pod_is_gone_for_good_goes_too() -> None:
    harness, collect = ControllerHarness(), pilot_collector(GRACE)
    one = harness.add(pilot())
    harness.step(collect, one)
    found = harness.get(Pilot, "db-0")
    assert found is not None
    assert (found.condition("PodPresent") or {})["status"] == "False"
    harness.now += GRACE - 1
    assert [type(intent) for intent in harness.decide(collect, one)] == [RequeueAfter]
    harness.now += 1
    harness.step(collect, one)
    assert harness.all(Pilot) == []


def test_a_pod_that_comes_back_in_time_saves_it() -> None:
    harness, collect = ControllerHarness(), pilot_collector(GRACE)
    one = harness.add(pilot())
    harness.step(collect, one)
    harness.add(pod())
    harness.now += 2 * GRACE
    harness.step(collect, one)
    found = harness.get(Pilot, "db-0")
    assert found is not None
    assert found.is_true("PodPresent")
    harness.remove(harness.pod("db-0"))
    harness.step(collect, one)
    assert [type(intent) for intent in harness.decide(collect, one)] == [RequeueAfter], "time begins anew"


def test_time_counts_from_the_last_start_if_that_was_later() -> None:
    harness, collect = ControllerHarness(), pilot_collector(GRACE)
    one = harness.add(pilot())
    harness.step(collect, one)
    harness.change(one, lambda tree: tree["status"].update(lastStartedTime=format_time(harness.now + 100)))
    harness.now += GRACE
    assert not [intent for intent in harness.decide(collect, one) if isinstance(intent, Delete)]
    harness.now += 100
    assert [intent for intent in harness.decide(collect, one) if isinstance(intent, Delete)]


def test_a_pilot_whose_pod_its_set_still_wants_stays() -> None:
    harness, collect = ControllerHarness(), pilot_collector(GRACE)
    one = harness.add(pilot())
    stateful_set: Tree = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"}}
    owner = harness.add({**stateful_set, "spec": {"replicas": 1}})
    harness.now += 10 * GRACE
    assert [type(intent) for intent in harness.decide(collect, one)] == [RequeueAfter]
    harness.edit(owner, replicas=0)
    assert [type(intent) for intent in harness.decide(collect, one)] == [SetStatus, RequeueAfter]
    assert harness.all(StatefulSet)


def decide_silence(
    one: Tree, lease: Tree | None, *, now: float, pilot_at: float, lease_at: float = 0.0
) -> Any:
    seen = Object(Pilot, {**one, "metadata": {**one["metadata"], "namespace": "default"}}, arrived=pilot_at)
    leases = [Object(Lease, lease, arrived=lease_at)] if lease is not None else []
    world = Snapshot({Pilot: StaticView([seen]), Lease: StaticView(leases)}, now=now)
    return silent_pilots(60.0)(seen, world)


LEASE: Tree = {
    "apiVersion": Lease.api_version,
    "kind": "Lease",
    "metadata": {"name": "pilot-db-0", "namespace": "default"},
    "spec": {"renewTime": "2001-01-01T00:00:00.000000Z"},
}
UP = {"type": "Ready", "status": "True", "lastTransitionTime": format_time(0)}


def test_a_pilot_that_is_heard_of_is_left_alone_whatever_its_clock_says() -> None:
    intents = decide_silence(pilot(conditions=[UP]), LEASE, now=1000, pilot_at=0, lease_at=990)
    assert [(type(intent), intent.seconds) for intent in intents] == [(RequeueAfter, 50.0)]


def test_of_a_pilot_that_is_silent_nobody_knows_how_its_instance_is() -> None:
    (intent,) = decide_silence(pilot(conditions=[UP]), LEASE, now=1000, pilot_at=0, lease_at=940)
    assert isinstance(intent, SetStatus)
    (condition,) = intent.status["conditions"]
    assert (condition["status"], condition["reason"]) == ("Unknown", "PilotSilent")
    again = decide_silence(pilot(conditions=[condition]), LEASE, now=1060, pilot_at=1000, lease_at=940)
    assert [type(each) for each in again] == [RequeueAfter], "it is said once"


def test_a_heartbeat_in_its_condition_counts_too() -> None:
    beat = {**UP, "lastHeartbeatTime": format_time(990)}
    assert [type(each) for each in decide_silence(pilot(conditions=[beat]), LEASE, now=1000, pilot_at=0)] == [
        RequeueAfter
    ]
    ahead = {**UP, "lastHeartbeatTime": format_time(5000)}
    (intent,) = decide_silence(pilot(conditions=[ahead]), LEASE, now=1000, pilot_at=0)
    assert isinstance(intent, SetStatus), "one from the future says nothing"


def test_one_that_never_said_anything_is_given_the_same_time() -> None:
    assert [type(each) for each in decide_silence(pilot(), None, now=50, pilot_at=0)] == [RequeueAfter]
    (intent,) = decide_silence(pilot(), None, now=60, pilot_at=0)
    assert "has never reported" in intent.status["conditions"][0]["message"]


def test_a_cassandra_cluster_is_told_that_nobody_acts_on_it() -> None:
    harness = ControllerHarness()
    spec = {"version": "4.1.3", "nodePools": [{"name": "a", "replicas": 1}]}
    tree = {"apiVersion": CassandraCluster.api_version, "kind": "CassandraCluster", "metadata": {"name": "c"}}
    one = harness.add({**tree, "spec": spec})
    harness.step(cassandra_clusters, one)
    (condition,) = harness.status(one)["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == (
        "Progressing",
        "False",
        "NoController",
    )
    assert harness.decide(cassandra_clusters, one) == []
