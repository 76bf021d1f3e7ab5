"""Expressions of policies over series as nodes, pilots and exporters report them."""

from __future__ import annotations

from typing import Any

import pytest

from pilothouse.api.policies.expansion import expand
from pilothouse.rules.metrics_pages import parse_series
from pilothouse.rules.promql.memory_series import MemorySeries
from pilothouse.rules.promql.queries import compile_query
from pilothouse.rules.promql.query_evaluation import evaluate
from pilothouse.rules.rule_fixtures import expanded

NOW = 600.0


def spec(application: str, policy: str) -> dict[str, Any]:
    (rule,) = expand("mine", {"application": application, "policies": [{"name": policy}]}).rules
    return rule.spec


def values(key: str, series: dict[str, str]) -> list[tuple[dict[str, str], float]]:
    """What an expression comes to after ten minutes, of series with a sample each minute."""
    source = MemorySeries()
    for text, samples in series.items():
        labels = parse_series(text.encode())
        assert labels is not None
        found = [each for each in expanded(samples) if each is not None]
        source.add(labels, (number * 60_000 for number in range(len(found))), found)
    vector = evaluate(compile_query(key), source, NOW)
    return [
        (dict(labels.labels), round(value, 6))
        for labels, value in zip(vector.labels, vector.values.tolist(), strict=True)
    ]


POD = 'namespace="shop",pod="db-0",node="n1"'
DISK = 'pilothouse_disk_info{device="nvme0n1",disk="nvme0n1",node="n1"}'
INFO = 'volumename="pv-1",namespace="shop",persistentvolumeclaim="data-0",device="loop3",disk="nvme0n1",node="n1"'


def test_a_volume_at_its_limit() -> None:
    (candidate, *_) = spec("postgres", "slow-volume")["candidates"]
    series = {
        # 475 reads a second, of 500.
        'node_disk_reads_completed_total{device="loop3",node="n1"}': "0+28500x10",
        'node_disk_reads_completed_total{device="nvme0n1",node="n1"}': "0+99999x10",
        f"pilothouse_volume_info{{{INFO}}}": "1x10",
        'pilothouse_volume_read_iops_limit{volumename="pv-1",node="n1"}': "500x10",
    }
    ((labels, value),) = values(candidate["when"][0]["key"], series)
    assert value == pytest.approx(95)
    assert labels["volumename"] == "pv-1"


def test_a_disk_that_others_write_to() -> None:
    busy, own = spec("postgres", "slow-volume")["candidates"][2]["when"]
    series = {
        'node_disk_io_time_seconds_total{device="loop3",node="n1"}': "0+1x10",
        'node_disk_io_time_seconds_total{device="nvme0n1",node="n1"}': "0+57x10",
        'node_disk_written_bytes_total{device="loop3",node="n1"}': "0+100x10",
        'node_disk_written_bytes_total{device="nvme0n1",node="n1"}': "0+1000x10",
    }
    assert values(busy["key"], series) == [({"device": "nvme0n1", "node": "n1"}, 95.0)]
    series |= {f"pilothouse_volume_info{{{INFO}}}": "1x10", DISK: "1x10"}
    assert values(own["key"], series) == [({"device": "loop3", "node": "n1", "disk": "nvme0n1"}, 10.0)]


