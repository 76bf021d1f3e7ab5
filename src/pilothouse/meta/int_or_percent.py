"""A number, or a percentage of a whole: ``maxUnavailable: 2``, ``minAvailable: "50%"``.

scaled(2, 7, up=True)           # 2
scaled("50%", 7, up=True)       # 4
scaled("50%", 7, up=False)      # 3
"""

from __future__ import annotations

import re
from typing import Any, Final

_PERCENT: Final = re.compile(r"([0-9]+)%", re.ASCII)


def scaled(value: Any, whole: int, *, up: bool) -> int:
    """What it comes to for this whole, a fraction rounded up or down. Raises ValueError for anything else."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    match = _PERCENT.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f"{value!r} is neither a number nor a percentage such as '50%'")
    return -(-int(match[1]) * whole // 100) if up else int(match[1]) * whole // 100
