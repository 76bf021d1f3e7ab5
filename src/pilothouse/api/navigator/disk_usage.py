"""How full the volume of an instance is, and its watermarks.

    usage = DiskUsage(used=95 << 30, capacity=100 << 30)
    usage.percent, usage.watermark        # 95, "FloodStage"
    usage.differs(reported)               # whether it is worth another write

Watermarks are 85 %, 90 % and 95 %. With ``headroom`` they are never exceeded with more than 200, 150 or
100 GB free. As in ``df``, blocks reserved for root are neither used nor free.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from pilothouse.api.objects import Tree

Watermark = Literal["", "Low", "High", "FloodStage"]
_GB: Final = 10**9
_WATERMARKS: Final[tuple[tuple[Watermark, int, int], ...]] = (
    ("FloodStage", 95, 100 * _GB),
    ("High", 90, 150 * _GB),
    ("Low", 85, 200 * _GB),
)
"""Each with its percentage used, and the free bytes that it allows at most."""
_ORDER: Final[tuple[Watermark, ...]] = ("", "Low", "High", "FloodStage")
_STEP: Final = 100
"""A difference is a hundredth of the capacity."""
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")


class DiskUsage(msgspec.Struct, frozen=True):
    """Of one filesystem, in bytes."""

    used: int
    capacity: int
    headroom: bool = True
    """Whether much free space is enough, however small a part of the capacity it is."""

    @classmethod
    def of(cls, tree: Mapping[str, Any] | None, *, headroom: bool = True) -> DiskUsage | None:
        """From a Pilot's status; None if it has none."""
        used, capacity = (tree or {}).get("usedBytes"), (tree or {}).get("capacityBytes")
        if not isinstance(used, int) or not isinstance(capacity, int) or capacity <= 0:
            return None
        return cls(used, capacity, headroom)

    @property
    def percent(self) -> int:
        return min(100, self.used * 100 // self.capacity)

    @property
    def watermark(self) -> Watermark:
        """The highest one exceeded, or empty."""
        left = self.capacity - self.used
        for name, percent, most_left in _WATERMARKS:
            is_short = not self.headroom or left <= most_left
            if self.used * 100 >= self.capacity * percent and is_short:
                return name
        return ""

    def differs(self, reported: DiskUsage | None) -> bool:
        """True if usage changed by a hundredth of the capacity, or passed a watermark.

        To pass a watermark downwards it must fall by a hundredth, so that it doesn't flap.
        """
        if reported is None:
            return True
        if _ORDER.index(self.watermark) > _ORDER.index(reported.watermark):
            return True
        moved = max(abs(self.used - reported.used), abs(self.capacity - reported.capacity))
        return moved * _STEP >= self.capacity

    def tree(self) -> Tree:
        return {"usedBytes": self.used, "capacityBytes": self.capacity, "usedPercent": self.percent}

    def __str__(self) -> str:
        return f"{self.percent} % ({_size(self.used)} of {_size(self.capacity)})"


def _size(count: int) -> str:
    amount, unit = float(count), 0
    while amount >= 1024 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{amount:.3g} {_UNITS[unit]}" if amount < 1000 else f"{amount:.0f} {_UNITS[unit]}"
