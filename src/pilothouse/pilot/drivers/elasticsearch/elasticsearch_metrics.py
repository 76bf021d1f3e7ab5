"""Metrics of a node and of its cluster, for Prometheus.

    tuple(node_metrics(stats, shards, cluster="demo", name="es-demo-data-0"))
    tuple(cluster_metrics(health, read_only, cluster="demo"))

Names are those of Prometheus' exporter for Elasticsearch, so that dashboards and alerts fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

from pilothouse.pilot.driver import MetricValue
from pilothouse.pilot.drivers.elasticsearch.cluster_state import documents, local

_COLORS: Final = ("green", "yellow", "red")
_HEALTH_FIGURES: Final = (
    "number_of_nodes",
    "number_of_data_nodes",
    "number_of_pending_tasks",
    "active_shards",
    "active_primary_shards",
    "relocating_shards",
    "initializing_shards",
    "unassigned_shards",
    "delayed_unassigned_shards",
)


def node_metrics(stats: Mapping[str, Any], shards: int | None, **who: str) -> Iterator[MetricValue]:
    node = local(stats)
    indices, jvm, disk = node.get("indices", {}), node.get("jvm", {}), node.get("fs", {}).get("total", {})
    size = indices.get("store", {}).get("size_in_bytes")
    indexed = indices.get("indexing", {}).get("index_total")
    searched = indices.get("search", {}).get("query_total")
    memory = jvm.get("mem", {})
    yield from _known(
        who,
        ("indices_docs", "Documents on this node, replicas included.", documents(stats)),
        ("node_shards_total", "Shards on this node.", shards),
        ("indices_store_size_bytes", "What the shards take up.", size),
        ("filesystem_data_size_bytes", "Size of the data volume.", disk.get("total_in_bytes")),
        ("filesystem_data_available_bytes", "What is left of it.", disk.get("available_in_bytes")),
    )
    yield from _known(
        who,
        ("indices_indexing_index_total", "Documents written on this node.", indexed),
        ("indices_search_query_total", "Searches of shards on this node.", searched),
        kind="counter",
    )
    for area, prefix in (("heap", "heap"), ("non-heap", "non_heap")):
        yield from _known(
            {**who, "area": area},
            ("jvm_memory_used_bytes", "Memory of Java in use.", memory.get(f"{prefix}_used_in_bytes")),
            ("jvm_memory_max_bytes", "Memory of Java at most.", memory.get(f"{prefix}_max_in_bytes")),
        )
    for name, each in jvm.get("gc", {}).get("collectors", {}).items():
        spent = each.get("collection_time_in_millis")
        seconds = spent / 1000 if spent is not None else None
        yield from _known(
            {**who, "gc": name},
            ("jvm_gc_collection_seconds_count", "Garbage collections.", each.get("collection_count")),
            ("jvm_gc_collection_seconds_sum", "Time that they took.", seconds),
            kind="counter",
        )


def cluster_metrics(health: Mapping[str, Any], read_only: int, **who: str) -> Iterator[MetricValue]:
    """``read_only`` is how many indices take no writes for want of room."""
    status = str(health.get("status") or "").lower()
    for color in _COLORS:
        held = float(color == status)
        yield MetricValue(
            "elasticsearch_cluster_health_status", "Which it is.", held, labels={**who, "color": color}
        )
    for field in _HEALTH_FIGURES:
        help = f"As the cluster's health says: {field.replace('_', ' ')}."
        yield from _known(who, (f"cluster_health_{field}", help, health.get(field)))
    help = "Indices that take no writes since a disk was nearly full (read_only_allow_delete)."
    yield from _known(who, ("cluster_read_only_indices", help, read_only))


def _known(
    labels: Mapping[str, str],
    *found: tuple[str, str, float | None],
    kind: Literal["gauge", "counter"] = "gauge",
) -> Iterator[MetricValue]:
    for name, help, value in found:
        if value is not None:
            yield MetricValue(f"elasticsearch_{name}", help, float(value), labels, kind)
