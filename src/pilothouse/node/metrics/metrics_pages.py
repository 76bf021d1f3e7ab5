"""The node's metrics pages for Prometheus.

    /metrics               everything: pods, volumes, pools, disks, the machine, the agent itself
    /metrics/resource      for metrics-server
    /metrics/cadvisor      containers, with cAdvisor's names

Names are those of kubelet, cAdvisor and the node exporter, for existing dashboards and rules. A metric that
the machine does not count is left out.
"""

from __future__ import annotations

import asyncio
import os
import resource
from collections.abc import Iterable, Iterator, Sequence, Set
from pathlib import Path
from typing import Final, Protocol

import msgspec

from pilothouse.base.prometheus_text import counter, gauge, labels
from pilothouse.node.containers.container_index import ContainerIndex
from pilothouse.node.containers.resource_limits import container_cgroup
from pilothouse.node.interfaces import CgroupSource
from pilothouse.node.metrics import disk_stats, pool_stats, process_stats, volume_devices
from pilothouse.node.metrics.log_matches import LogMatches
from pilothouse.node.metrics.volume_devices import VolumeDevices
from pilothouse.node.volumes.claim_volumes import VolumeInUse
from pilothouse.node.volumes.storage_pools import StoragePools
from pilothouse.node.volumes.volume_usage import MeasuredUsage, metrics
from pilothouse.supervise.cgroup_settings import Usage

_DISKS: Final = Path("/proc/diskstats")
_MEMORY: Final = Path("/proc/meminfo")
_LOAD: Final = Path("/proc/stat")
_CONTAINER_FIGURES: Final = (
    ("container_cpu_usage_seconds_total", "cpu_seconds", counter, "Processor time used."),
    ("container_memory_usage_bytes", "memory_bytes", gauge, "Memory used, with its share of the page cache."),
    ("container_memory_working_set_bytes", "working_set_bytes", gauge, "Memory that could not be given up."),
    ("container_fs_reads_bytes_total", "read_bytes", counter, "Bytes read from disks."),
    ("container_fs_writes_bytes_total", "write_bytes", counter, "Bytes written to disks."),
    ("container_processes", "processes", gauge, "Processes that run."),
    ("container_oom_events_total", "oom_kills", counter, "Processes killed because memory was used up."),
)
_RESOURCE_NAMES: Final = {"container_cpu_usage_seconds_total", "container_memory_working_set_bytes"}


class VolumeUsageSource(Protocol):
    @property
    def pools(self) -> StoragePools: ...

    async def usage(self) -> Sequence[MeasuredUsage]: ...

    def in_use(self) -> Sequence[VolumeInUse]: ...


class ContainerUsage(msgspec.Struct, frozen=True):
    namespace: str
    pod: str
    container: str
    started: float
    usage: Usage

    @property
    def labels(self) -> str:
        return labels(namespace=self.namespace, pod=self.pod, container=self.container)


class MetricsPages:
    def __init__(
        self,
        node: str,
        container_index: ContainerIndex,
        groups: CgroupSource,
        volumes: VolumeUsageSource,
        log_matches: LogMatches,
    ) -> None:
        self._node = node
        self._index = container_index
        self._groups = groups
        self._volumes = volumes
        self._devices = VolumeDevices(volumes.pools)
        self._log_matches = log_matches

    async def all(self) -> str:
        """``/metrics``."""
        used = await asyncio.to_thread(self._measure)
        usage = await self._volumes.usage()
        devices = await asyncio.to_thread(self._devices.find, list(self._volumes.in_use()))
        return "".join(
            [
                *node_families(self._node, len(self._index.pods()), len(used)),
                *container_families(used),
                *(f"{line}\n" for line in metrics(usage)),
                *volume_devices.families(self._node, devices),
                *pool_stats.families(self._node, self._volumes.pools),
                *self._log_matches.families(),
                *disk_stats.families(disk_stats.devices(_text(_DISKS))),
                *machine_families(_text(_LOAD), _text(_MEMORY)),
                *agent_families(),
            ]
        )

    async def containers(self) -> str:
        """``/metrics/cadvisor``."""
        return "".join(container_families(await asyncio.to_thread(self._measure)))

    async def resource(self) -> str:
        """``/metrics/resource``."""
        used = await asyncio.to_thread(self._measure)
        return "".join([*resource_families(used), *machine_families(_text(_LOAD), _text(_MEMORY))])

    def _measure(self) -> list[ContainerUsage]:
        table: dict[int, process_stats.Process] | None = None
        found = []
        for pod, name, container in list(self._index.running()):
            usage = self._groups.group(container_cgroup(pod.uid, name)).usage()
            if usage.cpu_seconds is None or usage.memory_bytes is None:
                table = process_stats.table() if table is None else table
                usage = completed(usage, process_stats.used_by(container.pid, table))
            found.append(ContainerUsage(pod.namespace, pod.name, name, container.started, usage))
        return found


