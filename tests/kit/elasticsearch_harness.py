"""Elasticsearch clusters stepped by hand, with scripted pilots.

    harness = ElasticsearchHarness()
    demo = harness.add(elastic("demo", pools=[pool("data", 3, "data", "master")]))
    harness.run_until_idle(demo)         # all controllers, kubelet and pilots, until nothing is written
    harness.edit_pool(demo, "data", replicas=2)
    harness.step(elasticsearch_clusters, demo)
    harness.reports["es-demo-data-2"] = {"documents": 5}      # overrides the default report of a pilot

By default a pilot reports that it runs what its Pilot's spec says, in the version of its pod, and that it is empty
when it is decommissioned.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.kit.controller_harness import WRITES, ControllerHarness

from pilothouse.api.kind_names import (
    ElasticsearchCluster,
    Lease,
    Pilot,
    Pod,
    PodDisruptionBudget,
    StatefulSet,
)
from pilothouse.api.navigator.configurations import configuration_hash, in_force
from pilothouse.api.navigator.disk_usage import DiskUsage
from pilothouse.api.navigator.labels import VERSION
from pilothouse.api.objects import Object, Tree
from pilothouse.api.pod_health import healthy
from pilothouse.base.rfc3339 import format_micro_time, format_time
from pilothouse.controllers.disruption_budgets import disruption_budgets
from pilothouse.controllers.elasticsearch.cluster_controller import elasticsearch_clusters
from pilothouse.controllers.elasticsearch.desired.pilot_specs import new_pilot_spec
from pilothouse.controllers.pilots.pilot_creation import pilot_creator
from pilothouse.controllers.stateful_sets.stateful_set_controller import stateful_sets
from pilothouse.runtime.intents import Intent, PatchObject, Update
from pilothouse.sim.pilot_reports import ReportedInstance, cluster_report, pilot_report

PILOT_CREATOR = pilot_creator({ElasticsearchCluster: new_pilot_spec})
_MOST_ROUNDS = 300


def pool(name: str, replicas: int, *roles: str, **fields: Any) -> Tree:
    return {"name": name, "replicas": replicas, "roles": list(roles or ("data", "master")), **fields}


def elastic(name: str = "demo", *, pools: list[Tree], version: str = "7.17.9", **spec: Any) -> Tree:
    return {
        "apiVersion": ElasticsearchCluster.api_version,
        "kind": ElasticsearchCluster.kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"version": version, "nodePools": pools, **spec},
    }


class ElasticsearchHarness(ControllerHarness):
    """A controller harness with pilots."""

    def __init__(self) -> None:
        super().__init__()
        self.reports: dict[str, Tree] = {}
        """By the name of a Pilot: documents, version, ready, decommissioned, stuck, volume (used and capacity, in bytes)."""
        self.health = "Green"
        self.settled = True
        self.shards: Tree | None = None
        self.read_only: Tree | None = None
        """Indices that take no writes."""
        self.redundancy: Tree | None = None
        """What the leading pilot reports of the copies of indices."""
        self.without_vote: list[str] = []
        """Masters that have given up their vote for a restart."""
        self.leads = True
        self.missing_images: set[str] = set()
        """Tags of images that no node has."""
        self._starts: dict[str, tuple[str, str, str]] = {}

    def edit_pool(self, cluster: Object, name: str, **fields: Any) -> Object:
        """Change a pool, as a user would."""

        def edit(tree: Tree) -> None:
            for one in tree["spec"]["nodePools"]:
                if one["name"] == name:
                    one.update(fields)

        return self.change(cluster, edit)

    def decide_cluster(self, cluster: Object) -> list[Intent]:
        return self.decide(elasticsearch_clusters, cluster)

    def of(self, noun: Any, name: str) -> Object:
        """An object that has to be there."""
        found = self.get(noun, name)
        assert found is not None, f"there is no {noun.kind} {name}"
        return found

    def condition(self, cluster: Object, kind: str) -> tuple[str, str]:
        """Status and reason."""
        found = self.of(ElasticsearchCluster, cluster.name).condition(kind)
        return (found["status"], found["reason"]) if found else ("", "")

    def message(self, cluster: Object, kind: str) -> str:
        """Of a condition that the cluster has."""
        found = self.of(ElasticsearchCluster, cluster.name).condition(kind)
        assert found is not None
        return str(found["message"])

    def run_until_idle(self, cluster: Object, *, rounds: int = _MOST_ROUNDS) -> None:
        """Run all controllers, the kubelet and the pilots until nothing is written."""
        for _ in range(rounds):
            if not self.round(cluster):
                return
        if rounds == _MOST_ROUNDS:
            raise AssertionError("the controllers never become idle")

    def round(self, cluster: Object) -> bool:
        """Run each of them once. False if nothing was written."""
        before = self.version
        self.step(elasticsearch_clusters, cluster)
        for one in self.all(StatefulSet):
            self.step(stateful_sets, one)
        self.run_pods(broken=lambda pod: bool(self.reports.get(pod.name, {}).get("broken")))
        for one in self.all(Pod):
            self.step(PILOT_CREATOR, one)
        self.report_pilots(cluster)
        for one in self.all(PodDisruptionBudget):
            self.step(disruption_budgets, one)
        self.collect()
        self.now += 2
        return self.version != before

    def set_ready(self, pod: Object, ready: bool) -> bool:
        image = pod.spec["containers"][0]["image"]
        if image.rpartition(":")[2] not in self.missing_images or pod.status.get("phase") != "Pending":
            return super().set_ready(pod, ready)
        return self.wait_for_image(pod)

    def wait_for_image(self, pod: Object) -> bool:
        """Report that the pod's node lacks its image. False if that is reported already."""
        image = pod.spec["containers"][0]["image"]
        waiting = {"reason": "ErrImageNeverPull", "message": f"image {image} is not on this node"}
        container = {
            "name": "elasticsearch",
            "restartCount": 0,
            "started": False,
            "state": {"waiting": waiting},
            "lastState": {},
        }
        status = {"phase": "Pending", "containerStatuses": [container]}
        if pod.status == status:
            return False
        self.change(pod, lambda tree: tree["spec"].setdefault("nodeName", "n1"))
        self.change(pod, lambda tree: tree.update(status=status))
        return True

    def report_pilots(self, cluster: Object) -> None:
        """Each pilot writes its status; the first that is up leads, and reports the state of the cluster."""
        for pilot in self.all(Pilot):
            pod = self.get(Pod, pilot.name)
            status = self._status(pilot, pod)
            if status is not None and status != pilot.status:
                self.change(pilot, partial(_set_status, status))
        up = [one for one in self.all(Pilot) if one.is_true("Ready")]
        if up and self.leads:
            self._lead(cluster, up[0], up)

    def _status(self, pilot: Object, pod: Object | None) -> Tree | None:
        report = self.reports.get(pilot.name, {})
        if report.get("silent"):
            return None
        is_up = pod is not None and healthy(pod) and report.get("ready", True)
        ready = (report.get("reason", ""), "")
        if not is_up or pod is None:
            return pilot_report(pilot, None, ready=ready, now=self.now)
        digest = configuration_hash(pilot.spec)
        is_edited = in_force(pilot.spec, pilot.annotations) != digest
        if report.get("stuck") or (is_edited and pilot.at("status", "configuration")):
            digest = str(pilot.at("status", "configuration", "hash"))
        version = report.get("version", pod.annotations[VERSION])
        start = (pod.uid, digest, version)
        started = pilot.status.get("lastStartedTime")
        if self._starts.get(pilot.name) != start or started is None:
            self._starts[pilot.name] = start
            started = format_time(self.now)
        section = {**(pilot.status.get("elasticsearch") or {}), "version": version}
        documents = report.get("documents", 0 if pilot.spec.get("decommission") else 10)
        if documents is not None:
            section["documents"] = documents
        empty = report.get("decommissioned", documents == 0) if pilot.spec.get("decommission") else None
        instance = ReportedInstance(started, pilot.generation, digest, section, is_empty=empty)
        status = pilot_report(pilot, instance, ready=ready, now=self.now)
        if "volume" in report:
            status["volume"] = {"path": "/data", **DiskUsage(*report["volume"]).tree()}
        return status

    def _lead(self, cluster: Object, leader: Object, up: list[Object]) -> None:
        name = f"{cluster.name}-leader"
        if (lease := self.get(Lease, name)) is None:
            metadata = {"name": name, "namespace": cluster.namespace}
            spec = {
                "holderIdentity": f"{leader.name}_1",
                "acquireTime": format_micro_time(self.now),
            }
            self.add({"apiVersion": Lease.api_version, "kind": "Lease", "metadata": metadata, "spec": spec})
        elif not lease.spec["holderIdentity"].startswith(f"{leader.name}_"):
            self.edit(lease, holderIdentity=f"{leader.name}_1", acquireTime=format_micro_time(self.now))
        facts = {
            "health": self.health,
            "clusterUUID": "the-one",
            "settled": self.settled,
            "members": {one.name: one.status["lastStartedTime"] for one in up},
        }
        if self.shards is not None:
            facts["shards"] = self.shards
        if self.read_only is not None:
            facts["readOnlyIndices"] = self.read_only
        if self.redundancy is not None:
            facts["redundancy"] = self.redundancy
        if self.without_vote:
            facts["withoutVote"] = self.without_vote
        acquired = self.of(Lease, name).spec["acquireTime"]
        reported = cluster_report(leader, facts, acquired=acquired[:19], now=self.now)
        elasticsearch = {**leader.status["elasticsearch"], "cluster": reported}
        if elasticsearch != leader.status["elasticsearch"]:
            self.change(leader, lambda tree: tree["status"].update(elasticsearch=elasticsearch))


