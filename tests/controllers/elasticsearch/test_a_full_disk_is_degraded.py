"""A volume that is nearly full, or indices that take no writes for it: Degraded, with the volume's name and what helps."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kit.controller_harness import reasons
from tests.kit.elasticsearch_harness import ElasticsearchHarness, elastic, pool

from pilothouse.api.kind_names import ElasticsearchCluster, PersistentVolumeClaim, StorageClass
from pilothouse.api.objects import Object, Tree
from pilothouse.controllers.elasticsearch.cluster_controller import elasticsearch_clusters
from pilothouse.runtime.intents import RecordEvent

GIB = 1 << 30
CLAIM = "elasticsearch-data-es-test-data-1"


def sailed(
    *, claims: bool = True, expandable: bool = True, **spec: Any
) -> tuple[ElasticsearchHarness, Object]:
    """Two nodes, each with a claim of 10 GiB."""
    harness = ElasticsearchHarness()
    persistence = {"persistence": {"size": "10Gi", "storageClass": "disks"}} if claims else {}
    test = harness.add(elastic("test", pools=[pool("data", 2, **persistence)], **spec))
    if claims:
        harness.add(
            {
                "apiVersion": StorageClass.api_version,
                "kind": StorageClass.kind,
                "metadata": {"name": "disks"},
                "provisioner": "example.com/disk",
                "allowVolumeExpansion": expandable,
            }
        )
    for number in range(2 if claims else 0):
        harness.add(
            {
                "apiVersion": PersistentVolumeClaim.api_version,
                "kind": PersistentVolumeClaim.kind,
                "metadata": {"name": f"elasticsearch-data-es-test-data-{number}", "namespace": "default"},
                "spec": {"storageClassName": "disks", "resources": {"requests": {"storage": "10Gi"}}},
                "status": {"phase": "Bound", "capacity": {"storage": "10Gi"}},
            }
        )
    harness.run_until_idle(test)
    return harness, test


def fill(
    harness: ElasticsearchHarness, test: Object, first: int, second: int, *, capacity: int = 10 * GIB
) -> Object:
    """Have both pilots report how full their volumes are, in parts of a hundred."""
    for number, percent in enumerate((first, second)):
        harness.reports[f"es-test-data-{number}"] = {"volume": (-(-capacity * percent // 100), capacity)}
    harness.run_until_idle(test)
    return harness.of(ElasticsearchCluster, "test")


def degraded(cluster: Object) -> tuple[str, str, str]:
    found: Tree = dict(cluster.condition("Degraded") or {})
    return found["status"], found["reason"], found["message"]


def test_the_fullest_volume_is_in_the_status_by_the_name_of_its_claim() -> None:
    harness, test = sailed()
    cluster = fill(harness, test, 30, 42)
    assert cluster.status["fullestVolume"] == {
        "name": CLAIM,
        "node": "es-test-data-1",
        "usedBytes": -(-10 * GIB * 42 // 100),
        "capacityBytes": 10 * GIB,
        "usedPercent": 42,
    }
    assert degraded(cluster)[:2] == ("False", "AsAsked")


@pytest.mark.parametrize(
    ("percent", "reason", "effect"),
    [
        (85, "VolumeNearlyFull", "allocates no further shards there"),
        (90, "VolumeNearlyFull", "moves shards away from there"),
        (95, "VolumeFull", "read-only"),
        (100, "VolumeFull", "read-only"),
    ],
)
def test_each_of_elasticsearchs_watermarks_is_degraded_and_says_what_helps(
    percent: int, reason: str, effect: str
) -> None:
    harness, test = sailed()
    status, found, message = degraded(fill(harness, test, 20, percent))
    assert (status, found) == ("True", reason)
    assert f"volume {CLAIM} is" in message
    assert f"full, to {percent} %" in message
    assert effect in message
    assert "raise persistence.size of pool data (the claim has 10Gi)" in message


def test_below_them_nothing_is_amiss_and_a_volume_that_was_emptied_is_forgiven() -> None:
    harness, test = sailed()
    assert degraded(fill(harness, test, 20, 84))[0] == "False"
    assert degraded(fill(harness, test, 20, 96))[0] == "True"
    assert degraded(fill(harness, test, 20, 60)) == ("False", "AsAsked", "No problems found.")


@pytest.mark.parametrize(
    ("version", "status"), [("8.17.0", "False"), ("8.5.0", "False"), ("8.4.3", "True"), ("7.17.29", "True")]
)
def test_from_8_5_on_a_large_disk_with_hundreds_of_gigabytes_left_is_not_nearly_full(
    version: str, status: str
) -> None:
    harness, test = sailed(version=version)
    assert degraded(fill(harness, test, 20, 96, capacity=20_000 * GIB))[0] == status


@pytest.mark.parametrize(
    ("setting", "capacity", "advice"),
    [
        (
            {"expandable": False},
            10 * GIB,
            "the claim can't be expanded (storage class disks does not allow expansion",
        ),
        ({}, 200 * GIB, "the claim shares a disk of node n1 with others: free space there"),
        ({"claims": False}, 10 * GIB, "free space on the disk of node n1, give pool data persistence"),
    ],
    ids=["a class that does not grow", "a folder on a shared disk", "no claim"],
)
def test_the_advice_fits_what_the_volume_is(setting: dict[str, bool], capacity: int, advice: str) -> None:
    harness, test = sailed(**setting)
    message = degraded(fill(harness, test, 20, 92, capacity=capacity))[2]
    assert advice in message
    assert "delete indices" in message
    assert "persistence.size" not in message


def test_without_elasticsearchs_own_watch_the_effect_is_another() -> None:
    harness, test = sailed(config={"cluster": {"routing.allocation.disk.threshold_enabled": False}})
    assert "writes fail once it is full" in degraded(fill(harness, test, 20, 96))[2]


def test_indices_that_take_no_writes_come_before_all_else() -> None:
    harness, test = sailed()
    harness.read_only = {"count": 5, "names": ["a", "b", "c", "d", "e"]}
    status, reason, message = degraded(fill(harness, test, 20, 97))
    assert (status, reason) == ("True", "IndicesReadOnly")
    assert message.startswith("5 indices take no writes (a, b, c and 2 more), since a disk was nearly full")
    assert f"volume {CLAIM} is full to 97 %" in message
    # A version that is refused at the same time does not hide it, nor is it hidden.
    harness.edit(harness.of(ElasticsearchCluster, "test"), version="6.0.0")
    harness.run_until_idle(test)
    status, reason, message = degraded(harness.of(ElasticsearchCluster, "test"))
    assert reason == "IndicesReadOnly"
    assert "6.0.0" in message


def test_a_block_that_stays_when_there_is_room_is_told_with_how_to_take_it_off() -> None:
    harness, test = sailed()
    harness.read_only = {"count": 1, "names": ["books"]}
    _, reason, message = degraded(fill(harness, test, 20, 20))
    assert reason == "IndicesReadOnly"
    assert message.startswith("1 index takes no writes (books)")
    assert 'PUT /_all/_settings {"index.blocks.read_only_allow_delete": null}' in message


def test_a_full_volume_is_told_beside_what_is_refused() -> None:
    harness, test = sailed()
    fill(harness, test, 20, 96)
    harness.edit(harness.of(ElasticsearchCluster, "test"), version="6.0.0")
    harness.run_until_idle(test)
    _, reason, message = degraded(harness.of(ElasticsearchCluster, "test"))
    assert reason != "VolumeFull"
    assert f"volume {CLAIM} is full" in message


def test_an_event_tells_it_once_and_not_with_every_figure() -> None:
    harness, test = sailed()
    events: list[str] = []
    for percent in (86, 88, 91, 96, 98):
        used = 10 * GIB * percent // 100
        harness.reports["es-test-data-1"] = {"volume": (used, 10 * GIB)}
        harness.report_pilots(test)
        for _ in range(2):
            told = [
                each for each in harness.step(elasticsearch_clusters, test) if isinstance(each, RecordEvent)
            ]
            events += [each.event for each in told]
    assert events == ["VolumeNearlyFull", "VolumeFull"]


def test_volumes_that_do_not_change_cause_no_writes() -> None:
    harness, test = sailed()
    fill(harness, test, 20, 96)
    assert reasons(harness.step(elasticsearch_clusters, test)) == []


def test_a_full_volume_comes_before_data_that_can_not_be_reached_for_it() -> None:
    harness, test = sailed()
    harness.health = "Red"
    harness.shards = {
        "active": 1,
        "unassigned": 1,
        "explanation": "shard has exceeded the maximum number of retries [5] on failed allocation attempts",
    }
    status, reason, message = degraded(fill(harness, test, 50, 99))
    assert (status, reason) == ("True", "VolumeFull")
    assert message.index(CLAIM) < message.index("Some data can't be reached")
    assert "POST /_cluster/reroute?retry_failed=true" in message, "growing it is not enough by then"


NO_ROOM = "there is no room for 20Gi in /data/volumes, which has 3Gi left: free some, or ask for less"


def fail_to_grow(harness: ElasticsearchHarness, test: Object, *numbers: int) -> Object:
    """The pool asks for more, and the nodes that have these claims can't give it."""
    harness.edit_pool(test, "data", persistence={"size": "20Gi", "storageClass": "disks"})
    harness.run_until_idle(test)
    condition = {
        "type": "NodeResizeError",
        "status": "True",
        "reason": "VolumeResizeFailed",
        "message": NO_ROOM,
        "lastTransitionTime": "2024-01-01T00:00:00Z",
    }
    for number in numbers:
        claim = harness.of(PersistentVolumeClaim, f"elasticsearch-data-es-test-data-{number}")
        assert claim.spec["resources"]["requests"]["storage"] == "20Gi"
        harness.change(claim, lambda tree: tree["status"].update(conditions=[condition]))
    harness.run_until_idle(test)
    return harness.of(ElasticsearchCluster, "test")


