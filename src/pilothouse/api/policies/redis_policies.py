"""The policies of Redis. Metrics are those of our pilots and of ``prometheus-redis-exporter``."""

from __future__ import annotations

from typing import Final

from pilothouse.api.openstorage.actions import RESOURCES
from pilothouse.api.policies.policy_module import (
    MetricSource,
    PolicyModule,
    PolicyTemplate,
    RuleFields,
    Values,
)
from pilothouse.api.policies.policy_parameters import PolicyParameter
from pilothouse.api.policies.rule_fields import action, conditions, expression, rule
from pilothouse.api.policies.volume_policies import time_to_full, volume_resize

EXPORTER: Final = "pilots, or prometheus-redis-exporter"
_USED: Final = "100 * redis_memory_used_bytes / (redis_memory_max_bytes > 0)"


def _memory_pressure(values: Values) -> RuleFields:
    more = action(
        RESOURCES,
        container=values["container"],
        resource="memory",
        scalepercentage=values["scalepercentage"],
        max=values["maxmemory"],
    )
    when = conditions(expression(_USED, "Gt", values["threshold"]), hold=120)
    return rule(when, object="workload", actions=(more,), actionsCoolDownPeriod=3600)


_MEMORY_PRESSURE: Final = PolicyTemplate(
    name="memory-pressure",
    summary="Asks for more memory for a Redis that has nearly reached its maxmemory, which has to be raised "
    "with it.",
    parameters=(
        PolicyParameter("threshold", "percentage", "How much of maxmemory may be in use.", "85", "10", "100"),
        PolicyParameter("scalepercentage", "percentage", "By how much memory grows.", "50", "1", "400"),
        PolicyParameter("maxmemory", "quantity", "Up to how much.", "32Gi", "32Mi"),
        PolicyParameter("container", "text", "The container of the database.", "redis"),
    ),
    sources=(MetricSource(EXPORTER, ("redis_memory_max_bytes", "redis_memory_used_bytes")),),
    enforcement="approvalRequired",
    build=_memory_pressure,
)
REDIS_POLICIES: Final = PolicyModule(
    name="redis",
    summary="Redis",
    policies=(volume_resize(), time_to_full(), _MEMORY_PRESSURE),
    tried="memory-pressure: a real Redis with our pilot; others: series written in their form",
)
