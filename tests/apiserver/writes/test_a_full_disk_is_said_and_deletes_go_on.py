"""A server whose disk is full: deletes work, what grows gets 507, and /readyz and a metric say so until there is room."""

from __future__ import annotations

import io
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kit.containers import needs_root
from tests.kit.kubectl import Kubectl, newest
from tests.kit.pilothouse_server import PilothouseServer
from tests.kit.waiting import eventually

pytestmark = [pytest.mark.long, needs_root]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=160m", "pilothouse-test", folder], check=True)
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def config_map(name: str, size: int) -> str:
    return json.dumps(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"x": "y" * size}}
    )


async def test_a_full_disk(disk: Path, tmp_path: Path) -> None:
    server = PilothouseServer(disk / "server", "sqlite")
    kubectl = Kubectl(newest(), server.target.kubeconfig, tmp_path / "home")
    try:
        reserve = disk / "server" / "data" / "store" / "reserve"

        async def kept_back() -> bool:
            return reserve.exists() and reserve.stat().st_size > 0

        await eventually(kept_back, seconds=60)
        for number in range(3):
            (await kubectl("create", "-f", "-", stdin=config_map(f"old-{number}", 100_000))).ok()
        filling = disk / "filling"
        with filling.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
            _write_on_and_on(file)
        refused = ""
        for number in range(200):
            made = await kubectl("create", "-f", "-", stdin=config_map(f"new-{number}", 100_000))
            if made.code:
                refused = made.err
                break
        assert "disk is full" in refused
        raw = await kubectl("get", "--raw", "/readyz")
        assert raw.code
        assert "[-]store-condition failed: the disk is full" in raw.err
        assert (await kubectl("get", "--raw", "/livez")).ok() == "ok"
        assert "pilothouse_store_full 1" in (await kubectl("get", "--raw", "/metrics")).ok()
        for number in range(3):
            (await kubectl("delete", "configmap", f"old-{number}")).ok()
        (await kubectl("annotate", "namespace", "default", "small=change")).ok()
        filling.unlink()
        (await kubectl("create", "-f", "-", stdin=config_map("after", 100_000))).ok()
        assert (await kubectl("get", "--raw", "/readyz")).ok() == "ok"
        assert "pilothouse_store_full 0" in (await kubectl("get", "--raw", "/metrics")).ok()
    finally:
        server.close()


def _write_on_and_on(file: io.RawIOBase) -> None:
    while True:
        file.write(bytes(1 << 16))
