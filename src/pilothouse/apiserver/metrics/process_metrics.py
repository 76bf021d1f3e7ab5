"""The process itself, by the names that Prometheus' client libraries use."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path

from pilothouse.base.prometheus_text import counter, gauge

_PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def families() -> Iterator[str]:
    """The kernel's figures of this process; none without ``/proc``."""
    try:
        # The name of the program is in brackets and may hold anything, also brackets.
        fields = (_PROC / "self" / "stat").read_text().rpartition(")")[2].split()
        boot = _boot_time()
        files = len(os.listdir(_PROC / "self" / "fd"))
    except OSError:
        return
    # Counted from field 3 of proc(5): user and system time, start, virtual and resident size.
    seconds = (int(fields[11]) + int(fields[12])) / _TICKS
    started = boot + int(fields[19]) / _TICKS
    yield counter("process_cpu_seconds_total", "User and system time used.", [("", seconds)])
    yield gauge(
        "process_start_time_seconds", "When the process began, in seconds since 1970.", [("", started)]
    )
    yield gauge("process_virtual_memory_bytes", "Virtual memory.", [("", int(fields[20]))])
    yield gauge("process_resident_memory_bytes", "Resident memory.", [("", int(fields[21]) * _PAGE)])
    yield gauge("process_open_fds", "Open files.", [("", files)])
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    yield gauge("process_max_fds", "Files that may be open at a time.", [("", limit)])


def _boot_time() -> int:
    for line in (_PROC / "stat").read_text().splitlines():
        if line.startswith("btime "):
            return int(line.split()[1])
    return 0
