"""The commands of the quick start, run as they stand."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from tests.cli.running import Server
from tests.kit import tools

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "quickstart.md"


def commands() -> list[str]:
    """What stands after ``$ kubectl`` in the page."""
    return re.findall(r"^\$ (kubectl .+)$", PAGE.read_text(), re.M)


@pytest.mark.kubectl
def test_each_command_succeeds_in_order(tmp_path):
    assert len(commands()) >= 5
    with Server(tmp_path / "data") as server:
        environment = {
            **os.environ,
            "PATH": f"{tools.find('kubectl').parent}:{os.environ['PATH']}",
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
