"""Pods as processes of an agent that is not root: the same cases, as nobody."""

from __future__ import annotations

import pytest
from tests.kit.containers import needs_root
from tests.kit.ordinary_user import ordinary_folder, run_as_nobody


@needs_root
@pytest.mark.long
@pytest.mark.timeout(900)
def test_processes_are_what_the_manifest_says_without_privileges() -> None:
    with ordinary_folder() as folder:
        run_as_nobody(folder, "tests/node/test_processes_are_what_the_manifest_says.py")
