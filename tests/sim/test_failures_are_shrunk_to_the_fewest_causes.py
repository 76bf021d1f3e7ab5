"""Shrinking: what a failure does not need is left out."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pilothouse.sim.shrink import shrink


@pytest.mark.parametrize("needed", [{3}, {0, 19}, {4, 5, 6}, {1, 8, 15}], ids=str)
def test_only_what_it_takes_is_kept(needed: set[int]) -> None:
    assert shrink(range(20), lambda some: needed <= set(some)) == sorted(needed)


def test_a_failure_that_needs_nothing_is_told_by_nothing() -> None:
    assert shrink(range(20), lambda some: True) == []


def test_it_gives_up_after_as_many_attempts_as_it_may_make() -> None:
    asked: list[int] = []

    def fails(some: Sequence[int]) -> bool:
        asked.append(len(some))
        return {3, 77} <= set(some)

    kept = shrink(range(100), fails, attempts=10)
    assert {3, 77} <= set(kept)
    assert len(asked) <= 11
