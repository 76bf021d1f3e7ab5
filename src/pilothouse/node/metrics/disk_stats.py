"""Disk metrics from /proc/diskstats, with the names of Prometheus' node exporter.

The average duration of a write: ``rate(node_disk_write_time_seconds_total[1m]) /
rate(node_disk_writes_completed_total[1m])``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from pilothouse.base.prometheus_text import counter, labels

_SECTOR: Final = 512
_MILLISECOND: Final = 0.001
_FIELDS: Final = {
    "node_disk_reads_completed_total": (0, 1, "Reads that were completed."),
    "node_disk_read_bytes_total": (2, _SECTOR, "Bytes read."),
    "node_disk_read_time_seconds_total": (3, _MILLISECOND, "Seconds that reads took, added up."),
    "node_disk_writes_completed_total": (4, 1, "Writes that were completed."),
    "node_disk_written_bytes_total": (6, _SECTOR, "Bytes written."),
    "node_disk_write_time_seconds_total": (7, _MILLISECOND, "Seconds that writes took, added up."),
    "node_disk_io_time_seconds_total": (9, _MILLISECOND, "Seconds in which the disk had something to do."),
}
"""The field of a line after the device's name, its unit, and the help text."""
_LEAST: Final = 11


def devices(diskstats: str) -> Iterator[tuple[str, list[int]]]:
    """The name and the numbers of each device that has been used."""
    for line in diskstats.splitlines():
        words = line.split()
        if len(words) < 3 + _LEAST:
            continue
        numbers = [int(each) for each in words[3:]]
        if any(numbers):
            yield words[2], numbers


def families(found: Iterable[tuple[str, list[int]]]) -> Iterator[str]:
    every = list(found)
    for name, (index, unit, text) in _FIELDS.items():
        yield counter(name, text, [(labels(device=each), numbers[index] * unit) for each, numbers in every])
