"""How full the volumes of a cluster are, how Elasticsearch reacts, and what would help.

fullest_volume(observed)        # for the cluster's status
full_and_down(observed)         # the full volumes whose nodes are not up, as text
shortage(observed)              # a Shortage, or None: a volume past a watermark, or read-only indices
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from pilothouse.api.applications.elasticsearch_application import has_disk_headroom
from pilothouse.api.kind_names import PersistentVolumeClaim
from pilothouse.api.navigator.disk_usage import DiskUsage, Watermark
from pilothouse.api.objects import Object, Tree
from pilothouse.base.quantity import parse_quantity
from pilothouse.controllers.elasticsearch.desired.pool_stateful_set import DATA
from pilothouse.controllers.elasticsearch.observed.cluster_nodes import ClusterNode
from pilothouse.controllers.elasticsearch.observed.observed_cluster import ObservedCluster
from pilothouse.controllers.elasticsearch.steps.scale_up import failed_expansion, why_not_expandable

READ_ONLY: Final = "IndicesReadOnly"
FULL: Final = "VolumeFull"
NEARLY_FULL: Final = "VolumeNearlyFull"
_EFFECTS: Final[Mapping[Watermark, str]] = {
    "Low": "Elasticsearch allocates no further shards there",
    "High": "Elasticsearch moves shards away from there",
    "FloodStage": "Elasticsearch makes the indices that have shards there read-only",
}
_UNCHECKED: Final = "Elasticsearch does not check its disks, and writes fail once it is full"
_THRESHOLD: Final = "cluster.routing.allocation.disk.threshold_enabled"
_UNBLOCK: Final = 'PUT /_all/_settings {"index.blocks.read_only_allow_delete": null}'
_UNREACHABLE: Final = "no node is ready, so indices can't be deleted and shards can't move"
_SHARED: Final = 1.2
"""A filesystem that is larger than its claim by this factor is shared with others."""
_MOST_NAMED: Final = 3


class Volume(msgspec.Struct, frozen=True):
    """The data volume of one node."""

    node: ClusterNode
    usage: DiskUsage
    claim: Object | None

    @property
    def name(self) -> str:
        """For messages: the name of its claim, if it has one."""
        return (
            f"volume {self.claim.name}" if self.claim is not None else f"the volume of pod {self.node.name}"
        )


class Shortage(msgspec.Struct, frozen=True):
    """Why space is short."""

    reason: str
    gist: str
    """The start of the message, without the figures that keep changing."""
    message: str


def fullest_volume(observed: ObservedCluster) -> Tree | None:
    """For the cluster's status; None if no node reports its volume."""
    found = _volumes(observed)
    if not found:
        return None
    first = found[0]
    name = first.claim.name if first.claim is not None else ""
    return {"name": name, "node": first.node.name, **first.usage.tree()}


def shortage(observed: ObservedCluster) -> Shortage | None:
    """The worst of all: read-only indices, then the fullest volume."""
    short = [each for each in _volumes(observed) if each.usage.watermark]
    if read_only := observed.latest_health.read_only_indices:
        return _read_only(observed, read_only, short)
    if not short:
        return None
    first = short[0]
    full = first.usage.watermark == "FloodStage"
    gist = f"{first.name} is {'full' if full else 'nearly full'}"
    return Shortage(FULL if full else NEARLY_FULL, gist, f"{gist}, to {_state(observed, short)}")


def full_and_down(observed: ObservedCluster) -> str:
    """The full volumes of nodes that are not up, as text; empty if there are none."""
    full = [
        each.name
        for each in _volumes(observed)
        if each.usage.watermark == "FloodStage" and not each.node.is_up
    ]
    if not full:
        return ""
    more = " and others" if len(full) > _MOST_NAMED else ""
    return f"{', '.join(full[:_MOST_NAMED])}{more} {'are' if len(full) > 1 else 'is'} full"


def _read_only(observed: ObservedCluster, found: Mapping[str, Any], short: list[Volume]) -> Shortage:
    count, names = int(found.get("count") or 0), list(found.get("names") or ())
    more = f" and {count - _MOST_NAMED} more" if count > _MOST_NAMED else ""
    which = (
        "all indices take"
        if "_all" in names
        else f"{count} {'index takes' if count == 1 else 'indices take'}"
    )
    listed = "" if "_all" in names else f" ({', '.join(names[:_MOST_NAMED])}{more})"
    gist = f"{which} no writes"
    why = f"{gist}{listed}, since a disk was nearly full (read_only_allow_delete)"
    if not short:
        return Shortage(READ_ONLY, gist, f"{why}; there is space again: if the block remains, {_UNBLOCK}")
    volume = f"{short[0].name} is full to {_state(observed, short)}"
    message = f"{why}: {volume}. If the block remains once there is space, {_UNBLOCK}"
    return Shortage(READ_ONLY, gist, message)


def _state(observed: ObservedCluster, short: list[Volume]) -> str:
    first, others = short[0], short[1:]
    effect = _EFFECTS.get(first.usage.watermark, "")
    pilot = first.node.pilot
    settings = pilot.at("spec", "configuration", "settings", default={}) if pilot is not None else {}
    if str(settings.get(_THRESHOLD, "true")).lower() == "false":
        effect = _UNCHECKED
    listed = [f"{each.name} is {each.usage.percent} % full" for each in others[:_MOST_NAMED]]
    beside = (
        f"; {', '.join(listed)}{' and others too' if len(others) > _MOST_NAMED else ''}" if listed else ""
    )
    return f"{first.usage}, and {effect}{beside}; {_remedy(observed, first)}"


def _remedy(observed: ObservedCluster, volume: Volume) -> str:
    """What gives the node space; while no request is answered, nothing else helps."""
    space, joint = _more_space(observed, volume)
    if not observed.is_reachable:
        return f"{space}; {_UNREACHABLE}"
    return f"{space}{joint}delete indices, or add nodes to the pool"


def _more_space(observed: ObservedCluster, volume: Volume) -> tuple[str, str]:
    """How the volume gets more space or why it can't, and what joins that to other remedies."""
    pool, pod, claim = volume.node.pool, volume.node.pod, volume.claim
    machine = f"node {pod.spec['nodeName']}" if pod is not None and pod.spec.get("nodeName") else "its node"
    if claim is None:
        return f"free space on the disk of {machine}", f", give pool {pool.name} persistence, "
    size = claim.at("status", "capacity", "storage") or claim.at("spec", "resources", "requests", "storage")
    if size is not None and volume.usage.capacity > _SHARED * parse_quantity(size).to_int():
        return f"the claim shares a disk of {machine} with others: free space there", ", "
    if why := why_not_expandable(observed, claim):
        return f"the claim can't be expanded ({why})", ": "
    if failed := failed_expansion(claim):
        return failed, "; until it can, "
    return f"raise persistence.size of pool {pool.name} (the claim has {size})", ", "


def _volumes(observed: ObservedCluster) -> list[Volume]:
    """The volumes of nodes that exist, the fullest first."""
    found = []
    for node in observed.nodes:
        if node.pod is None or node.pilot is None:
            continue
        headroom = has_disk_headroom(node.version)
        usage = DiskUsage.of(node.pilot.status.get("volume"), headroom=headroom)
        if usage is not None:
            claim = observed.world.find(
                PersistentVolumeClaim, observed.cluster.namespace, f"{DATA}-{node.name}"
            )
            found.append(Volume(node, usage, claim))
    return sorted(found, key=lambda each: (-each.usage.used / each.usage.capacity, each.node.name))
