"""What an update server is sent about a cluster, and the headers that say it.

    facts = await gather(api, clock.now(), running="v1.30.1+k0s.0")
    facts.headers()["K0S_ClusterID"]           # "kube-system:0b1e…"

They are counts and versions, never names. The server's owner learns which versions run where.
"""

from __future__ import annotations

import base64
import platform
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from pilothouse.api.k0s.release_versions import release_order
from pilothouse.api.kind_names import ControlNode, Lease, Namespace, Node
from pilothouse.api.objects import Object
from pilothouse.base.architectures import go_architecture
from pilothouse.base.rfc3339 import parse_time
from pilothouse.client.api import Api

UNKNOWN: Final = "unknown"
OWN_NETWORK: Final = "pilothouse"
"""The network of pods on our own nodes."""
LEASES: Final = "kube-node-lease"
CONTROLLER_LEASE: Final = "k0s-ctrl-"
_LONGEST: Final = 64
_MOST_VALUES: Final = 16


class ClusterFacts(msgspec.Struct, frozen=True):
    """Counts and versions of a cluster."""

    cluster: str
    """The uid of the namespace kube-system."""
    version: str
    """The oldest version of a controller."""
    controllers: int = 0
    archs: dict[str, int] = {}
    systems: dict[str, int] = {}
    runtimes: dict[str, int] = {}
    storage: str = UNKNOWN
    """The kind of store: etcd, sqlite."""
    network: str = UNKNOWN
    """What connects pods."""

    def headers(self) -> dict[str, str]:
        """The headers of a request for ``index.yaml``."""
        workers = {"Archs": self.archs, "OSes": self.systems, "Runtimes": self.runtimes}
        said = {
            "K0S_StorageType": self.storage,
            "K0S_ClusterID": f"kube-system:{self.cluster}",
            "K0S_ControlPlaneNodesCount": str(self.controllers),
            "K0S_WorkerData": base64.b64encode(msgspec.json.encode(workers)).decode(),
            "K0S_Version": self.version[:_LONGEST],
            "K0S_CNIProvider": self.network,
            "K0S_Arch": go_architecture(platform.machine()),
        }
        return {name: _header_text(value) for name, value in said.items() if value}


async def gather(api: Api, now: float, *, running: str, storage: str = UNKNOWN) -> ClusterFacts:
    """The present facts. ``running`` is the version where no ControlNode reports one; ``storage`` is the kind
    of store, which the API does not say."""
    system = await api.find(Namespace, "kube-system")
    nodes = (await api.list(Node)).objects
    leases = (await api.list(Lease, LEASES)).objects
    controllers = (await api.list(ControlNode)).objects
    return ClusterFacts(
        cluster=system.uid if system is not None else "",
        version=oldest_version(controllers) or running,
        controllers=sum(_holds(lease, now) for lease in leases if lease.name.startswith(CONTROLLER_LEASE)),
        archs=_counted(nodes, "architecture"),
        systems=_counted(nodes, "operatingSystem"),
        runtimes=_counted(nodes, "containerRuntimeVersion"),
        storage=storage,
        network=OWN_NETWORK if (await api.version()).is_ours else UNKNOWN,
    )


def oldest_version(controllers: Iterable[Object]) -> str:
    """The oldest of the versions that ControlNodes report; empty if none reports one."""
    versions = []
    for one in controllers:
        text = str(one.status.get("k0sVersion") or "")
        try:
            versions.append((release_order(text), text))
        except ValueError:
            continue
    return min(versions)[1] if versions else ""


def _holds(lease: Object, now: float) -> bool:
    """Whether a lease is still valid."""
    try:
        renewed = parse_time(lease.spec.get("renewTime") or "")
    except ValueError:
        return False
    seconds: Any = lease.spec.get("leaseDurationSeconds") or 0
    return bool(renewed + seconds >= now)


def _counted(nodes: Iterable[Object], field: str) -> dict[str, int]:
    """How many nodes have each value: of the most frequent ones, and cut, since nodes choose their values."""
    values = (str(node.at("status", "nodeInfo", field) or "")[:_LONGEST] for node in nodes)
    counts = Counter(_header_text(value) for value in values if value)
    return dict(sorted(sorted(counts.items(), key=lambda each: (-each[1], each[0]))[:_MOST_VALUES]))


def _header_text(value: str) -> str:
    """Header values are printable ASCII."""
    return "".join(letter if " " <= letter <= "~" else "?" for letter in value)
