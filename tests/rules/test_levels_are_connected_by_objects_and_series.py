"""From an application down to device and node: objects say who owns whom, what a pod mounts and where it runs, and series say on which device a volume is."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest

from pilothouse.api.kind_names import (
    Deployment,
    ElasticsearchCluster,
    KindName,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    StatefulSet,
    StoragePool,
)
from pilothouse.api.objects import Object, Tree
from pilothouse.rules.join import Joined
from pilothouse.rules.level_relations import Relation, needs_volume_info, path, spread
from pilothouse.rules.level_tables import LevelTables
from pilothouse.rules.rule_selection import RuleSelection
from pilothouse.rules.samples import Sample


def made(noun: KindName, name: str, *, owner: tuple[KindName, str] | None = None, **fields: Any) -> Object:
    meta: Tree = {"name": name, "uid": f"{noun.kind}-{name}", "labels": fields.pop("labels", {})}
    if noun.namespaced:
        meta["namespace"] = "db"
    if owner is not None:
        kind, called = owner
        reference = {"apiVersion": kind.api_version, "kind": kind.kind, "name": called, "uid": called}
        meta["ownerReferences"] = [{**reference, "controller": True}]
    return Object.of({"apiVersion": noun.api_version, "kind": noun.kind, "metadata": meta, **fields})


def pod(name: str, node: str, *claims: str, phase: str = "Running", **fields: Any) -> Object:
    volumes = [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims]
    spec = {"nodeName": node, "volumes": volumes}
    return made(Pod, name, spec=spec, status={"phase": phase}, **fields)


def claim(name: str, size: str = "1Gi") -> Object:
    status = {"phase": "Bound", "capacity": {"storage": size}}
    return made(PersistentVolumeClaim, name, spec={"volumeName": f"pv-{name}"}, status=status)


def pool(name: str, node: str, device: str = "") -> Object:
    return made(StoragePool, name, status={"node": node, "device": device})


def volume_info(name: str, node: str, device: str, disk: str, tier: str) -> Sample:
    where = {"node": node, "device": device, "disk": disk, "tier": tier}
    return Sample({"namespace": "db", "persistentvolumeclaim": name, **where}, 1.0, 100.0)


def tables(*objects: Object, info: tuple[Sample, ...] = ()) -> LevelTables:
    by_kind: dict[KindName, list[Object]] = defaultdict(list)
    for one in objects:
        by_kind[one.noun].append(one)
    found = LevelTables(lambda kind: by_kind[kind])
    found.inform("node-page", info)
    return found


def reached(found: LevelTables, source: str, one: Object, target: str) -> list[str]:
    return [each.name for each in found.reached(source, one.uid, target)]


def devices(found: LevelTables, source: str, one: Object) -> list[str]:
    """Devices are no objects: by their names."""
    names = found.table("device").names
    places = found.relation(source, "device").of_first(found.table(source).position[one.uid])
    return [names[each] for each in places]


NODES = made(Node, "n0"), made(Node, "n1")


def test_a_pod_leads_to_the_node_that_it_runs_on_and_back() -> None:
    first, second, waiting = pod("a", "n0"), pod("b", "n1"), pod("c", "")
    found = tables(*NODES, first, second, waiting)
    assert [reached(found, "pod", each, "node") for each in (first, second, waiting)] == [["n0"], ["n1"], []]
    assert reached(found, "node", NODES[1], "pod") == ["b"]


def test_a_volume_leads_to_the_pool_of_the_tier_that_its_series_names() -> None:
    data, other = claim("data"), claim("other")
    info = volume_info("data", "n0", "loop1", "sda", "fast")
    found = tables(data, other, pool("n0-fast", "n0", "sda"), pool("n0-slow", "n0"), info=(info,))
    assert reached(found, "volume", data, "storagepool") == ["n0-fast"]
    assert reached(found, "volume", other, "storagepool") == []
    assert reached(found, "storagepool", found.table("storagepool").objects[0], "volume") == ["data"]


def test_a_volume_is_on_its_own_device_and_on_the_disk_below() -> None:
    data = claim("data")
    found = tables(data, *NODES, info=(volume_info("data", "n0", "loop1", "sda", "fast"),))
    assert devices(found, "volume", data) == ["n0/loop1", "n0/sda"]


def test_a_volume_that_another_series_names_has_moved() -> None:
    data = claim("data")
    found = tables(data, *NODES, info=(volume_info("data", "n0", "loop1", "sda", "fast"),))
    assert devices(found, "volume", data) == ["n0/loop1", "n0/sda"]
    found.inform("node-page", (volume_info("data", "n0", "loop2", "sdb", "slow"),))
    assert devices(found, "volume", data) == ["n0/loop2", "n0/sdb"]


def test_a_deployment_owns_its_pods_through_a_replica_set() -> None:
    web = made(Deployment, "web", spec={"replicas": 1})
    of_set = KindName("apps", "v1", "ReplicaSet", "replicasets"), "web-5d9f"
    mine = pod("web-5d9f-x", "n0", owner=of_set, labels={"pod-template-hash": "5d9f"})
    foreign = pod("web-77aa-x", "n0", owner=(of_set[0], "web-77aa"), labels={"pod-template-hash": "5d9f"})
    found = tables(web, mine, foreign, *NODES)
    assert reached(found, "workload", web, "pod") == ["web-5d9f-x"]
    assert reached(found, "pod", mine, "workload") == ["web"]
    assert reached(found, "pod", foreign, "workload") == []


def test_an_application_leads_to_the_devices_of_its_volumes() -> None:
    cluster = made(ElasticsearchCluster, "demo", spec={})
    data_set = made(StatefulSet, "es-demo-data", owner=(ElasticsearchCluster, "demo"), spec={"replicas": 1})
    alone = made(StatefulSet, "alone", spec={"replicas": 1})
    first = pod("es-demo-data-0", "n0", "data", owner=(StatefulSet, "es-demo-data"))
    second = pod("alone-0", "n1", "other", owner=(StatefulSet, "alone"))
    info = (
        volume_info("data", "n0", "loop1", "sda", "fast"),
        volume_info("other", "n1", "loop1", "sda", "fast"),
    )
    volumes = claim("data"), claim("other")
    found = tables(cluster, data_set, alone, first, second, *volumes, *NODES, info=info)
    assert devices(found, "application", cluster) == ["n0/loop1", "n0/sda"]
    assert devices(found, "application", alone) == ["n1/loop1", "n1/sda"]
    # A set that a cluster owns is a workload, and no application.
    assert [one.name for one in found.table("application").objects] == ["alone", "demo"]


def test_a_pod_that_has_ended_mounts_nothing() -> None:
    data, ended = claim("data"), pod("a", "n0", "data", phase="Succeeded")
    found = tables(data, ended, *NODES)
    assert reached(found, "pod", ended, "volume") == []


def test_a_local_volume_is_on_its_node_whatever_mounts_it() -> None:
    terms = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1"]}]}]
    affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}
    local, shared = claim("local"), claim("shared")
    volume = made(PersistentVolume, "pv-local", spec=affinity)
    found = tables(local, shared, volume, pod("a", "n0", "local", "shared"), *NODES)
    assert reached(found, "volume", local, "node") == ["n1"]
    assert reached(found, "volume", shared, "node") == ["n0"]


def test_a_pod_that_is_bound_later_is_found_after_a_refresh() -> None:
    objects = [*NODES, pod("a", "")]
    found = LevelTables(lambda kind: [one for one in objects if one.noun == kind])
    assert reached(found, "pod", objects[2], "node") == []
    before, objects[2] = objects[2], pod("a", "n1")
    found.changed(Pod, before, objects[2])
    assert found.refresh()
    assert reached(found, "pod", objects[2], "node") == ["n1"]
    found.changed(Pod, objects[2], objects[2])
    assert not found.refresh()


@pytest.mark.parametrize(
    ("source", "target", "levels"),
    [
        ("application", "device", "application workload pod volume device"),
        ("device", "application", "device volume pod workload application"),
        ("application", "node", "application workload pod node"),
        ("volume", "node", "volume node"),
        ("workload", "storagepool", "workload pod volume storagepool"),
        ("storagepool", "node", "storagepool node"),
        ("pod", "pod", "pod"),
    ],
)
def test_the_way_between_levels_is_the_shortest_of_the_chain(source: str, target: str, levels: str) -> None:
    assert " ".join(path(source, target)) == levels


def test_series_of_volumes_are_needed_for_devices_and_for_the_pools_of_volumes() -> None:
    assert needs_volume_info("application", "device")
    assert needs_volume_info("volume", "storagepool")
    assert not needs_volume_info("storagepool", "node")
    assert not needs_volume_info("application", "node")


def test_the_value_of_a_device_is_one_of_each_object_that_leads_to_it() -> None:
    on_device = Relation.of([(0, 0), (0, 1), (1, 0), (0, 0)])
    assert on_device.of_first(0) == [0, 1]
    of_volumes = Joined(np.array([0, 1], np.int32), np.array([7.0, 8.0]), np.array([1.0, 2.0]), 0)
    found = spread(of_volumes, on_device, ["a", "b"])
    assert found.object_of.tolist() == [0, 1, 0]
    assert found.values.tolist() == [7.0, 7.0, 8.0]
    assert found.seen_at is not None
    assert found.seen_at.tolist() == [0, 0, 1]
    nothing = on_device.then(Relation.of([]))
    assert nothing.of_first(0) == []


def test_a_table_knows_sizes_selections_and_former_places() -> None:
    first, second = claim("a"), claim("b", "2Gi")
    earlier, later = tables(first, second).table("volume"), tables(second).table("volume")
    assert earlier.capacity.tolist() == [2**30, 2**31]
    earlier.resized(claim("a", "3Gi"))
    assert earlier.capacity.tolist() == [3 * 2**30, 2**31]
    here, there = later.moved_from(earlier)
    assert (here.tolist(), there.tolist()) == ([0], [1])
    assert earlier.names == ["db/a", "db/b"]
    assert earlier.selected(RuleSelection(None, None), lambda _: None).tolist() == [True, True]
