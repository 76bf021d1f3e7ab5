"""What is made for a cluster, kept as it should be, and left alone if it is somebody else's."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kit.controller_harness import WRITES
from tests.kit.elasticsearch_harness import ElasticsearchHarness, elastic, pool, wrote

from pilothouse.api.kind_names import (
    ElasticsearchCluster,
    KindName,
    PersistentVolumeClaim,
    Pilot,
    Pod,
    PodDisruptionBudget,
    Role,
    RoleBinding,
    Service,
    ServiceAccount,
    StatefulSet,
    StorageClass,
)
from pilothouse.api.navigator.elasticsearch import quorum
from pilothouse.api.navigator.labels import HAS_PILOT
from pilothouse.api.objects import Object
from pilothouse.base.rfc3339 import format_time
from pilothouse.controllers.elasticsearch.cluster_controller import (
    clusters_with_volumes,
    elasticsearch_clusters,
)
from pilothouse.runtime.intents import Create, Intent, PatchObject, RecordEvent, SetStatus, Update, subject


def one_cluster(**spec: Any) -> tuple[ElasticsearchHarness, Object]:
    harness = ElasticsearchHarness()
    test = harness.add(elastic("test", pools=[pool("mixed", 1, "data", "ingest", "master")], **spec))
    return harness, test


def about(intents: list[Intent], noun: KindName) -> list[Intent]:
    """Those that write objects of a kind."""
    writing = [intent for intent in intents if isinstance(intent, WRITES)]
    return [intent for intent in writing if (subject(intent) or ("", ""))[1] == noun.kind]


def test_nav_E06_there_is_a_service_of_its_name() -> None:
    harness, test = one_cluster()
    harness.run_until_idle(test)
    service = harness.of(Service, "es-test")
    assert [port["port"] for port in service.spec["ports"]] == [9200, 9300]
    assert harness.of(Service, "es-test-discovery").spec["publishNotReadyAddresses"] is True


def test_nav_E07_making_a_pool_is_told() -> None:
    harness, test = one_cluster()
    events = [intent.event for intent in harness.decide_cluster(test) if intent.event]
    assert events == ["CreateNodePool"]


def test_nav_E08_the_pods_have_the_names_and_labels_that_people_know() -> None:
    harness, test = one_cluster(securityContext={"runAsUser": 1000})
    harness.run_until_idle(test)
    pod = harness.of(Pod, "es-test-mixed-0")
    assert pod.labels["navigator.jetstack.io/elasticsearch-cluster-name"] == "test"
    assert pod.labels["navigator.jetstack.io/elasticsearch-node-pool-name"] == "mixed"
    assert pod.labels["navigator.jetstack.io/elasticsearch-role-data"] == "true"
    assert HAS_PILOT in pod.labels
    assert pod.spec["serviceAccountName"] == "es-test"
    assert pod.spec["securityContext"].items() >= {"runAsUser": 1000, "fsGroup": 1000}.items()
    assert harness.of(PodDisruptionBudget, "es-test").spec["maxUnavailable"] == 1


@pytest.mark.parametrize("noun", [Role, RoleBinding, ServiceAccount, Service, PodDisruptionBudget], ids=str)
class TestSupportingObjects:
    def test_nav_R01_one_that_is_missing_is_made_once(self, noun: KindName) -> None:
        harness, test = one_cluster()
        harness.run_until_idle(test)
        harness.remove(harness.of(noun, "es-test"))
        made = about(harness.step(elasticsearch_clusters, test), noun)
        assert [type(intent) for intent in made] == [Create]
        assert harness.of(noun, "es-test").controller is not None

    def test_nav_R02_one_that_is_as_it_should_be_is_not_written(self, noun: KindName) -> None:
        harness, test = one_cluster()
        harness.run_until_idle(test)
        harness.change(
            harness.of(noun, "es-test"), lambda tree: tree["metadata"].update(annotations={"a": "b"})
        )
        assert about(harness.decide_cluster(test), noun) == []

    def test_nav_R03_one_that_differs_is_put_right_once(self, noun: KindName) -> None:
        harness, test = one_cluster()
        harness.run_until_idle(test)
        before = harness.of(noun, "es-test")

        def spoil(tree: dict[str, Any]) -> None:
            tree["metadata"]["labels"] = {}
            if noun == Role:
                tree["rules"] = []
            if noun == RoleBinding:
                tree["subjects"] = []

        harness.change(before, spoil)
        intents = about(harness.step(elasticsearch_clusters, test), noun)
        assert [type(intent) for intent in intents] == [Update]
        after = harness.of(noun, "es-test")
        assert (after.get("rules"), after.get("subjects")) == (before.get("rules"), before.get("subjects"))
        assert about(harness.decide_cluster(test), noun) == []

    def test_nav_R04_one_that_is_somebody_elses_stops_everything(self, noun: KindName) -> None:
        harness, test = one_cluster()
        harness.add({"apiVersion": noun.api_version, "kind": noun.kind, "metadata": {"name": "es-test"}})
        intents = harness.step(elasticsearch_clusters, test)
        assert not [intent for intent in intents if isinstance(intent, (Create, Update, PatchObject))]
        assert [intent.event for intent in intents if isinstance(intent, RecordEvent)] == ["ErrSync"]
        assert harness.condition(test, "Degraded") == ("True", "ObjectTaken")


@pytest.mark.parametrize(
    ("owner", "says", "not_says"),
    [
        (None, "delete it, or give the cluster another name", "earlier"),
        ({"kind": "ElasticsearchCluster", "name": "other"}, "give the cluster another name", "delete"),
        ({"kind": "ElasticsearchCluster", "name": "test"}, "earlier cluster", "another name"),
    ],
)
def test_only_what_is_nobodys_is_advised_to_be_deleted(
    owner: dict[str, str] | None, says: str, not_says: str
) -> None:
    harness, test = one_cluster()
    metadata: dict[str, Any] = {"name": "es-test"}
    if owner is not None:
        reference = {"apiVersion": ElasticsearchCluster.api_version, "uid": "x", "controller": True, **owner}
        metadata["ownerReferences"] = [reference]
    harness.add({"apiVersion": "v1", "kind": "Service", "metadata": metadata})
    harness.step(elasticsearch_clusters, test)
    message = harness.message(test, "Degraded")
    assert says in message
    assert not_says not in message


def test_a_client_service_without_ingest_nodes_has_the_data_nodes() -> None:
    harness = ElasticsearchHarness()
    test = harness.add(elastic("test", pools=[pool("master", 1, "master"), pool("data", 1, "data")]))
    harness.run_until_idle(test)
    assert "navigator.jetstack.io/elasticsearch-role-data" in harness.of(Service, "es-test").spec["selector"]


def test_nav_Z01_a_paused_cluster_says_so_and_nothing_is_written() -> None:
    harness, test = one_cluster(paused=True)
    intents = harness.step(elasticsearch_clusters, test)
    assert [type(intent) for intent in intents] == [SetStatus]
    assert harness.condition(test, "Progressing") == ("False", "ClusterPaused")
    assert harness.condition(test, "Paused") == ("True", "ClusterPaused")
    assert harness.decide_cluster(test) == []


def test_nav_Z02_a_cluster_that_is_resumed_says_so_and_goes_on() -> None:
    harness, test = one_cluster(paused=True)
    harness.step(elasticsearch_clusters, test)
    harness.edit(test, paused=False)
    harness.step(elasticsearch_clusters, test)
    assert harness.condition(test, "Progressing") == ("True", "ClusterResumed")
    assert harness.names(StatefulSet) == ["es-test-mixed"]
    harness.run_until_idle(test)
    assert harness.condition(test, "Progressing") == ("False", "AsAsked")
    assert harness.condition(test, "Paused") == ("False", "ClusterResumed")


def test_nav_Z03_one_that_was_never_paused_has_no_such_condition() -> None:
    harness, test = one_cluster()
    harness.run_until_idle(test)
    assert harness.condition(test, "Paused") == ("", "")


@pytest.mark.parametrize(
    ("said", "command"),
    [
        ("", "pilothouse image import elasticsearch:7.17.9 FILE --strip-components 1;"),
        (
            "Bring it: pilothouse image import elasticsearch:7.17.9 FILE.tar.gz --data /srv/p",
            "pilothouse image import elasticsearch:7.17.9 FILE.tar.gz --strip-components 1 --data /srv/p;",
        ),
    ],
)
def test_an_image_that_no_node_has_is_told_with_the_one_command_that_brings_it(
    said: str, command: str
) -> None:
    harness, test = one_cluster()
    harness.reports["es-test-mixed-0"] = {"broken": True}
    harness.run_until_idle(test)
    state = {"waiting": {"reason": "ErrImageNeverPull", "message": said}}
    waiting = {"name": "elasticsearch", "state": state}
    harness.change(
        harness.of(Pod, "es-test-mixed-0"), lambda tree: tree["status"].update(containerStatuses=[waiting])
    )
    harness.step(elasticsearch_clusters, test)
    message = harness.message(test, "Degraded")
    assert command in message
    assert message.count("pilothouse image import") == 1


def starting(harness: ElasticsearchHarness, name: str, *, reason: str, message: str) -> None:
    """Its pod runs, is not ready, and its pilot says why."""
    unready = {"type": "Ready", "status": "False", "reason": reason, "message": message}
    probed = {"type": "Ready", "status": "False", "reason": "ContainersNotReady"}
    harness.change(
        harness.of(Pod, name), lambda tree: tree["status"].update(phase="Running", conditions=[probed])
    )
    harness.change(harness.of(Pilot, name), lambda tree: tree["status"].update(conditions=[unready]))


def test_a_node_that_starts_is_nothing_amiss_and_its_pilots_words_are_told() -> None:
    harness, test = one_cluster()
    harness.run_until_idle(test)
    starting(harness, "es-test-mixed-0", reason="NotReady", message="It has not answered yet.")
    harness.step(elasticsearch_clusters, test)
    assert harness.condition(test, "Degraded") == ("False", "AsAsked")
    assert "es-test-mixed-0 is not ready: It has not answered yet." in harness.message(test, "Progressing")


WORDS = "java.lang.IllegalArgumentException: unknown setting [cluster.nmae] did you mean [cluster.name]?"


def crash(harness: ElasticsearchHarness, name: str, *, backing_off: bool) -> None:
    """Its database has ended with a code, and its container waits for its next start or is in it."""
    starting(harness, name, reason="Starting", message="Elasticsearch is starting")
    last = {"time": format_time(harness.now), "clean": False, "exitCode": 1, "message": WORDS}
    harness.change(harness.of(Pilot, name), lambda tree: tree["status"].update(lastExit=last))
    terminated = {"exitCode": 1, "reason": "Error", "finishedAt": format_time(harness.now)}
    state = (
        {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}
        if backing_off
        else {"running": {}}
    )
    container = {
        "name": "elasticsearch",
        "ready": False,
        "state": state,
        "lastState": {"terminated": terminated},
    }
    harness.change(harness.of(Pod, name), lambda tree: tree["status"].update(containerStatuses=[container]))


@pytest.mark.parametrize("backing_off", [True, False])
def test_the_last_words_of_a_database_are_told_by_its_cluster(backing_off: bool) -> None:
    harness, test = one_cluster()
    harness.run_until_idle(test)
    crash(harness, "es-test-mixed-0", backing_off=backing_off)
    harness.step(elasticsearch_clusters, test)
    found = harness.of(test.noun, "test").condition("Degraded")
    assert found is not None
    assert (found["status"], found["reason"]) == ("True", "DatabaseEnded")
    assert found["message"].startswith(f"es-test-mixed-0 does not start: it ended with code 1: {WORDS}; ")
    assert "exited with code 1: Error" not in found["message"]


def test_they_are_forgotten_once_it_is_ready() -> None:
    harness, test = one_cluster()
    harness.run_until_idle(test)
    crash(harness, "es-test-mixed-0", backing_off=False)
    harness.change(harness.of(Pod, "es-test-mixed-0"), lambda tree: tree["status"].pop("containerStatuses"))
    harness.run_until_idle(test)
    assert harness.condition(test, "Degraded") == ("False", "AsAsked")


def test_a_hook_that_fails_is_told_by_the_cluster() -> None:
    harness, test = one_cluster()
    harness.run_until_idle(test)
    starting(harness, "es-test-mixed-0", reason="HookFailed", message="Preflight failed: no room on the disk")
    harness.step(elasticsearch_clusters, test)
    assert harness.condition(test, "Degraded") == ("True", "HookFailed")
    message = harness.message(test, "Degraded")
    assert "Preflight failed: no room on the disk" in message


def test_the_initial_masters_are_named_until_the_cluster_is_formed() -> None:
    harness = ElasticsearchHarness()
    test = harness.add(elastic("test", pools=[pool("master", 3, "master"), pool("data", 1, "data")]))
    harness.leads = False
    harness.run_until_idle(test)
    settings = [p.at("spec", "configuration", "settings") for p in harness.all(Pilot)]
    named = [each.get("cluster.initial_master_nodes") for each in settings]
    masters = ["es-test-master-0", "es-test-master-1", "es-test-master-2"]
    assert named == [None, masters, masters, masters], "data nodes form no cluster"
    harness.edit_pool(test, "master", replicas=5)
    harness.run_until_idle(test)
    assert harness.of(Pilot, "es-test-master-4").at("spec", "configuration", "settings")[
        "cluster.initial_master_nodes"
    ] == (masters), "a list that changes under way could form two clusters"
    before = [pilot.status["lastStartedTime"] for pilot in harness.all(Pilot)]
    harness.leads = True
    harness.run_until_idle(test)
    for pilot in harness.all(Pilot):
        assert "cluster.initial_master_nodes" not in pilot.at("spec", "configuration", "settings")
    assert [pilot.status["lastStartedTime"] for pilot in harness.all(Pilot)] == before, "nothing is restarted"
    assert harness.status(test)["clusterUUID"] == "the-one"


def test_masters_that_were_started_stay_until_the_cluster_is_formed() -> None:
    harness = ElasticsearchHarness()
    test = harness.add(elastic("test", pools=[pool("master", 3, "master")]))
    harness.leads = False
    harness.run_until_idle(test)
    harness.edit_pool(test, "master", replicas=1)
    harness.run_until_idle(test)
    assert len(harness.names(Pod)) == 3
    harness.leads = True
    harness.run_until_idle(test)
    assert len(harness.names(Pod)) == 1


def test_before_seven_the_majority_follows_the_masters_there_are() -> None:
    harness = ElasticsearchHarness()
    test = harness.add(
        elastic("test", version="6.8.23", pools=[pool("master", 3, "master"), pool("data", 1, "data")])
    )
    harness.run_until_idle(test)
    minimum = "discovery.zen.minimum_master_nodes"

    def said() -> set[int]:
        return {p.at("spec", "configuration", "settings")[minimum] for p in harness.all(Pilot)}

    assert said() == {2}
    started = {pilot.name: pilot.status["lastStartedTime"] for pilot in harness.all(Pilot)}
    harness.edit_pool(test, "master", replicas=5)
    sizes = []
    for _ in range(100):
        sizes.append(int(harness.of(StatefulSet, "es-test-master").spec["replicas"]))
        if not harness.round(test):
            break
    assert list(dict.fromkeys(sizes)) == [3, 4, 5], "one by one"
    assert said() == {3}
    harness.edit_pool(test, "master", replicas=1)
    for _ in range(200):
        masters = [p for p in harness.all(Pilot) if "-master-" in p.name and harness.get(Pod, p.name)]
        staying = [p for p in masters if not p.spec.get("decommission")]
        enough = {p.at("spec", "configuration", "settings")[minimum] for p in staying}
        assert min(enough) >= min(quorum(len(masters)), len(staying)), (
            "one that leaves votes until it is gone"
        )
        if not harness.round(test):
            break
    assert len(masters) == 1
    assert enough == {1}
    assert all(
        harness.of(Pilot, n).status["lastStartedTime"] == started[n]
        for n in ("es-test-master-0", "es-test-data-0")
    )


def test_settings_of_a_pool_take_the_place_of_the_clusters_however_they_are_written() -> None:
    harness = ElasticsearchHarness()
    pools = [pool("mixed", 1, config={"indices.recovery": {"max_bytes_per_sec": "80mb"}})]
    test = harness.add(
        elastic("test", pools=pools, config={"indices.recovery.max_bytes_per_sec": "40mb", "a": {"b": False}})
    )
    harness.run_until_idle(test)
    settings = harness.of(Pilot, "es-test-mixed-0").at("spec", "configuration", "settings")
    assert settings["indices.recovery.max_bytes_per_sec"] == "80mb"
    assert settings["a.b"] is False
    assert settings["cluster.name"] == "test"
    harness.edit(test, config={})
    harness.run_until_idle(test)
    assert "a.b" not in harness.of(Pilot, "es-test-mixed-0").at("spec", "configuration", "settings")


def with_claims(harness: ElasticsearchHarness, **storage_class: Any) -> Object:
    """A cluster of two nodes whose claims are of a class with these fields, and are bound."""
    fast = {"apiVersion": StorageClass.api_version, "kind": StorageClass.kind, "metadata": {"name": "fast"}}
    harness.add({**fast, "provisioner": "pilothouse.io/directory", **storage_class})
    persistence = {"size": "1Gi", "storageClass": "fast"}
    test = harness.add(elastic("test", pools=[pool("data", 2, persistence=persistence)]))
    harness.run_until_idle(test)
    for claim in harness.all(PersistentVolumeClaim):
        harness.change(claim, lambda tree: tree.update(status={"phase": "Bound"}))
    return test


def sizes(harness: ElasticsearchHarness) -> list[str]:
    return [one.at("spec", "resources", "requests", "storage") for one in harness.all(PersistentVolumeClaim)]


def test_claims_grow_with_their_pool() -> None:
    harness = ElasticsearchHarness()
    test = with_claims(harness, allowVolumeExpansion=True)
    harness.edit_pool(test, "data", persistence={"size": "2Gi", "storageClass": "fast"})
    harness.run_until_idle(test)
    assert sizes(harness) == ["2Gi", "2Gi"]
    assert harness.condition(test, "Progressing") == ("False", "AsAsked")
    assert harness.condition(test, "Degraded") == ("False", "AsAsked")


def test_claims_whose_class_does_not_let_them_grow_are_named_and_left_alone() -> None:
    harness = ElasticsearchHarness()
    test = with_claims(harness)
    harness.edit_pool(test, "data", persistence={"size": "2Gi", "storageClass": "fast"})
    harness.run_until_idle(test)
    assert sizes(harness) == ["1Gi", "1Gi"]
    assert harness.condition(test, "Degraded") == ("True", "VolumesCannotGrow")
    said = (harness.of(ElasticsearchCluster, "test").condition("Degraded") or {})["message"]
    claims = ", ".join(harness.names(PersistentVolumeClaim))
    assert f"{claims} can't be expanded to 2Gi: storage class fast does not allow expansion" in said
    assert "set allowVolumeExpansion: true" in said
    # Once it does, they grow.
    assert list(clusters_with_volumes(harness.all(StorageClass)[0], harness.world())) == [("default", "test")]
    harness.change(harness.all(StorageClass)[0], lambda tree: tree.update(allowVolumeExpansion=True))
    harness.run_until_idle(test)
    assert sizes(harness) == ["2Gi", "2Gi"]
    assert harness.condition(test, "Degraded") == ("False", "AsAsked")


def test_a_pool_is_spread_by_its_own_pods() -> None:
    harness = ElasticsearchHarness()
    spread = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule"}
    test = harness.add(elastic("test", pools=[pool("data", 2, topologySpreadConstraints=[spread])]))
    harness.run_until_idle(test)
    pod = harness.of(Pod, "es-test-data-0")
    (found,) = pod.spec["topologySpreadConstraints"]
    selected = found["labelSelector"]["matchLabels"]
    assert {**found, "labelSelector": None} == {**spread, "labelSelector": None}
    assert selected.items() <= pod.labels.items()
    assert selected["navigator.jetstack.io/elasticsearch-node-pool-name"] == "data"


def test_two_clusters_of_one_name_in_two_namespaces_know_nothing_of_each_other() -> None:
    harness, test = one_cluster()
    other = elastic("test", pools=[pool("mixed", 2)])
    other["metadata"]["namespace"] = "elsewhere"
    second = harness.add(other)
    harness.run_until_idle(test)
    harness.step(elasticsearch_clusters, second)
    assert harness.of(StatefulSet, "es-test-mixed").spec["replicas"] == 1
    there = harness.get(StatefulSet, "es-test-mixed", "elsewhere")
    assert there is not None
    assert there.spec["replicas"] == 2


def test_a_cluster_at_rest_is_left_alone() -> None:
    harness, test = one_cluster(plugins=[{"name": "analysis-icu"}])
    harness.run_until_idle(test)
    assert not wrote(harness.decide_cluster(test))


def test_a_pilot_is_told_who_it_is_and_where_its_data_is() -> None:
    harness, test = one_cluster(pilotImage={"repository": "pilothouse", "tag": "1"})
    harness.run_until_idle(test)
    pod = harness.of(Pod, "es-test-mixed-0")
    container = pod.spec["containers"][0]
    assert container["command"] == [
        "/shared/pilothouse",
        "pilot",
        "elasticsearch",
        "--data",
        "/usr/share/elasticsearch/data",
    ]
    assert [each["name"] for each in container["env"]] == ["POD_NAME", "POD_NAMESPACE", "POD_IP"]
    assert pod.spec["initContainers"][0]["command"] == ["pilothouse", "pilot", "install", "/shared"]
    assert {mount["mountPath"] for mount in container["volumeMounts"]} == {
        "/usr/share/elasticsearch/data",
        "/shared",
    }


@pytest.mark.parametrize(
    ("fields", "heap"),
    [
        ({"heapSize": "1Gi", "resources": {"limits": {"memory": "4Gi"}}}, 1024),
        ({"resources": {"limits": {"memory": "4Gi"}, "requests": {"memory": "1Gi"}}}, 2048),
        ({"resources": {"requests": {"memory": "1Gi"}}}, 512),
        ({"resources": {"requests": {"cpu": "1"}}}, 512),
        ({}, 512),
    ],
)
def test_the_heap_never_depends_on_the_machine(fields: dict[str, Any], heap: int) -> None:
    harness = ElasticsearchHarness()
    harness.run_until_idle(harness.add(elastic("test", pools=[pool("mixed", 1, **fields)])))
    options = harness.of(Pilot, "es-test-mixed-0").at("spec", "configuration", "environment", "ES_JAVA_OPTS")
    assert options == f"-Xms{heap}m -Xmx{heap}m"
