"""The acceptance cases of k0s Autopilot that ours has to meet are named where they are tested (``k0s_A01`` or ``k0s-A01``)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
_NAMED = re.compile(r"k0s[-_]((?:A\d{2}[-_]?)+)")
CASES = [f"A{number:02}" for number in range(1, 49)]


@pytest.fixture(scope="module")
def named() -> set[str]:
    found: set[str] = set()
    for path in TESTS.rglob("test_*.py"):
        for run in _NAMED.findall(path.read_text()):
            found.update(re.findall(r"A\d{2}", run))
    return found


@pytest.mark.parametrize("case", CASES)
def test_a_case_is_named_by_a_test(case: str, named: set[str]) -> None:
    assert case in named
