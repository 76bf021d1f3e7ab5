"""PromQL about the disks below volumes, as nodes report them.

A volume of a node is a loop device on a disk. ``pilothouse_volume_info`` says which device is whose, and on
which disk; ``pilothouse_disk_info`` has each of those disks by its own name. /proc/diskstats has partitions
beside their disks, which would count twice. A volume's limits are those of its VolumeAttributesClass.
``span`` is the range of rates: ``300s``.
"""

from __future__ import annotations

from typing import Final, Literal

from pilothouse.api.policies.policy_module import MetricSource
from pilothouse.api.policies.volume_policies import NODES

_VOLUMES: Final = 'device=~"loop[0-9]+"'
_NO_DISKS: Final = "(loop|dm-|md|ram|zram|sr|fd)[0-9]+"
_PARTITIONS: Final = "(sd|vd|xvd|hd)[a-z]+[0-9]+|(nvme[0-9]+n|mmcblk|nbd)[0-9]+p[0-9]+"
_DISKS: Final = f'device!~"{_NO_DISKS}|{_PARTITIONS}"'
SOURCE: Final = MetricSource(
    NODES,
    (
        "node_disk_io_time_seconds_total",
        "node_disk_reads_completed_total",
        "node_disk_writes_completed_total",
        "node_disk_written_bytes_total",
        "pilothouse_disk_info",
        "pilothouse_volume_info",
        "pilothouse_volume_read_iops_limit",
        "pilothouse_volume_write_iops_limit",
    ),
)


def disk_busy(span: str) -> str:
    """The part of the time in which a disk had something to do, in percent; of the level ``device``."""
    return f"100 * rate(node_disk_io_time_seconds_total{{{_DISKS}}}[{span}])"


def own_writes(span: str) -> str:
    """What a volume writes, of all that is written to its disk, in percent; of ``device``."""
    written, to_disk = (
        f"(rate(node_disk_written_bytes_total{{{devices}}}[{span}])"
        f" * on (node, device) group_left (disk) {info})"
        for devices, info in (
            (_VOLUMES, f"pilothouse_volume_info{{{_VOLUMES}}}"),
            (_DISKS, "pilothouse_disk_info"),
        )
    )
    return f"100 * {written} / on (node, disk) group_left () {to_disk}"


def limit_used(side: Literal["read", "write"], span: str) -> str:
    """How much of its limit of reads or writes a second a volume uses, in percent; of ``volume``."""
    done = f"rate(node_disk_{side}s_completed_total{{{_VOLUMES}}}[{span}])"
    of_volume = f"({done} * on (node, device) group_right () pilothouse_volume_info)"
    return f"100 * {of_volume} / on (volumename) group_left () pilothouse_volume_{side}_iops_limit"
