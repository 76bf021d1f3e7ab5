"""``scripts/demo``, which ``make demo`` runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PATIENCE = 240


@pytest.mark.long
def test_each_step_does_what_it_says_and_nothing_stays(tmp_path: Path) -> None:
    env = {
        "PILOTHOUSE_DEMO_PAUSE": "0",
        "PILOTHOUSE_VENV": sys.prefix,
        "PYTHONPATH": "",
        "TMPDIR": str(tmp_path),
    }
    tour = subprocess.run(
        [ROOT / "scripts" / "demo"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        env={**os.environ, **env},
    )
    assert tour.returncode == 0, tour.stdout + tour.stderr
    assert "[9/9]" in tour.stdout
    for shown in (
        "hello-1 began at",
        "ErrImageNeverPull",
        "pilothouse image import nginx-unprivileged:1.27",
        "3 new pods have been updated",
    ):
        assert shown in " ".join(tour.stdout.split())  # Lines are wrapped.
    assert "'eight' is not a version" in tour.stderr
    assert list(tmp_path.glob("pilothouse-demo.*")) == []
