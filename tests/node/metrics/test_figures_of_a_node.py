from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.apiserver.metrics.scraped import Scraped

from pilothouse.node.metrics import disk_stats, process_stats
from pilothouse.node.metrics.metrics_pages import (
    ContainerUsage,
    completed,
    container_families,
    machine_families,
    node_families,
    resource_families,
)
from pilothouse.supervise.cgroup_settings import Usage

STAT = "42 (a (strange) name) S 7 42 42 0 -1 4194304 100 0 0 0 150 50 30 20 20 0 1 0 1000 10000000 256 1 1"
DISKS = """\
   7       0 loop0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
 254       0 vda 10 2 80 500 20 3 160 1500 0 700 2000 0 0 0 0 0 0
   1       0 short 1 2
"""


def used(pod: str, container: str, **usage: Any) -> ContainerUsage:
    return ContainerUsage("shop", pod, container, 1_700_000_000.0, Usage(**usage))


def scraped(families: Iterable[str]) -> Scraped:
    return Scraped.read("".join(families).encode())


def test_a_process_with_any_name_is_read() -> None:
    found = process_stats.process_of(STAT)
    assert found.parent == 7
    assert found.cpu_seconds == 250 / os.sysconf("SC_CLK_TCK")
    assert found.memory_bytes == 256 * os.sysconf("SC_PAGE_SIZE")


def test_all_below_a_process_counts() -> None:
    def process(parent: int) -> process_stats.Process:
        return process_stats.Process(parent, 1.0, 1000)

    table = {1: process(0), 2: process(1), 3: process(2), 4: process(1), 5: process(3)}
    assert sorted(process_stats.descendants(2, table)) == [2, 3, 5]
    assert process_stats.descendants(9, table) == []
    assert process_stats.used_by(9, table, Path("/nowhere")) == Usage()
    found = process_stats.used_by(2, table, Path("/nowhere"))
    assert (found.cpu_seconds, found.memory_bytes, found.processes) == (3.0, 3000, 3)


def test_a_real_process_is_measured() -> None:
    script = "import subprocess, sys; print('up', flush=True); subprocess.run(['sleep', '1000'])"
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        try:
            found = process_stats.used_by(process.pid, process_stats.table())
            assert found.memory_bytes is not None
            assert found.memory_bytes > 1_000_000
            assert found.processes in (1, 2)
        finally:
            for pid in process_stats.descendants(process.pid, process_stats.table()):
                os.kill(pid, 9)


def test_what_a_group_counts_goes_before_what_is_seen() -> None:
    counted, seen = Usage(memory_bytes=5, oom_kills=1), Usage(memory_bytes=7, cpu_seconds=2.0)
    assert completed(counted, seen) == Usage(memory_bytes=5, oom_kills=1, cpu_seconds=2.0)


def test_what_is_not_counted_is_not_told() -> None:
    page = scraped(container_families([used("a", "x", cpu_seconds=1.5), used("b", "y", memory_bytes=7)]))
    assert page.values("container_cpu_usage_seconds_total") == [1.5]
    assert page.labels("container_memory_usage_bytes") == {"namespace": "shop", "pod": "b", "container": "y"}
    assert page.values("container_fs_reads_bytes_total") == []


def test_a_pod_is_the_sum_of_its_containers() -> None:
    every = [
        used("a", "x", cpu_seconds=1.5, working_set_bytes=10),
        used("a", "y", cpu_seconds=2.0, working_set_bytes=20),
        used("b", "x", cpu_seconds=4.0, working_set_bytes=40),
    ]
    page = scraped(resource_families(every))
    assert page.value("pod_cpu_usage_seconds_total", pod="a") == 3.5
    assert page.value("pod_memory_working_set_bytes", pod="a") == 30
    assert page.value("pod_memory_working_set_bytes", pod="b") == 40


def test_how_long_disks_take() -> None:
    page = scraped(disk_stats.families(disk_stats.devices(DISKS)))
    assert page.labels("node_disk_reads_completed_total") == {"device": "vda"}
    assert page.value("node_disk_written_bytes_total") == 160 * 512
    assert page.value("node_disk_write_time_seconds_total") == 1.5
    assert page.value("node_disk_writes_completed_total") == 20


def test_the_machine_as_a_whole() -> None:
    stat = "cpu  100 0 50 9000 800 0 50 0 0 0\ncpu0 …\n"
    page = scraped(machine_families(stat, "MemTotal:  1000 kB\nMemFree: 1 kB\nMemAvailable:   400 kB\n"))
    assert page.value("node_cpu_usage_seconds_total") == 200 / os.sysconf("SC_CLK_TCK")
    assert page.value("node_memory_working_set_bytes") == 600 * 1024


def test_the_node_counts_its_pods() -> None:
    page = scraped(node_families("n1", 3, 5))
    assert page.value("kubelet_running_pods") == 3
    assert page.value("kubelet_running_containers", container_state="running") == 5
