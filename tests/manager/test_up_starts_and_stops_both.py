"""``scripts/up``: one command, a server and a manager; one signal, and both are gone in order."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from tests.kit.kubectl import Kubectl, newest
from tests.kit.ours import PilothouseServer
from tests.kit.processes import Process
from tests.kit.waiting import eventually

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
        process.wait_until(lambda: "health and metrics are at" in process.output(), seconds=120)
        assert "export KUBECONFIG=" in process.output()
        kubectl = Kubectl(newest(), data / "admin.kubeconfig", tmp_path / "home")

        async def account() -> bool:
            return (await kubectl("get", "serviceaccount", "default")).code == 0

        await eventually(account)
    finally:
        status = process.end(seconds=30)
    assert status == 0, process.output()
    assert "Traceback" not in process.output()
    again = PilothouseServer(tmp_path, "sqlite")
    try:
        kubectl = Kubectl(newest(), again.target.kubeconfig, tmp_path / "home")
        lease = await kubectl("get", "lease", "-n", "kube-system", "-o", "json")
        [found] = json.loads(lease.ok())["items"]
        assert not found["spec"].get("holderIdentity")
    finally:
        again.close()
