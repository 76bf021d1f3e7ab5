"""Names that a rule may use for a metric instead of PromQL, so that it needs no vendor's names.

    ALIASES["VolumeUsagePercent"]

The first two are of storage pools, in percentage points from the mean of all pools.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

ALIASES: Final[Mapping[str, str]] = {
    "PoolProvDeviationPerc": (
        "100 * px_pool_stats_provisioned_bytes / px_pool_stats_total_bytes"
        " - scalar(avg(100 * px_pool_stats_provisioned_bytes / px_pool_stats_total_bytes))"
    ),
    "PoolUsageDeviationPerc": (
        "100 * px_pool_stats_used_bytes / px_pool_stats_total_bytes"
        " - scalar(avg(100 * px_pool_stats_used_bytes / px_pool_stats_total_bytes))"
    ),
    "VolumeUsagePercent": "100 * kubelet_volume_stats_used_bytes / kubelet_volume_stats_capacity_bytes",
    "VolumeInodesPercent": "100 * kubelet_volume_stats_inodes_used / kubelet_volume_stats_inodes",
    "VolumeCapacityGB": "kubelet_volume_stats_capacity_bytes / 1e9",
    "VolumeSecondsToFull": (
        "(kubelet_volume_stats_available_bytes / (deriv(kubelet_volume_stats_used_bytes[1h]) > 0))"
        " and count_over_time(kubelet_volume_stats_used_bytes[1h] offset 30m) > 0"
    ),
}
"""The PromQL of each alias."""
