"""What a group of processes holds in memory, as the kernel counts it.

held([pid, pid]).pss    # bytes
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Held:
    """Resident bytes; `pss` shares out pages that several processes map."""

    rss: int
    pss: int


def held(pids: Iterable[int]) -> Held:
    totals = {"Rss": 0, "Pss": 0}
    for pid in pids:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            name, _, rest = line.partition(":")
            if name in totals:
                totals[name] += int(rest.split()[0]) * 1024
    return Held(totals["Rss"], totals["Pss"])