def test_a_full_volume_that_can_not_grow_says_why_and_not_to_ask_for_more() -> None:
    harness, test = sailed()
    fill(harness, test, 20, 96)
    status, reason, message = degraded(fail_to_grow(harness, test, 1))
    assert (status, reason) == ("True", "VolumeFull")
    assert message.count(f"claim {CLAIM} can't be expanded to 20Gi: {NO_ROOM}") == 1
    assert "raise persistence.size" not in message
    assert "delete indices, or add nodes to the pool" in message


def test_claims_that_can_not_grow_are_named_though_there_is_room_on_them() -> None:
    harness, test = sailed()
    fill(harness, test, 20, 30)
    status, reason, message = degraded(fail_to_grow(harness, test, 0, 1))
    assert (status, reason) == ("True", "VolumesCannotGrow")
    for number in range(2):
        assert (
            f"claim elasticsearch-data-es-test-data-{number} can't be expanded to 20Gi: {NO_ROOM}" in message
        )


@pytest.mark.parametrize(
    ("size", "asked"), [("15Gi", "15Gi"), ("10Gi", "20Gi")], ids=["less", "what it has, which it may not ask"]
)
def test_a_pool_that_asks_for_less_lowers_the_request_that_could_not_be_met(size: str, asked: str) -> None:
    harness, test = sailed()
    fail_to_grow(harness, test, 1)
    harness.edit_pool(test, "data", persistence={"size": size, "storageClass": "disks"})
    harness.run_until_idle(test)
    assert harness.of(PersistentVolumeClaim, CLAIM).spec["resources"]["requests"]["storage"] == asked
    # The other one has grown, as far as anyone knows, and claims never shrink.
    other = harness.of(PersistentVolumeClaim, f"{CLAIM[:-1]}0")
    assert other.spec["resources"]["requests"]["storage"] == "20Gi"


