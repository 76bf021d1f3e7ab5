"""A server whose file is found damaged while it runs: a backup taken from it holds everything, and is restored elsewhere."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from tests.kit.kubectl import Kubectl, newest
from tests.kit.pilothouse_server import PilothouseServer

pytestmark = pytest.mark.long

PAGE = 4096


async def command(*arguments: str) -> None:
    argv = [sys.executable, "-m", "pilothouse", *arguments]
    done = await asyncio.to_thread(
        subprocess.run, argv, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr


async def test_what_the_advice_says_works(tmp_path: Path) -> None:
    server = PilothouseServer(tmp_path / "first", "sqlite")
    try:
        kubectl = Kubectl(newest(), server.target.kubeconfig, tmp_path / "home")
        for number in range(5):
            (await kubectl("create", "configmap", f"c{number}", f"--from-literal=x={number}")).ok()
        made = await kubectl("get", "configmap", "c2", "-o", "jsonpath={.metadata.resourceVersion}")
        version = made.ok()
        store = tmp_path / "first" / "data" / "store"
        for name in ("store.db", "store.db-wal"):
            with (store / name).open("r+b") as file:
                file.seek(PAGE)
                file.write(b"\xff" * 4_000_000)
        # Whoever asks for the past has it read from the file.
        past = "/api/v1/namespaces/default/configmaps?resourceVersionMatch=Exact&resourceVersion="
        assert (await kubectl("get", "--raw", past + version)).code
        refused = await kubectl("create", "configmap", "late", "--from-literal=x=1")
        assert "is damaged" in refused.err
        assert "pilothouse backup" in refused.err
        await command("backup", str(tmp_path / "saved"), "--kubeconfig", str(server.target.kubeconfig))
    finally:
        server.close()
    await command("restore", str(tmp_path / "saved"), "--data", str(tmp_path / "second" / "data"))
    again = PilothouseServer(tmp_path / "second", "sqlite")
    try:
        kubectl = Kubectl(newest(), again.target.kubeconfig, tmp_path / "home")
        for number in range(5):
            found = await kubectl("get", "configmap", f"c{number}", "-o", "jsonpath={.data.x}")
            assert found.ok() == str(number)
    finally:
        again.close()
