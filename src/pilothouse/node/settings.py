"""The settings of a node agent, fixed when it starts.

    NodeSettings(name="m1", data=Path("/var/lib/pilothouse/node"), address="10.0.0.7", labels={"disk": "ssd"})

Each is set by a flag of ``pilothouse node``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from pilothouse.supervise.launch_spec import IdRange

RUN = Path("/run/pilothouse")
"""What agents on the same machine agree on: see ``id_ranges``."""
DEFAULT_RANGE = IdRange(0x70000000, 0x10000000)
"""Above those that systemd has for containers, and below 2^31, which some programs take for negative: room for 4,096 pods."""
MAX_PODS = 110
"""As a kubelet's."""
PORT = 10250
"""Where the node's server listens unless told otherwise, as a kubelet's."""


class NodeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Fixed for the life of an agent."""

    name: str
    data: Path
    """The node's own folder: pods, images, volumes. One agent at a time has it."""
    address: str = "127.0.0.1"
    """Where other machines, and the API server, reach this one."""
    server: str = ""
    """The API server's URL, as pods are told it; empty if they aren't."""
    other_servers: tuple[str, ...] = ()
    """Where else the same API is to be had."""
    port: int = PORT
    """Of the node's server, for logs and exec."""
    pod_cidr: str = ""
    """The range of its pods' addresses; empty for loopback addresses."""
    labels: Mapping[str, str] = {}
    """Beside those that every node has (os, arch, hostname)."""
    taints: Sequence[Mapping[str, Any]] = ()
    """Set when the Node is made, and never by the node after that."""
    max_pods: int = MAX_PODS
    """Pods that it takes; those beyond are refused."""
    capacity: Mapping[str, str] = {}
    """Amounts that differ from what the machine has (cpu, memory, ephemeral-storage, pods)."""
    reserved: Mapping[str, str] = {}
    """Amounts that pods may not have: allocatable is capacity without them."""
    open_files: int = 0
    """How many files a container may have open unless it asks for more; 0 for as many as the agent."""
    pids: int | None = 8192
    """Processes and threads that a container may have; None for as many as the machine can."""
    tiers: Mapping[str, Path] = {}
    """Folders for volumes beside the one in the data folder, by the names that storage classes have for them."""
    private: tuple[Path, ...] = ()
    """Folders that no pod sees, beside the data folder and the tiers: those of an API server on the same machine."""
    exposed: tuple[Path, ...] = ()
    """Files and folders of the machine that every container sees, read-only, beside `/usr` and the like."""
    user_namespace_ids: IdRange = DEFAULT_RANGE
    """The ids of the machine that pods have their own from, where the agent is root."""
    allow_host_users: bool = False
    """Whether pods run with the machine's own ids where the machine can't give them others."""
    unschedulable: bool = False
    """Whether the Node is cordoned when it is made."""
    stop_pods: bool = False
    """Whether an agent that is asked to stop ends its pods first; else they go on and the next agent takes them up."""

    @property
    def hidden(self) -> tuple[str, ...]:
        """All that no pod sees."""
        return tuple(str(each) for each in (self.data.absolute(), *self.private, *self.tiers.values(), RUN))

    @property
    def pods(self) -> Path:
        """A folder for each pod, by its uid."""
        return self.data / "pods"
