"""Which block device is whose: ``pilothouse_volume_info``, which joins metrics of disks with claims.
``pilothouse_disk_info`` has the disks below them, so that what is done to a volume compares with its disk.

    devices = VolumeDevices(pools)
    families("m1", devices.find(volumes.in_use()))

The device of a loop volume is its own, that of a directory its filesystem's. A device is looked up again when
the volume is mounted anew.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from pilothouse.base.prometheus_text import gauge, labels
from pilothouse.node.volumes.block_devices import device_of, disk_below
from pilothouse.node.volumes.claim_volumes import VolumeInUse
from pilothouse.node.volumes.storage_pools import StoragePools

log = logging.getLogger(__name__)


class VolumeDevice(msgspec.Struct, frozen=True):
    volume: VolumeInUse
    device: str
    """Empty without one, as in a tmpfs."""
    disk: str
    """The disk below the device."""
    tier: str
    """Empty for a path of the machine."""


class VolumeDevices:
    def __init__(self, pools: StoragePools) -> None:
        self._pools = pools
        self._known: dict[tuple[Path, int], tuple[str, str]] = {}

    def find(self, volumes: Iterable[VolumeInUse]) -> list[VolumeDevice]:
        """The devices of all volumes that are mounted."""
        known, self._known = self._known, {}
        found = []
        for volume in volumes:
            try:
                key = volume.path, os.stat(volume.path).st_dev
                pair = known.get(key) or _look_up(volume.path)
            except OSError as problem:
                log.warning("the device of %s is not known: %s", volume.path, problem.strerror)
                continue
            self._known[key] = pair
            tier = self._pools.tier_of(volume.path.parent) if volume.backend else ""
            found.append(VolumeDevice(volume, *pair, tier))
        return found


def _look_up(path: Path) -> tuple[str, str]:
    device = device_of(path)
    return device, disk_below(device)


def families(node: str, found: Iterable[VolumeDevice]) -> Iterator[str]:
    devices = list(found)
    samples = [
        (
            labels(
                namespace=each.volume.namespace,
                persistentvolumeclaim=each.volume.claim,
                volumename=each.volume.volume,
                device=each.device,
                disk=each.disk,
                tier=each.tier,
                node=node,
            ),
            1,
        )
        for each in devices
    ]
    yield gauge("pilothouse_volume_info", "The block device and the disk below a claim's volume.", samples)
    disks = sorted({each.disk for each in devices if each.disk})
    of_disks = [(labels(device=disk, disk=disk, node=node), 1) for disk in disks]
    yield gauge("pilothouse_disk_info", "The disks below claims' volumes, each as device and disk.", of_disks)
