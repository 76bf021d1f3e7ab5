"""The policies about volumes that every application has: ``volume-resize`` and ``time-to-full``.

They read what nodes report of volumes, so they need no exporter.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from pilothouse.api.openstorage.actions import RESIZE
from pilothouse.api.policies.policy_module import MetricSource, PolicyTemplate, RuleFields, Values
from pilothouse.api.policies.policy_parameters import PolicyParameter, plain
from pilothouse.api.policies.rule_fields import action, conditions, expression, rule

NODES: Final = "nodes"
"""The exporter that is always there: the node agent, or kubelet."""
SIZES: Final = (
    PolicyParameter(
        "scalepercentage", "percentage", "By how much it grows.", default="50", least="1", most="1000"
    ),
    PolicyParameter("minstep", "quantity", "By how much at least.", default="1Gi", least="1Mi"),
    PolicyParameter("maxsize", "quantity", "Up to which size.", default="1Ti", least="1Mi"),
)
_CLEARED: Final = Decimal("0.9")
"""The part of a threshold below which a condition is over."""
_USAGE: Final = MetricSource(
    NODES, ("kubelet_volume_stats_used_bytes", "kubelet_volume_stats_capacity_bytes")
)


def volume_resize() -> PolicyTemplate:
    """Grows a volume that is fuller than a threshold."""
    return PolicyTemplate(
        name="volume-resize",
        summary="Grows a volume that is fuller than a threshold.",
        parameters=(
            PolicyParameter(
                "threshold", "percentage", "How full is too full.", default="80", least="1", most="99"
            ),
            *SIZES,
        ),
        sources=(_USAGE,),
        build=_resized,
    )


def time_to_full() -> PolicyTemplate:
    """Grows a volume that would be full soon."""
    return PolicyTemplate(
        name="time-to-full",
        summary="Grows a volume that would be full soon, by the slope of the last hour.",
        parameters=(
            PolicyParameter("within", "duration", "How soon.", default="12h", least="10m", most="720h"),
            *SIZES,
        ),
        sources=(
            MetricSource(NODES, ("kubelet_volume_stats_used_bytes", "kubelet_volume_stats_available_bytes")),
        ),
        build=_before_it_is_full,
    )


def grown(values: Values) -> RuleFields:
    """The resize that the parameters in ``SIZES`` describe."""
    return action(RESIZE, **{each.name: values[each.name] for each in SIZES})


def _resized(values: Values) -> RuleFields:
    threshold = values["threshold"]
    clear_at = plain(threshold.number * _CLEARED)
    usage = expression("VolumeUsagePercent", "Gt", threshold, clear_at=clear_at)
    return rule(conditions(usage, hold=30), object="volume", actions=(grown(values),))


def _before_it_is_full(values: Values) -> RuleFields:
    left = expression("VolumeSecondsToFull", "Lt", values["within"])
    return rule(conditions(left, hold=300), object="volume", actions=(grown(values),))
