"""The commands of ``docs/pod-security.md``, typed beside `pilothouse up`, print what stands there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from tests.kit.control_planes import UpPlane
from tests.kit.docs_commands import ROOT, typed

from pilothouse.app.up import ADMISSION

PAGE = ROOT / "docs" / "pod-security.md"


def sessions() -> list[tuple[str, list[str]]]:
    """Each command, and the lines below it."""
    found: list[tuple[str, list[str]]] = []
    for block in re.findall(r"```console\n(.*?)```", PAGE.read_text(), re.S):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
    return found


@pytest.mark.kubectl
def test_the_commands_print_what_stands_there(tmp_path: Path) -> None:
    assert len(sessions()) >= 8
    with UpPlane(tmp_path) as plane:
        for command, shown in sessions():
            done = typed(command, plane.data, seconds=90)
            # The shell that types them repeats the command on stderr.
            said = [line for line in (done.stderr + done.stdout).splitlines() if not line.startswith("+ ")]
            assert said == shown, command
            assert (done.returncode == 0) == (not shown[0].startswith("Error")), command


def test_the_configuration_of_up_stands_there() -> None:
    _, shown = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.S)
    assert yaml.safe_load(shown) == yaml.safe_load(ADMISSION.read_text())
