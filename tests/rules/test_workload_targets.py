"""What actions on workloads and applications would bring about: in which object and field, within which bounds, and why not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from tests.kit.elasticsearch_harness import elastic, pool

from pilothouse.api.kind_names import ElasticsearchCluster, KindName, Pilot, StatefulSet
from pilothouse.api.objects import Object, Tree
from pilothouse.api.openstorage.actions import REBALANCE, REDUNDANCY, RESOURCES, SCALE
from pilothouse.api.openstorage.v1alpha1 import RuleAction
from pilothouse.rules.action_targets import ActionTarget, TargetDeclined, TargetNotReady, TargetResult
from pilothouse.rules.targets.target_table import TARGET_READS, target_of

POOL = "navigator.jetstack.io/elasticsearch-node-pool-name"


class World:
    """Some objects."""

    def __init__(self, *objects: Object) -> None:
        self._objects = objects

    def find(self, kind: KindName, namespace: str, name: str, /) -> Object | None:
        assert kind in TARGET_READS
        found = (each for each in self._objects if (each.noun, *each.key) == (kind, namespace, name))
        return next(found, None)

    def all(self, kind: KindName, namespace: str = "", /) -> Sequence[Object]:
        return [each for each in self._objects if each.noun == kind]


def workload(
    name: str = "db",
    replicas: int = 2,
    *,
    kind: str = "StatefulSet",
    owner: Tree | None = None,
    **fields: Any,
) -> Object:
    meta: Tree = {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": {POOL: "data"}}
    if owner is not None:
        meta["ownerReferences"] = [{"controller": True, **owner}]
    meta |= fields.pop("metadata", {})
    container = {"name": "db", "resources": {"requests": {"cpu": "500m"}, "limits": {"memory": "1Gi"}}}
    spec = {"replicas": replicas, "template": {"spec": {"containers": [container]}}, **fields}
    return Object.of(
        {
            "apiVersion": "apps/v1",
            "kind": kind,
            "metadata": meta,
            "spec": spec,
            "status": {"replicas": replicas},
        }
    )


def cluster(replicas: int = 2, status: Tree | None = None, **spec: Any) -> Object:
    tree = elastic("demo", pools=[pool("data", replicas, **spec.pop("pool", {})), pool("more", 1)], **spec)
    tree["metadata"]["uid"] = "uid-demo"
    return Object.of({**tree, "status": status or {}})


OWNED = {
    "apiVersion": ElasticsearchCluster.api_version,
    "kind": "ElasticsearchCluster",
    "name": "demo",
    "uid": "uid-demo",
}


def pilot(name: str) -> Object:
    return Object(Pilot, {"metadata": {"name": name, "namespace": "default"}, "spec": {}})


def target(name: str, about: Object, *others: Object, **params: str) -> TargetResult:
    return target_of(RuleAction(name=name, params=params), about, World(about, *others))


def why(found: TargetResult) -> str:
    assert isinstance(found, TargetDeclined), found
    return found.because


def test_a_pool_of_a_cluster_is_scaled_in_the_cluster() -> None:
    found = target(SCALE, workload("es-demo-data", owner=OWNED), cluster(), step="1")
    assert found == ActionTarget(
        {
            "from": "2",
            "to": "3",
            "owner": "ElasticsearchCluster/demo",
            "field": "spec.nodePools[data].replicas",
        }
    )
    down = target(SCALE, workload("es-demo-data", owner=OWNED), cluster(), step="-1")
    assert isinstance(down, ActionTarget)
    assert down.fields["to"] == "1"


def test_a_set_of_its_own_is_scaled_itself() -> None:
    found = target(SCALE, workload(), replicas="5")
    assert found == ActionTarget(
        {"from": "2", "to": "5", "owner": "StatefulSet/db", "field": "spec.replicas"}
    )


def test_only_what_is_drained_is_scaled_down() -> None:
    assert "only scaled up" in why(target(SCALE, workload(), step="-1"))
    assert "only scaled up" in why(target(SCALE, workload(kind="Deployment"), step="-1"))
    assert "db-1 has none" in why(target(SCALE, workload(), pilot("db-0"), step="-1"))
    assert isinstance(target(SCALE, workload(), pilot("db-1"), step="-1"), ActionTarget)


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"step": "3", "max": "4"}, "4"),
        ({"step": "1", "min": "4"}, "4"),
        ({"replicas": "9", "max": "6"}, "6"),
        ({"step": "1", "max": "2"}, "the number of replicas is 2, and max is 2"),
        ({"step": "1", "max": "1"}, "the number of replicas is 2, and max is 1"),
        ({"replicas": "2"}, "the number of replicas is 2"),
        ({"step": "1", "min": "5", "max": "4"}, "min 5 is above max 4"),
        ({}, "the action names neither replicas nor step"),
    ],
)
def test_replicas_keep_to_their_bounds(params: dict[str, str], expected: str) -> None:
    found = target(SCALE, workload(), **params)
    assert (found.fields["to"] if isinstance(found, ActionTarget) else why(found)) == expected


def test_an_autoscaler_and_an_unknown_owner_are_not_fought() -> None:
    scaled = {
        "manager": "kube-controller-manager",
        "operation": "Update",
        "subresource": "scale",
        "fieldsV1": {"f:spec": {"f:replicas": {}}},
    }
    assert "autoscaler" in why(target(SCALE, workload(metadata={"managedFields": [scaled]}), step="1"))
    foreign = {"apiVersion": "example.com/v1", "kind": "Database", "name": "main", "uid": "1"}
    for action in (SCALE, RESOURCES):
        assert "change Database main instead" in why(target(action, workload(owner=foreign), step="1"))


def autoscaler(api_version: str, kind: str, /, **reference: str) -> Object:
    meta = {"name": "busy", "namespace": "default"}
    spec = {"scaleTargetRef": reference}
    return Object.of({"apiVersion": api_version, "kind": kind, "metadata": meta, "spec": spec})


HPA, KEDA = ("autoscaling/v2", "HorizontalPodAutoscaler"), ("keda.sh/v1alpha1", "ScaledObject")


@pytest.mark.parametrize("kind", [HPA, KEDA], ids=lambda kind: kind[1])
def test_an_autoscaler_that_has_not_acted_yet_is_not_fought(kind: tuple[str, str]) -> None:
    set_of = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db"}
    said = why(target(SCALE, workload(), autoscaler(*kind, **set_of), step="1"))
    assert f"an autoscaler has the replicas of StatefulSet db: {kind[1]} busy" in said
    for other in ({"name": "web"}, {"kind": "Deployment"}, {"apiVersion": "example.com/v1"}):
        found = target(SCALE, workload(), autoscaler(*kind, **{**set_of, **other}), step="1")
        assert isinstance(found, ActionTarget), other


def test_a_scaled_object_without_a_kind_is_of_a_deployment() -> None:
    scaled = autoscaler(*KEDA, name="db")
    assert "ScaledObject busy" in why(target(SCALE, workload(kind="Deployment"), scaled, step="1"))
    assert isinstance(target(SCALE, workload(), scaled, step="1"), ActionTarget)


def test_an_autoscaler_of_the_cluster_has_its_pools() -> None:
    scaled = autoscaler(*HPA, **{name: OWNED[name] for name in ("apiVersion", "kind", "name")})
    world = (workload("es-demo-data", owner=OWNED), cluster(), scaled)
    assert "HorizontalPodAutoscaler busy" in why(target(SCALE, *world, step="1"))


def test_nothing_is_built_upon_a_change_of_replicas_in_progress() -> None:
    assert isinstance(
        target(SCALE, workload("es-demo-data", 2, owner=OWNED), cluster(3), step="1"), TargetNotReady
    )


def test_a_container_gets_more_in_the_field_of_its_pool() -> None:
    limits = {"resources": {"limits": {"memory": "1Gi"}}}
    found = target(
        RESOURCES,
        workload("es-demo-data", owner=OWNED),
        cluster(pool=limits),
        resource="memory",
        scalepercentage="50",
    )
    assert found == ActionTarget(
        {
            "container": "elasticsearch",
            "resource": "memory",
            "from": "1Gi",
            "to": "1536Mi",
            "owner": "ElasticsearchCluster/demo",
            "field": "spec.nodePools[data].resources",
        }
    )


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"resource": "memory", "scalepercentage": "50", "max": "1200Mi"}, "1200Mi"),
        ({"resource": "memory", "scalepercentage": "-50"}, "512Mi"),
        ({"resource": "cpu", "scalepercentage": "33"}, "665m"),
        ({"resource": "cpu", "scalepercentage": "-90", "min": "100m"}, "100m"),
        (
            {"resource": "memory", "scalepercentage": "50", "max": "1Gi"},
            "container db has 1Gi of memory, and max is 1Gi",
        ),
        ({"resource": "memory", "scalepercentage": "-150"}, "nothing would be left"),
        (
            {"resource": "memory", "scalepercentage": "5", "container": "x"},
            "has no container x: name one of db",
        ),
        ({"resource": "memory"}, "no scalepercentage"),
    ],
)
def test_amounts_keep_to_their_bounds(params: dict[str, str], expected: str) -> None:
    found = target(RESOURCES, workload(), **params)
    assert expected in (found.fields["to"] if isinstance(found, ActionTarget) else why(found))


def test_what_has_no_amount_is_not_scaled() -> None:
    bare = workload(template={"spec": {"containers": [{"name": "db"}]}})
    assert "nothing can be scaled" in why(target(RESOURCES, bare, resource="cpu", scalepercentage="10"))


def test_copies_are_those_of_the_cluster() -> None:
    demo = cluster(3, redundancy={"copies": 1})
    assert target(REDUNDANCY, demo, step="1") == ActionTarget({"from": "1", "to": "2"})
    below = workload("es-demo-data", owner=OWNED)
    assert target(REDUNDANCY, below, demo, copies="0") == ActionTarget({"from": "1", "to": "0"})
    assert target(REDUNDANCY, cluster(), copies="1") == ActionTarget({"from": "", "to": "1"})


def test_copies_need_nodes_and_a_field() -> None:
    assert why(target(REDUNDANCY, cluster(1), copies="3")) == (
        "3 copies need 4 nodes that hold data, and there are 2"
    )
    assert "nothing to step from" in why(target(REDUNDANCY, cluster(), step="1"))
    assert "has no field for the number of its copies" in why(target(REDUNDANCY, workload(), copies="1"))
    full = cluster(3, redundancy={"copies": 1})
    assert why(target(REDUNDANCY, full, step="-1", min="1")) == "the number of copies is 1, and min is 1"


def test_only_a_cluster_that_does_not_rebalance_by_itself_is_rebalanced() -> None:
    assert target(REBALANCE, cluster(status={"rebalance": {"enabled": False}})) == ActionTarget()
    assert "at any time" in why(target(REBALANCE, cluster()))
    assert "at any time" in why(target(REBALANCE, cluster(status={"rebalance": {"enabled": True}})))
    assert "does not rebalance its data" in why(target(REBALANCE, workload()))
    busy = cluster(status={"rebalance": {"request": "r1", "state": "Allowed"}})
    assert isinstance(target(REBALANCE, busy), TargetNotReady)


def test_the_kinds_that_are_read_are_told() -> None:
    assert {StatefulSet, Pilot, ElasticsearchCluster} <= set(TARGET_READS)
