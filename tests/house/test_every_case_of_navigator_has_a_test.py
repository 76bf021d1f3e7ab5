"""The public system's acceptance cases that ours has to meet are named where they are tested (``nav_A01`` or ``nav-A01``)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
_NAMED = re.compile(r"nav[-_]((?:[A-Z]\d{2}[-_]?)+)")


def numbered(letter: str, first: int, last: int) -> list[str]:
    return [f"{letter}{number:02}" for number in range(first, last + 1)]


CASES = [
    *numbered("E", 2, 8),
    *numbered("A", 1, 17),
    *numbered("U", 1, 10),
    *numbered("R", 1, 4),
    *numbered("P", 1, 1),
    *numbered("P", 5, 6),
    *numbered("P", 24, 30),
    *numbered("N", 1, 3),
    *numbered("Z", 1, 3),
]


@pytest.fixture(scope="module")
def named() -> set[str]:
    found: set[str] = set()
    for path in TESTS.rglob("test_*.py"):
        for run in _NAMED.findall(path.read_text()):
            found.update(re.findall(r"[A-Z]\d{2}", run))
    return found


@pytest.mark.parametrize("case", CASES)
def test_the_case_is_named(case: str, named: set[str]) -> None:
    assert case in named, f"no test names nav-{case}"
