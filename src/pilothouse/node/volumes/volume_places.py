"""Where the data of a volume is: beside its record, or in another tier after a move.

    places = VolumePlaces({"default": Path("/var/lib/pilothouse/node/volumes"), "fast": Path("/mnt/nvme")})
    places.data(home)                   # Path("/mnt/nvme/pvc-1234") of /var/lib/…/volumes/pvc-1234

The directory that the PersistentVolume's path is in, its home, never changes. It has the records, and where a
loop volume is mounted.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pilothouse.node.volumes.volume_backend import VolumeBackendError, read_record


class VolumePlaces:
    def __init__(self, tiers: Mapping[str, Path] = {}) -> None:
        self.tiers = tiers

    def data(self, home: Path) -> Path:
        """The directory with a volume's data. Raises VolumeBackendError."""
        return self.folder(home, self.tier(home))

    def tier(self, home: Path) -> str:
        """The tier that a volume was moved to; empty if it is at home. Raises VolumeBackendError."""
        record = read_record(home)
        return record.tier if record is not None else ""

    def folder(self, home: Path, tier: str) -> Path:
        """A volume's directory in a tier; its home for none. Raises VolumeBackendError."""
        if not tier:
            return home
        if tier not in self.tiers:
            known = ", ".join(sorted(self.tiers))
            why = f"its data is in the tier {tier!r}, and this node has {known}"
            raise VolumeBackendError(f"{why}: start it with --tier {tier}=FOLDER")
        return self.tiers[tier] / home.name

    def relative(self, home: Path, tier: str) -> str:
        """A tier as records name it: empty for the one of the volume's home."""
        return "" if self.tiers.get(tier) == home.parent else tier

    def name(self, home: Path, tier: str) -> str:
        """The name of a tier that records name."""
        return tier or next(
            (name for name, path in self.tiers.items() if path == home.parent), str(home.parent)
        )
