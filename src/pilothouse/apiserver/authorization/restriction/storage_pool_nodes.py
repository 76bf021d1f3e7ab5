"""Which node a StoragePool belongs to, and what that node may write to it. Reads the cache.

    pools.owner("n1-fast")              # "n1", or empty if it belongs to no node
    pools.check(node, new, old)         # what is wrong with a StoragePool that a node writes, or empty

One that exists is the node's in its label; one that does not is that of the node whose name it begins with.
"""

from __future__ import annotations

import msgspec

from pilothouse.api.storage_pools import POOL_NODE, POOL_TIER, pool_owner
from pilothouse.apiserver.discovery.catalog import ROOT
from pilothouse.apiserver.storage.watch_cache import WatchCache
from pilothouse.meta.kind import Object

_NODES, _POOLS = "nodes", "pilothouse.io/storagepools"


class _Metadata(msgspec.Struct):
    labels: dict[str, str] | None = None


class _Labelled(msgspec.Struct):
    metadata: _Metadata


_labelled = msgspec.json.Decoder(_Labelled)


class StoragePoolNodes:
    def __init__(self, cache: WatchCache) -> None:
        self._cache = cache

    def owner(self, pool: str) -> str:
        item = self._cache.get(_POOLS, f"{ROOT}{_POOLS}/{pool}")
        if item is None:
            return self._owner_by_name(pool)
        return (_labelled.decode(item.value).metadata.labels or {}).get(POOL_NODE, "")

    def check(self, node: str, new: Object, old: Object | None) -> str:
        metadata = new["metadata"]
        labels, before = metadata.get("labels") or {}, old["metadata"] if old is not None else {}
        if old is not None and (before.get("labels") or {}).get(POOL_NODE) != node:
            return f"it is no storage pool of node '{node}'"
        name, tier = str(metadata.get("name") or ""), labels.get(POOL_TIER, "")
        if labels.get(POOL_NODE) != node or not tier or name != f"{node}-{tier}":
            return f"metadata: the name must be {node}-TIER, with the labels {POOL_NODE} and {POOL_TIER}"
        if old is None and (other := self._owner_by_name(name)) != node:
            whose = f"it would be one of node '{other}'" if other else "there is no such node"
            return f"metadata.name: {whose}"
        for index, owner in enumerate(metadata.get("ownerReferences") or ()):
            if (owner.get("kind"), owner.get("name")) != ("Node", node):
                return f"metadata.ownerReferences[{index}]: may name its own Node only"
        if (metadata.get("finalizers") or None) != (before.get("finalizers") or None):
            return "metadata.finalizers: a node may not set or change it"
        if (new.get("spec") or None) != ((old or {}).get("spec") or None):
            return "spec: a node may not ask for a capacity; people and rules do"
        if ((new.get("status") or {}).get("node") or node) != node:
            return "status.node: must be the node itself"
        return ""

    def _owner_by_name(self, pool: str) -> str:
        return pool_owner(pool, lambda name: self._cache.get(_NODES, f"{ROOT}{_NODES}/{name}") is not None)
