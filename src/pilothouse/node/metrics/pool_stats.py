"""The usage of storage pools, by Portworx' names: ``px_pool_stats_used_bytes{pool="m1-fast",…}``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pilothouse.base.prometheus_text import gauge, labels
from pilothouse.node.volumes.storage_pools import StoragePools

_FIELDS: Final = {
    "px_pool_stats_total_bytes": ("capacity", "Bytes that the pool holds."),
    "px_pool_stats_used_bytes": ("used", "Bytes that are used of it."),
    "px_pool_stats_provisioned_bytes": ("provisioned", "The sizes of its volumes, added up."),
    "px_pool_stats_available_bytes": ("available", "Bytes that are left in it."),
}


def families(node: str, pools: StoragePools) -> Iterator[str]:
    """The pools as they were last measured, which is every ten seconds."""
    found = [(labels(pool=pools.name(each.tier), node=node, tier=each.tier), each) for each in pools.latest]
    for name, (field, text) in _FIELDS.items():
        yield gauge(name, text, [(label, getattr(each, field)) for label, each in found])
