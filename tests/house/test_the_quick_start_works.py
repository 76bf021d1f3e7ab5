"""The commands of the quick start, run as they stand, beside the control plane that its first command starts."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.kit import tools
from tests.kit.planes import UpPlane

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "quickstart.md"


def commands() -> list[str]:
    """What stands after ``$`` in the page, once everything is up."""
    return re.findall(r"^\$ ((?:kubectl|pilothouse why) .+)$", PAGE.read_text(), re.M)


@pytest.mark.kubectl
def test_each_command_succeeds_in_order(tmp_path: Path) -> None:
    assert len(commands()) >= 15
    with UpPlane(tmp_path) as plane:
        environment = {
            **os.environ,
            "PATH": f"{tools.find('kubectl').parent}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "KUBECONFIG": str(plane.data / "admin.kubeconfig"),
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
                timeout=90,
                check=False,
            )
            assert done.returncode == 0, f"{command}: {done.stderr}"
