"""A data folder that can't be written: each command says so in a line, or does what it can without writing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kit.containers import needs_root

from pilothouse.app.data_folder import DataFolder

pytestmark = needs_root


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o"]
    subprocess.run([*mount, "size=4m", "pilothouse-test", disk], check=True)
    DataFolder.open(disk / "data")
    (disk / "data" / "up.lock").touch(mode=0o600)
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    yield disk / "data"
    subprocess.run(["umount", "-l", disk], check=True)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "pilothouse", *arguments]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("command", ["up", "apiserver"])
def test_what_writes_says_why_it_cant(data: Path, command: str) -> None:
    done = run(command, "--data", str(data), "--listen", "127.0.0.1:0")
    assert done.returncode == 1
    assert done.stderr == f"Error: the data folder {data} can't be used: Read-only file system\n"


@pytest.mark.parametrize("command", ["status", "down"])
def test_what_only_looks_does_so(data: Path, command: str) -> None:
    done = run(command, "--data", str(data))
    assert done.stderr == ""
    assert done.stdout.startswith(f"nothing is running on {data}")
