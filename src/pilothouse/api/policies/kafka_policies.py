"""The policies of Kafka. Metrics are those of Prometheus' ``jmx_exporter`` with its example for brokers."""

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

EXPORTER: Final = "jmx_exporter"
_BEHIND: Final = "kafka_server_replicamanager_underreplicatedpartitions"


def _catching_up(values: Values) -> RuleFields:
    when = conditions(
        expression("VolumeUsagePercent", "Gt", values["threshold"]),
        expression(f"max by (namespace, pod) ({_BEHIND})", "Gt", "0"),
        hold=300,
    )
    return rule(when, object="volume", actions=(grown(values),))


_CATCHING_UP: Final = PolicyTemplate(
    name="catching-up",
    summary="Grows a volume earlier while partitions are under-replicated: what is copied to catch up comes "
    "on top.",
    parameters=(
        PolicyParameter("threshold", "percentage", "How full is too full meanwhile.", "60", "1", "99"),
        *SIZES,
    ),
    sources=(
        MetricSource(NODES, ("kubelet_volume_stats_capacity_bytes", "kubelet_volume_stats_used_bytes")),
        MetricSource(EXPORTER, (_BEHIND,)),
    ),
    build=_catching_up,
)
KAFKA_POLICIES: Final = PolicyModule(
    name="kafka",
    summary="Kafka",
    policies=(volume_resize(), time_to_full(), _CATCHING_UP),
    tried="series written in the form of its exporter; not tried on a real one",
)
