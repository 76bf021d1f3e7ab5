"""A few specs of Kubernetes' own conformance suite against `up`: the way there works. All of them: `make conformance-kubernetes`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.kit.tools import folder

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]
FOCUS = (
    r"sig-node. (Lease|Containers )|server version|Watchers.*should be able to start watching from a specific"
)


@pytest.mark.skipif(
    not (folder() / "e2e.test").exists(), reason="scripts/tools/e2e has not built the suite: it takes minutes"
)
@pytest.mark.skipif(os.geteuid() != 0, reason="root only: the suite's pods run as several users")
def test_specs_of_the_suite_pass_and_are_counted() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "conformance-kubernetes"), "--focus", FOCUS]
    run = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stdout + run.stderr
    counts = next(line.split("|")[2:5] for line in run.stdout.splitlines() if line.startswith("| all "))
    assert [int(each) for each in counts] == [7, 0, 0]
