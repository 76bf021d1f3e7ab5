"""The acceptance cases of Autopilot's rules that ours has to meet are named where they are tested (``px-T3``)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
_NAMED = re.compile(r"px-([DT]\d+)", re.IGNORECASE)
CASES = [*(f"D{number}" for number in range(1, 12)), *(f"T{number}" for number in range(1, 22))]


@pytest.fixture(scope="module")
def named() -> set[str]:
    files = (path for path in TESTS.rglob("test_*.py") if path.parent != Path(__file__).parent)
    return {case.upper() for path in files for case in _NAMED.findall(path.read_text())}


@pytest.mark.parametrize("case", CASES)
def test_a_case_is_named_by_a_test(case: str, named: set[str]) -> None:
    assert case in named
