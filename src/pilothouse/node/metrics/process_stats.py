"""The resource usage of a process and its descendants from /proc, for containers without a control group.

    usage = used_by(container.pid, table())

A container's first process is the ancestor of all others in it. An ended process is counted with its parent,
so figures may lag, but never decrease.
"""

from __future__ import annotations

import os
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from pilothouse.supervise.cgroup_settings import Usage

PROC: Final = Path("/proc")
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


class Process(msgspec.Struct, frozen=True):
    parent: int
    cpu_seconds: float
    """Includes ended children."""
    memory_bytes: int


def process_of(stat: str) -> Process:
    """Parse /proc/PID/stat. The name in it may contain spaces and brackets."""
    fields = stat[stat.rindex(")") + 2 :].split()
    ticks = sum(int(each) for each in fields[11:15])
    return Process(int(fields[1]), ticks / _TICKS, int(fields[21]) * _PAGE)


def table(proc: Path = PROC) -> dict[int, Process]:
    found = {}
    for entry in os.listdir(proc):
        if entry.isdecimal():
            with suppress(FileNotFoundError, ProcessLookupError):
                found[int(entry)] = process_of((proc / entry / "stat").read_text(errors="replace"))
    return found


def descendants(pid: int, processes: dict[int, Process]) -> list[int]:
    children = defaultdict(list)
    for each, process in processes.items():
        children[process.parent].append(each)
    found, waiting = [], [pid] if pid in processes else []
    while waiting:
        each = waiting.pop()
        found.append(each)
        waiting += children[each]
    return found


def used_by(pid: int, processes: dict[int, Process], proc: Path = PROC) -> Usage:
    mine = descendants(pid, processes)
    if not mine:
        return Usage()
    memory = sum(processes[each].memory_bytes for each in mine)
    read, written = _disk_bytes(mine, proc)
    return Usage(
        cpu_seconds=sum(processes[each].cpu_seconds for each in mine),
        memory_bytes=memory,
        working_set_bytes=memory,
        processes=len(mine),
        read_bytes=read,
        write_bytes=written,
    )


def _disk_bytes(pids: list[int], proc: Path) -> tuple[int | None, int | None]:
    """Bytes read from and written to disks; None without permission."""
    totals = {"read_bytes": 0, "write_bytes": 0}
    for pid in pids:
        try:
            lines = (proc / str(pid) / "io").read_text().splitlines()
        except (FileNotFoundError, ProcessLookupError):
            continue
        except PermissionError:
            return None, None
        for name, _, value in (line.partition(": ") for line in lines):
            if name in totals:
                totals[name] += int(value)
    return totals["read_bytes"], totals["write_bytes"]
