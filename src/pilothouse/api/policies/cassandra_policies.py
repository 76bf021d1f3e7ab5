"""The policies of Cassandra. Metrics are those of ``cassandra-exporter``, an agent in Cassandra's JVM."""

from __future__ import annotations

from typing import Final

from pilothouse.api.policies.policy_module import (
    MetricSource,
    PolicyModule,
    PolicyTemplate,
    RuleFields,
    Values,
)
from pilothouse.api.policies.policy_parameters import PolicyParameter
from pilothouse.api.policies.rule_fields import conditions, expression, rule
from pilothouse.api.policies.volume_policies import NODES, SIZES, grown, time_to_full, volume_resize

EXPORTER: Final = "cassandra-exporter"
_PENDING: Final = "cassandra_table_estimated_pending_compactions"


def _compaction_room(values: Values) -> RuleFields:
    when = conditions(
        expression("VolumeUsagePercent", "Gt", values["threshold"]),
        expression(f"sum by (namespace, pod) ({_PENDING})", "Gt", values["pending"]),
        hold=300,
    )
    return rule(when, object="volume", actions=(grown(values),))


_COMPACTION_ROOM: Final = PolicyTemplate(
    name="compaction-room",
    summary="Grows a volume earlier while many compactions are pending, which need room for a second copy.",
    parameters=(
        PolicyParameter("threshold", "percentage", "How full is too full for them.", "50", "1", "99"),
        PolicyParameter("pending", "count", "How many pending compactions are many.", "20", "1"),
        *SIZES,
    ),
    sources=(
        MetricSource(NODES, ("kubelet_volume_stats_capacity_bytes", "kubelet_volume_stats_used_bytes")),
        MetricSource(EXPORTER, (_PENDING,)),
    ),
    build=_compaction_room,
)
CASSANDRA_POLICIES: Final = PolicyModule(
    name="cassandra",
    summary="Cassandra",
    policies=(volume_resize(), time_to_full(), _COMPACTION_ROOM),
    tried="series written in the form of its exporter; not tried on a real one",
)
