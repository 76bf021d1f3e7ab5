"""The commands of the quick start, run as they stand, beside a server and a controller-manager."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.cli.running import Server
from tests.kit import tools
from tests.kit.managers import started

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "quickstart.md"


def commands() -> list[str]:
    """What stands after ``$`` in the page, once a server and a manager run."""
    return re.findall(r"^\$ ((?:kubectl|pilothouse why) .+)$", PAGE.read_text(), re.M)


@contextmanager
def manager(data: Path, folder: Path) -> Iterator[None]:
    process = started(data / "controller-manager.kubeconfig", folder)
    try:
        yield
    finally:
        process.end()


@pytest.mark.kubectl
def test_each_command_succeeds_in_order(tmp_path):
    assert len(commands()) >= 5
    with Server(tmp_path / "data") as server, manager(server.kubeconfig.parent, tmp_path):
        environment = {
            **os.environ,
            "PATH": f"{tools.find('kubectl').parent}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "KUBECONFIG": str(server.kubeconfig),
            "HOME": str(tmp_path),
        }
        for command in commands():
            done = subprocess.run(
                command,
                shell=True,
                cwd=ROOT,
                env=environment,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            assert done.returncode == 0, f"{command}: {done.stderr}"
