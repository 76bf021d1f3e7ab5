"""Delta debugging: the fewest causes that still make a run fail.

Large parts are left out first, then smaller ones, until leaving out any single cause makes the run pass, or
the attempts are used up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def shrink(causes: Sequence[T], fails: Callable[[Sequence[T]], bool], *, attempts: int = 200) -> list[T]:
    """A subset of the causes, in order, with which the run still fails; all together are assumed to fail."""
    kept = list(causes)
    parts = 2
    if kept and attempts > 0 and fails([]):
        return []
    attempts -= 1
    while len(kept) > 1 and attempts > 0:
        size = -(-len(kept) // parts)
        for start in range(0, len(kept), size):
            rest = kept[:start] + kept[start + size :]
            attempts -= 1
            if fails(rest):
                kept, parts = rest, max(2, parts - 1)
                break
            if attempts <= 0:
                return kept
        else:
            if size == 1:
                return kept
            parts = min(len(kept), parts * 2)
    return kept
