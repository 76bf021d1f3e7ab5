"""The same cases again without privileges: as root this runs the suite once more, as nobody."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kit.containers import needs_root
from tests.kit.ordinary_user import ordinary_folder, run_as_nobody

QUICK = (
    "test_a_program_starts_as_asked.py",
    "test_limits_in_both_dialects.py",
    "test_what_the_machine_allows.py",
)


@pytest.fixture
def work() -> Iterator[Path]:
    with ordinary_folder() as folder:
        yield folder


@needs_root
def test_starting_works_without_privileges(work: Path) -> None:
    run_as_nobody(work, *(f"tests/supervise/{name}" for name in QUICK))


@needs_root
@pytest.mark.long
@pytest.mark.timeout(900)
def test_everything_works_without_privileges(work: Path) -> None:
    run_as_nobody(work, "tests/supervise")
