"""Pods as processes of an agent that is not root: the same cases, as nobody."""

from __future__ import annotations

import pytest
from tests.kit.containers import needs_root
from tests.kit.ordinary_user import ordinary_folder, run_as_nobody

SUITE = (
    "test_agents_adopt_running_containers.py",
    "test_exits_are_reported_and_cleaned_up.py",
    "test_hooks_and_probes_reach_real_containers.py",
    "test_pods_are_isolated.py",
    "test_processes_are_what_the_manifest_says.py",
)


@needs_root
@pytest.mark.long
@pytest.mark.timeout(900)
def test_pods_are_the_same_without_privileges() -> None:
    with ordinary_folder() as folder:
        run_as_nobody(folder, *(f"tests/node/{name}" for name in SUITE))
