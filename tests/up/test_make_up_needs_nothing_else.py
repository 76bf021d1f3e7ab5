"""``scripts/up``, which ``make up`` runs: one command from a checkout."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.kit.kubectl import Kubectl, newest
from tests.kit.processes import Process

ROOT = Path(__file__).parents[2]


@pytest.mark.long
async def test_one_command_brings_up_a_control_plane(tmp_path: Path) -> None:
    data = tmp_path / "data"
    env = {
        "PILOTHOUSE_DATA": str(data),
        "PILOTHOUSE_LISTEN": "127.0.0.1:0",
        "PILOTHOUSE_VENV": sys.prefix,
        "PYTHONPATH": "",
    }
    process = Process.start("up", [str(ROOT / "scripts" / "up")], log=tmp_path / "up.log", env=env)
    try:
        process.wait_until(lambda: "Pilothouse is up at" in process.output(), seconds=120)
        kubectl = Kubectl(newest(), data / "admin.kubeconfig", tmp_path / "home")
        assert "Ready" in (await kubectl("get", "nodes")).ok()
    finally:
        status = process.end(seconds=60)
    assert status == 0, process.output()
    assert "Traceback" not in process.output()
