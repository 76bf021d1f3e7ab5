"""The same cases again without privileges: as root this runs the suite once more, as nobody."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kit.containers import needs_root
from tests.kit.ordinary_user import ordinary_folder, run_as_nobody

QUICK = (
    "test_a_program_starts_as_its_launch_spec_says.py",
    "test_limits_are_written_for_cgroup_v1_and_v2.py",
    "test_the_survey_says_what_the_machine_supports.py",
)


@pytest.fixture
def work() -> Iterator[Path]:
    with ordinary_folder() as folder:
        yield folder


@needs_root
def test_starting_works_without_privileges(work: Path) -> None:
    run_as_nobody(work, *(f"tests/supervise/{name}" for name in QUICK))


@needs_root
def test_a_mount_in_a_closed_folder_is_in_nobodys_way(work: Path) -> None:
    """As on a machine with Docker, or where root runs pods too: they mount where an ordinary user may not look."""
    inside = work / "zz-closed" / "inside"  # The last by name is the first to be let go.
    inside.mkdir(parents=True)
    inside.parent.chmod(0o700)
    subprocess.run(["mount", "-t", "tmpfs", "pilothouse-test", inside], check=True)
    try:
        run_as_nobody(
            work,
            "tests/supervise/test_a_container_has_a_filesystem_view.py::test_a_folder_that_is_closed_to_us_is_in_nobodys_way",
        )
    finally:
        subprocess.run(["umount", inside], check=True)


@needs_root
@pytest.mark.long
@pytest.mark.timeout(900)
def test_everything_works_without_privileges(work: Path) -> None:
    # The quick ones have been run by a test of their own.
    run_as_nobody(work, "tests/supervise", *(f"--ignore=tests/supervise/{name}" for name in QUICK))