@pytest.mark.parametrize(
    ("disk", "partition"),
    [
        ("nvme0n1", "nvme0n1p2"),
        ("sda", "sda1"),
        ("vdb", "vdb15"),
        ("xvda", "xvda1"),
        ("mmcblk0", "mmcblk0p1"),
    ],
)
def test_a_volume_is_compared_with_its_own_disk_without_partitions(disk: str, partition: str) -> None:
    busy, own = spec("postgres", "slow-volume")["candidates"][2]["when"]
    writes = {"loop3": 900, disk: 1000, partition: 1000, "sdz": 90_000, "dm-0": 1000}
    busy_for = {"loop3": 1, disk: 30, partition: 30, "sdz": 57}
    series = {
        **{f'node_disk_written_bytes_total{{device="{each}",node="n1"}}': f"0+{count}x10"
           for each, count in writes.items()},
        **{f'node_disk_io_time_seconds_total{{device="{each}",node="n1"}}': f"0+{seconds}x10"
           for each, seconds in busy_for.items()},
        f"pilothouse_volume_info{{{INFO.replace('nvme0n1', disk)}}}": "1x10",
        # A folder on the same disk has no writes of its own.
        f'pilothouse_volume_info{{device="{disk}",disk="{disk}",volumename="a",node="n1"}}': "1x10",
        f'pilothouse_volume_info{{device="{disk}",disk="{disk}",volumename="b",node="n1"}}': "1x10",
        DISK.replace("nvme0n1", disk): "1x10",
    }  # fmt: skip
    assert values(own["key"], series) == [({"device": "loop3", "node": "n1", "disk": disk}, 90.0)]
    assert {labels["device"]: value for labels, value in values(busy["key"], series)} == {disk: 50, "sdz": 95}


def test_the_latency_of_reads_is_in_seconds_and_zero_without_any() -> None:
    reads, syncs = (each["key"] for each in spec("postgres", "slow-volume")["conditions"]["expressions"])
    series = {
        f"pg_up{{{POD}}}": "1x10",
        f'pg_stat_database_blk_read_time{{{POD},datname="a"}}': "0+3000x10",
        f'pg_stat_database_blks_read{{{POD},datname="a"}}': "0+100x10",
        f'pg_stat_database_blk_read_time{{{POD},datname="b"}}': "5x10",
        f'pg_stat_database_blks_read{{{POD},datname="b"}}': "5x10",
    }
    assert [value for _, value in values(reads, series)] == [0.03, 0.0]
    # Without the file of queries there are no syncs, which are not slow then.
    assert [value for _, value in values(syncs, series)] == [0.0]


def test_the_heap_after_garbage_collections() -> None:
    (expression,) = spec("elasticsearch", "heap-pressure")["conditions"]["expressions"]
    labels = f'{{{POD},cluster="demo",name="es-0",area="heap"}}'
    series = {
        f"elasticsearch_jvm_memory_used_bytes{labels}": "600 950 700 960 650 900 990 700 800 950 970",
        f"elasticsearch_jvm_memory_max_bytes{labels}": "1000x10",
    }
    ((_, value),) = values(expression["key"], series)
    assert value in (60.0, 65.0)


def cluster(shards: tuple[int, ...], active: int, primary: int) -> dict[str, str]:
    health, who = "elasticsearch_cluster_health", 'namespace="shop",cluster="demo",pod="es-1"'
    each = {
        f'elasticsearch_node_shards_total{{namespace="shop",cluster="demo",pod="es-{number}"}}': f"{count}x10"
        for number, count in enumerate(shards)
    }
    return {
        **each,
        f"{health}_number_of_data_nodes{{{who}}}": "3x10",
        f"{health}_active_shards{{{who}}}": f"{active}x10",
        f"{health}_active_primary_shards{{{who}}}": f"{primary}x10",
    }


def test_shards_that_lie_unevenly_over_the_data_nodes() -> None:
    uneven = spec("elasticsearch", "uneven-shards")["conditions"]["expressions"][0]["key"]
    copies = spec("elasticsearch", "few-copies")["conditions"]["expressions"][0]["key"]
    # The first is a master, and has none.
    series = cluster((0, 15, 15, 0), 30, 20)
    assert values(uneven, series) == [({"namespace": "shop", "cluster": "demo"}, 50.0)]
    assert values(copies, series) == [({"namespace": "shop", "cluster": "demo"}, 1.5)]


def test_memory_of_redis_without_a_limit_has_no_value() -> None:
    (expression,) = spec("redis", "memory-pressure")["conditions"]["expressions"]
    used, most = f"redis_memory_used_bytes{{{POD}}}", f"redis_memory_max_bytes{{{POD}}}"
    assert [value for _, value in values(expression["key"], {used: "90x10", most: "100x10"})] == [90.0]
    assert values(expression["key"], {used: "90x10", most: "0x10"}) == []
