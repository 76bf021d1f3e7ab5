"""The commands of the quick start, run as they stand, beside the control plane that its first command starts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.kit.control_planes import UpPlane
from tests.kit.docs_commands import QUICK_START, typed


def commands() -> list[str]:
    """What stands after ``$`` in the page, once everything is up."""
    return re.findall(r"^\$ ((?:kubectl|pilothouse why) .+)$", QUICK_START.read_text(), re.M)


@pytest.mark.kubectl
def test_each_command_succeeds_in_order(tmp_path: Path) -> None:
    assert len(commands()) >= 15
    with UpPlane(tmp_path) as plane:
        for command in commands():
            done = typed(command, plane.data, seconds=90)
            assert done.returncode == 0, f"{command}: {done.stderr}"
            assert "PodSecurity" not in done.stderr, f"{command}: {done.stderr}"