def completed(counted: Usage, seen: Usage) -> Usage:
    """The usage that the kernel counts for a group, completed from that of its processes."""
    known = {name: value for name, value in msgspec.structs.asdict(counted).items() if value is not None}
    return msgspec.structs.replace(seen, **known)


def node_families(node: str, pods: int, containers: int) -> Iterator[str]:
    yield gauge("kubelet_node_name", "The node's name. The count is always 1.", [(labels(node=node), 1)])
    yield gauge("kubelet_running_pods", "Pods of which there is something here.", [("", pods)])
    running = [(labels(container_state="running"), containers)]
    yield gauge("kubelet_running_containers", "Containers that run.", running)


def container_families(used: Iterable[ContainerUsage], names: Set[str] | None = None) -> Iterator[str]:
    every = list(used)
    for name, field, family, text in _CONTAINER_FIGURES:
        if names is None or name in names:
            samples = [(each.labels, getattr(each.usage, field)) for each in every]
            yield family(name, text, [(label, value) for label, value in samples if value is not None])
    starts = [(each.labels, each.started) for each in every]
    yield gauge("container_start_time_seconds", "When it was started, in seconds since 1970.", starts)


def resource_families(used: Sequence[ContainerUsage]) -> Iterator[str]:
    """The metrics for metrics-server: per container, and the sums per pod."""
    yield from container_families(used, _RESOURCE_NAMES)
    for name, field, family in (
        ("pod_cpu_usage_seconds_total", "cpu_seconds", counter),
        ("pod_memory_working_set_bytes", "working_set_bytes", gauge),
    ):
        sums: dict[str, float] = {}
        for each in used:
            value = getattr(each.usage, field)
            if value is not None:
                pod = labels(namespace=each.namespace, pod=each.pod)
                sums[pod] = sums.get(pod, 0) + value
        yield family(name, "What its containers use, added up.", sums.items())


def machine_families(stat: str, meminfo: str) -> Iterator[str]:
    """The whole machine, from /proc/stat and /proc/meminfo."""
    first = stat.partition("\n")[0].split()
    if first[:1] == ["cpu"] and len(first) > 5:
        # All but idling and waiting for disks.
        busy = sum(int(each) for index, each in enumerate(first[1:9]) if index not in (3, 4))
        seconds = busy / os.sysconf("SC_CLK_TCK")
        yield counter("node_cpu_usage_seconds_total", "Processor time used on the machine.", [("", seconds)])
    amounts = dict(line.partition(":")[::2] for line in meminfo.splitlines())
    if "MemTotal" in amounts and "MemAvailable" in amounts:
        total, free = (int(amounts[name].split()[0]) * 1024 for name in ("MemTotal", "MemAvailable"))
        yield gauge("node_memory_working_set_bytes", "Memory of the machine in use.", [("", total - free)])


def agent_families() -> Iterator[str]:
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = used.ru_utime + used.ru_stime
    yield counter("process_cpu_seconds_total", "Processor time of the agent.", [("", seconds)])
    pages = int(_text(Path("/proc/self/statm")).split()[1] or 0)
    size = pages * os.sysconf("SC_PAGE_SIZE")
    yield gauge("process_resident_memory_bytes", "Memory of the agent.", [("", size)])


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except FileNotFoundError:
        return ""
