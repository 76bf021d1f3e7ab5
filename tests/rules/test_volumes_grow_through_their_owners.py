"""The target of volume/resize for a claim that an operator or a cluster of ours has the size of."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kit.rule_lookup import Lookup

from pilothouse.api.field_paths import merge_patch, value_at
from pilothouse.api.kind_names import Pod, StatefulSet
from pilothouse.api.objects import Object, Tree
from pilothouse.api.openstorage.actions import RESIZE
from pilothouse.api.openstorage.v1alpha1 import RuleAction
from pilothouse.api.owner_chain import topmost_owner
from pilothouse.rules.action_targets import ActionTarget, TargetDeclined, TargetNotReady, TargetResult
from pilothouse.rules.targets.target_table import target_of

CLUSTER = {"apiVersion": "postgresql.cnpg.io/v1", "kind": "Cluster", "name": "db", "uid": "u-db"}
GROUP = "navigator.jetstack.io"


def tree(kind: str, name: str, *, version: str = "v1", owner: Tree | None = None, **rest: Any) -> Tree:
    meta: Tree = {"name": name, "namespace": "db", "uid": f"u-{name}", **rest.pop("metadata", {})}
    if owner is not None:
        meta["ownerReferences"] = [{**owner, "controller": True}]
    return {"apiVersion": version, "kind": kind, "metadata": meta, **rest}


def claim(name: str = "data-db-0", **meta: Any) -> Tree:
    return tree(
        "PersistentVolumeClaim",
        name,
        metadata=meta,
        spec={"volumeName": "pv-1", "resources": {"requests": {"storage": "10Gi"}}},
        status={"phase": "Bound", "capacity": {"storage": "10Gi"}},
    )


def pod(name: str, claim_name: str, owner: Tree | None) -> Tree:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": claim_name}}]
    return tree("Pod", name, owner=owner, spec={"volumes": volumes})


def reference(one: Tree) -> Tree:
    meta = one["metadata"]
    return {"apiVersion": one["apiVersion"], "kind": one["kind"], "name": meta["name"], "uid": meta["uid"]}


def resized(about: Tree, *others: Tree, **params: str) -> TargetResult:
    action = RuleAction(name=RESIZE, params=params)
    return target_of(action, Object.of(about), Lookup([about, *others]))


def test_an_operator_is_found_through_pod_and_set() -> None:
    owned = tree("StatefulSet", "db", version="apps/v1", owner=CLUSTER)
    found = resized(claim(), owned, pod("db-0", "data-db-0", reference(owned)), owner="spec.storage.size")
    assert found == ActionTarget(
        {"from": "10Gi", "to": "15Gi", "owner": "Cluster/db", "field": "spec.storage.size"}, 5 * 1024**3
    )


def test_a_claim_with_owner_references_needs_no_pod() -> None:
    owned = claim(ownerReferences=[{**CLUSTER, "controller": True}])
    found = resized(owned, owner="spec.storage.size")
    assert isinstance(found, ActionTarget)
    assert found.fields["owner"] == "Cluster/db"


@pytest.mark.parametrize(
    ("version", "kind"),
    [
        ("pilothouse.io/v1alpha1", "StoragePool"),
        ("example.com/v1", "Database], verbs: ['*']}]}\n---\n{kind: ClusterRoleBinding"),
        ("example.com}/v1", "Database"),
    ],
)
def test_an_owner_that_only_the_claim_names_is_not_changed(version: str, kind: str) -> None:
    """Who may write a claim writes what he likes into its references."""
    reference = {"apiVersion": version, "kind": kind, "name": "w1-fast", "uid": "u-1", "controller": True}
    found = resized(claim(ownerReferences=[reference]), owner="spec.capacity")
    assert isinstance(found, TargetDeclined)
    assert "grows by objects of its own namespace only" in found.because
    assert "\n" not in found.because


def test_a_claim_without_owner_is_declined_only_if_one_is_asked_for() -> None:
    found = resized(claim(), owner="spec.storage.size")
    assert found == TargetDeclined(
        "nothing controls claim data-db-0, so no owner has a field spec.storage.size"
    )
    assert resized(claim()) == ActionTarget({"from": "10Gi", "to": "15Gi"}, 5 * 1024**3)


def test_an_owner_without_the_field_is_declined() -> None:
    owned = tree("StatefulSet", "db", version="apps/v1", spec={"replicas": 1})
    found = resized(claim(), owned, pod("db-0", "data-db-0", reference(owned)), owner="spec.storage.size")
    assert found == TargetDeclined("StatefulSet/db has no field spec.storage.size")


def cluster(size: str = "10Gi") -> Tree:
    pools = [{"name": "master"}, {"name": "data", "persistence": {"size": size, "storageClass": "loop"}}]
    return tree("ElasticsearchCluster", "logs", version=f"{GROUP}/v1beta1", spec={"nodePools": pools})


def of_cluster(size: str = "10Gi") -> TargetResult:
    labels = {f"{GROUP}/elasticsearch-cluster-name": "logs", f"{GROUP}/elasticsearch-node-pool-name": "data"}
    top = cluster(size)
    owned = tree("StatefulSet", "logs-data", version="apps/v1", owner=reference(top))
    about = claim("data-logs-data-0", labels=labels)
    return resized(about, top, owned, pod("logs-data-0", "data-logs-data-0", reference(owned)))


def test_a_cluster_of_ours_grows_by_its_pool() -> None:
    found = of_cluster()
    assert isinstance(found, ActionTarget)
    assert found.fields["owner"] == "ElasticsearchCluster/logs"
    assert found.fields["field"] == "spec.nodePools[data].persistence.size"


def test_a_pool_that_grows_already_is_not_built_upon() -> None:
    assert of_cluster("20Gi") == TargetNotReady(
        "spec.nodePools[data].persistence.size of ElasticsearchCluster/logs is 20Gi: a resize is under way"
    )


def test_a_field_in_a_list_is_patched_with_the_whole_list() -> None:
    path = "spec.nodePools[data].persistence.size"
    patch = merge_patch(cluster(), path, "15Gi")
    assert value_at(patch, path) == "15Gi"
    assert value_at(patch, "spec.nodePools[data].persistence.storageClass") == "loop"
    assert [each["name"] for each in patch["spec"]["nodePools"]] == ["master", "data"]


def test_owners_that_own_each_other_have_an_end() -> None:
    one = tree("StatefulSet", "a", version="apps/v1")
    one["metadata"]["ownerReferences"] = [{**reference(one), "controller": True}]
    found = topmost_owner(Object.of(one), Lookup([one]), readable=(Pod, StatefulSet))
    assert found is not None
    assert str(found) == "StatefulSet/a"
