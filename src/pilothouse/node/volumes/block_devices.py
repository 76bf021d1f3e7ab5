"""Block devices: which one a path is on, and which disk is below that.

    device_of(Path("/mnt/nvme/pvc-1/data"))     # "nvme0n1p1", the device of the filesystem
    disk_below("loop3")                         # "nvme0n1": through the loop's file, partitions and mappings
    medium_of(Path("/mnt/nvme"))                # "ssd", "hdd", "memory", or empty if that is not known

A filesystem without a device, as a tmpfs or one of the network, has an empty one. Of a device that is made of
several, the first by name is followed.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from pilothouse.node.volumes.mount_table import MountEntry, mounts

SYSFS: Final = Path("/sys")
_DEEPEST: Final = 16
"""Devices below a device that are followed."""
_IN_MEMORY: Final = frozenset({"tmpfs", "ramfs", "devtmpfs"})
_DELETED: Final = " (deleted)"


def device_of(path: Path, sysfs: Path = SYSFS) -> str:
    """The block device of a path's filesystem; empty if it has none. Raises OSError."""
    number = os.stat(path).st_dev
    if name := device_name(number, sysfs):
        return name
    # Some filesystems, such as btrfs, number their files by themselves.
    mounted = mount_of(path)
    if mounted is None or not mounted.source.startswith("/dev/"):
        return ""
    found = os.stat(mounted.source)
    return device_name(found.st_rdev, sysfs) if stat.S_ISBLK(found.st_mode) else ""


def device_name(number: int, sysfs: Path = SYSFS) -> str:
    """The name of a block device by its number; empty if there is none."""
    try:
        return Path(os.readlink(sysfs / "dev/block" / f"{os.major(number)}:{os.minor(number)}")).name
    except OSError:
        return ""


def disk_below(device: str, sysfs: Path = SYSFS) -> str:
    """The disk that a device is on: itself, if it is one; empty if there is none, as for a file in memory."""
    for _ in range(_DEEPEST):
        folder = sysfs / "class/block" / device
        if not device or not folder.exists():
            return ""
        below = _below(folder, sysfs)
        if below is None:
            return device
        device = below
    return ""


def _below(folder: Path, sysfs: Path) -> str | None:
    """The device below one; None if it is a disk, empty if it is none and on none."""
    if (folder / "partition").exists():
        return folder.resolve().parent.name
    try:
        backing = (folder / "loop/backing_file").read_text().rstrip("\n").removesuffix(_DELETED)
        return device_of(Path(backing), sysfs)
    except FileNotFoundError:
        if (folder / "loop/backing_file").exists():
            return ""  # Its file is deleted.
    except OSError:
        return ""
    try:
        parts = sorted(os.listdir(folder / "slaves"))
    except OSError:
        return None
    return parts[0] if parts else None


def mount_of(path: Path) -> MountEntry | None:
    """The mount that a path is on."""
    place = path.resolve()
    above = [each for each in mounts() if each.target == place or each.target in place.parents]
    # The last one of a target hides the others.
    return max(reversed(above), key=lambda each: len(each.target.parts), default=None)


def medium_of(path: Path, sysfs: Path = SYSFS) -> str:
    """What a path's filesystem is made of. Raises OSError."""
    mounted = mount_of(path)
    if mounted is not None and mounted.kind in _IN_MEMORY:
        return "memory"
    disk = disk_below(device_of(path, sysfs), sysfs)
    try:
        rotational = (sysfs / "class/block" / disk / "queue/rotational").read_text().strip() if disk else ""
    except OSError:
        return ""
    return {"0": "ssd", "1": "hdd"}.get(rotational, "")