def _set_status(status: Tree, tree: Tree) -> None:
    tree["status"] = status


def writes(intents: list[Intent], kind: str) -> list[Intent]:
    """The patches and updates of a kind."""
    found = (intent for intent in intents if isinstance(intent, (PatchObject, Update)))
    return [intent for intent in found if intent.seen.kind == kind]


def replicas_set(intents: list[Intent]) -> list[int]:
    """The replicas that sets are scaled to."""
    return [
        intent.fields["spec"]["replicas"]
        for intent in intents
        if isinstance(intent, PatchObject) and "replicas" in intent.fields.get("spec", {})
    ]


def partitions(intents: list[Intent]) -> list[int]:
    """The partitions that sets are given."""
    return [
        intent.object["spec"]["updateStrategy"]["rollingUpdate"]["partition"]
        for intent in intents
        if isinstance(intent, Update) and intent.seen.kind == "StatefulSet"
    ]


def decommissioned(intents: list[Intent]) -> list[str]:
    """The names of the Pilots that are decommissioned."""
    return [
        intent.seen.name
        for intent in intents
        if isinstance(intent, PatchObject) and intent.fields.get("spec", {}).get("decommission") is True
    ]


def wrote(intents: list[Intent]) -> bool:
    return any(isinstance(intent, WRITES) for intent in intents)