@pytest.mark.parametrize(
    ("setting", "capacity", "advice"),
    [
        ({}, 10 * GIB, "raise persistence.size of pool data (the claim has 10Gi)"),
        ({"expandable": False}, 10 * GIB, "set allowVolumeExpansion: true in it"),
        ({}, 200 * GIB, "the claim shares a disk of node n1 with others: free space there"),
        ({"claims": False}, 10 * GIB, "free space on the disk of node n1"),
    ],
    ids=["a claim", "a class that does not grow", "a folder on a shared disk", "no claim"],
)
def test_only_space_helps_while_no_node_answers(setting: dict[str, bool], capacity: int, advice: str) -> None:
    harness, test = sailed(**setting)
    fill(harness, test, 100, 100, capacity=capacity)
    for number in range(2):
        harness.reports[f"es-test-data-{number}"] |= {"broken": True, "ready": False}
    harness.run_until_idle(test)
    cluster = harness.of(ElasticsearchCluster, "test")
    status, reason, message = degraded(cluster)
    assert (status, reason) == ("True", "VolumeFull")
    assert advice in message
    assert "indices can't be deleted" in message
    assert "delete indices" not in message
    assert "add nodes" not in message
    # What kubectl shows as MESSAGE.
    progressing = cluster.condition("Progressing")
    assert progressing is not None
    assert (progressing["status"], progressing["reason"]) == ("False", "VolumeFull")
    named = "the volume of pod es-test-data-0" if setting.get("claims") is False else f"volume {CLAIM[:-1]}0"
    assert named in progressing["message"]
    assert "full" in progressing["message"]
