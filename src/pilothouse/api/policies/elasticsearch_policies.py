"""The policies of Elasticsearch. Our pilots report what they need, by the names of the usual exporter."""

from __future__ import annotations

from typing import Final

from pilothouse.api.openstorage.actions import REBALANCE, REDUNDANCY, RESOURCES
from pilothouse.api.policies.policy_module import (
    MetricSource,
    PolicyModule,
    PolicyTemplate,
    RuleFields,
    Values,
)
from pilothouse.api.policies.policy_parameters import PolicyParameter, plain, whole_seconds
from pilothouse.api.policies.rule_fields import action, conditions, expression, rule
from pilothouse.api.policies.volume_policies import time_to_full, volume_resize

EXPORTER: Final = "pilots, or prometheus-elasticsearch-exporter"
_HEALTH: Final = "elasticsearch_cluster_health"
_GREEN: Final = f'max by (namespace, cluster) ({_HEALTH}_status{{color="green"}})'
_SHARDS: Final = "elasticsearch_node_shards_total"


def _of_cluster(name: str) -> str:
    """A figure that the leading pilot alone reports, whichever that is."""
    return f"max by (namespace, cluster) ({_HEALTH}_{name})"


def _heap_pressure(values: Values) -> RuleFields:
    over = whole_seconds(values["over"])
    # The lowest point between two garbage collections is what is really in use.
    used = f'min_over_time(elasticsearch_jvm_memory_used_bytes{{area="heap"}}[{over}])'
    heap = f'100 * {used} / elasticsearch_jvm_memory_max_bytes{{area="heap"}}'
    more = action(
        RESOURCES,
        container=values["container"],
        resource="memory",
        scalepercentage=values["scalepercentage"],
        max=values["maxmemory"],
    )
    when = conditions(expression(heap, "Gt", values["threshold"]), hold=300)
    return rule(when, object="workload", actions=(more,), actionsCoolDownPeriod=3600)


def _few_copies(values: Values) -> RuleFields:
    copies = values["copies"]
    whole = f"{_of_cluster('active_shards')} / {_of_cluster('active_primary_shards')}"
    when = conditions(
        expression(whole, "Lt", plain(copies.number + 1)),
        expression(_GREEN, "GtEq", "1"),
        expression(_of_cluster("number_of_data_nodes"), "Gt", copies),
        hold=300,
    )
    more = action(REDUNDANCY, copies=copies)
    return rule(when, object="application", actions=(more,), actionsCoolDownPeriod=3600)


def _uneven_shards(values: Values) -> RuleFields:
    # Nodes without data have no shards, so the mean is over the data nodes.
    mean = f"(sum by (namespace, cluster) ({_SHARDS}) / {_of_cluster('number_of_data_nodes')})"
    above = f"100 * (max by (namespace, cluster) ({_SHARDS}) / {mean} - 1)"
    clear_at = plain(values["deviation"].number / 2)
    when = conditions(
        expression(above, "Gt", values["deviation"], clear_at=clear_at),
        expression(_GREEN, "GtEq", "1"),
        expression(_of_cluster("relocating_shards"), "Lt", "1"),
        hold=600,
    )
    return rule(when, object="application", actions=(action(REBALANCE),), actionsCoolDownPeriod=3600)


_HEAP_PRESSURE: Final = PolicyTemplate(
    name="heap-pressure",
    summary="Gives the nodes of a pool more memory if their heap is full after garbage collections too; the "
    "heap follows the container's memory.",
    parameters=(
        PolicyParameter("threshold", "percentage", "How full the heap may be.", "85", "30", "99"),
        PolicyParameter("over", "duration", "Over which time the lowest value counts.", "10m", "2m", "2h"),
        PolicyParameter("scalepercentage", "percentage", "By how much memory grows.", "25", "1", "200"),
        PolicyParameter("maxmemory", "quantity", "Up to how much.", "64Gi", "512Mi"),
        PolicyParameter("container", "text", "The container of the database.", "elasticsearch"),
    ),
    sources=(
        MetricSource(EXPORTER, ("elasticsearch_jvm_memory_used_bytes", "elasticsearch_jvm_memory_max_bytes")),
    ),
    build=_heap_pressure,
)
_FEW_COPIES: Final = PolicyTemplate(
    name="few-copies",
    summary="Sets the number of copies if a green cluster with enough data nodes has fewer on average.",
    parameters=(PolicyParameter("copies", "count", "Copies of each shard beside it.", "1", "1", "10"),),
    sources=(
        MetricSource(
            EXPORTER,
            (
                f"{_HEALTH}_active_primary_shards",
                f"{_HEALTH}_active_shards",
                f"{_HEALTH}_number_of_data_nodes",
                f"{_HEALTH}_status",
            ),
        ),
    ),
    build=_few_copies,
)
_UNEVEN_SHARDS: Final = PolicyTemplate(
    name="uneven-shards",
    summary="Has a green cluster rebalanced in which a node has many more shards than the mean.",
    parameters=(
        PolicyParameter(
            "deviation", "percentage", "By how much the fullest node may exceed the mean.", "30", "5", "500"
        ),
    ),
    sources=(
        MetricSource(
            EXPORTER,
            (
                f"{_HEALTH}_number_of_data_nodes",
                f"{_HEALTH}_relocating_shards",
                f"{_HEALTH}_status",
                _SHARDS,
            ),
        ),
    ),
    build=_uneven_shards,
)
ELASTICSEARCH_POLICIES: Final = PolicyModule(
    name="elasticsearch",
    summary="Elasticsearch",
    policies=(volume_resize(), time_to_full(), _HEAP_PRESSURE, _FEW_COPIES, _UNEVEN_SHARDS),
    tried="few-copies, uneven-shards: a real one with our pilots; others: series written in their form",
)
