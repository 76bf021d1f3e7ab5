"""A plane takes neither programs nor folders from other users of the machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.kit.containers import needs_root

from pilothouse.app.up import command_of

STRANGER = 12345


def test_no_part_takes_modules_from_the_folder_it_is_started_in(tmp_path: Path) -> None:
    """As root in `/tmp`, where anybody may have put a module of the name of one that we import."""
    for name in ("click", "msgspec", "pilothouse"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("open('taken', 'w'); raise SystemExit(3)")
    for role in ("apiserver", "controller-manager", "node"):
        argv = [*command_of(role)[:4], role, "--help"]
        done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
    assert not (tmp_path / "taken").exists()


@needs_root
@pytest.mark.parametrize("command", ["up", "apiserver"])
def test_a_folder_of_another_user_is_refused(tmp_path: Path, command: str) -> None:
    folder = tmp_path / "data"
    folder.mkdir(mode=0o777)
    os.chown(folder, STRANGER, STRANGER)
    argv = [
        sys.executable,
        "-P",
        "-m",
        "pilothouse",
        command,
        "--data",
        str(folder),
        "--listen",
        "127.0.0.1:0",
    ]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert f"belongs to user {STRANGER}" in done.stderr
    assert list(folder.iterdir()) == []
