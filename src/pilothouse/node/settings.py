"""The settings of a node agent, fixed when it starts. Each is set by a flag of ``pilothouse node``.

NodeSettings(name="m1", data=Path("/var/lib/pilothouse/node"), address="10.0.0.7", labels={"disk": "ssd"})
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from pilothouse.supervise.launch_spec import IdRange

RUN = Path("/run/pilothouse")
"""Shared by the agents of a machine: see ``id_ranges``."""
DEFAULT_RANGE = IdRange(0x70000000, 0x10000000)
"""Above systemd's ranges for containers, below 2^31, which some programs take for negative."""
MAX_PODS = 110
PORT = 10250


class NodeSettings(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    data: Path
    """The node's own directory: pods, images, volumes. One agent at a time uses it."""
    address: str = "127.0.0.1"
    """The address at which other machines and the API server reach this one."""
    server: str = ""
    """The API server's URL for pods; empty for none."""
    other_servers: tuple[str, ...] = ()
    """Further URLs of the same API."""
    port: int = PORT
    """Of the node's server, for logs and exec."""
    pod_cidr: str = ""
    """The range of its pods' addresses; empty for loopback addresses."""
    labels: Mapping[str, str] = {}
    """Beside those that every node has (os, arch, hostname)."""
    taints: Sequence[Mapping[str, Any]] = ()
    """Set only when the Node is created."""
    max_pods: int = MAX_PODS
    """Pods beyond this number are rejected."""
    capacity: Mapping[str, str] = {}
    """Overrides what the machine has (cpu, memory, ephemeral-storage, pods)."""
    reserved: Mapping[str, str] = {}
    """Allocatable is capacity without this."""
    open_files: int = 0
    """The soft limit of open files of a container; 0 for the agent's."""
    pids: int | None = 8192
    """Processes and threads of a container; None for no limit."""
    tiers: Mapping[str, Path] = {}
    """Further directories for volumes, by the names that storage classes use."""
    tier_sizes: Mapping[str, int] = {}
    """Bytes that the volumes of a tier may have together; the other tiers are as large as their disks."""
    private: tuple[Path, ...] = ()
    """Further directories hidden from pods: those of an API server on the same machine."""
    exposed: tuple[Path, ...] = ()
    """Further paths of the machine that every container sees, read-only."""
    user_namespace_ids: IdRange = DEFAULT_RANGE
    """The ids of the machine from which a root agent assigns ranges to pods."""
    allow_host_users: bool = False
    """Whether pods run with the machine's ids where it can't map them."""
    unschedulable: bool = False
    """Whether the Node is cordoned when it is created."""
    stop_pods: bool = False
    """Whether a stopping agent stops its pods first; else the next agent adopts them."""

    @property
    def hidden(self) -> tuple[str, ...]:
        """All paths that are hidden from pods."""
        return tuple(str(each) for each in (self.data.absolute(), *self.private, *self.tiers.values(), RUN))

    @property
    def pods(self) -> Path:
        return self.data / "pods"
