"""Running a suite once more as an ordinary user: ``nobody``, with a folder of its own.

with ordinary_folder() as folder:
    run_as_nobody(folder, "tests/supervise")
"""

from __future__ import annotations

import os
import pwd
import shutil
import site
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def interpreter(user: pwd.struct_passwd) -> str:
    """One of our version that the user may execute: ours, or the system's."""
    wanted = "import sys; print(sys.version_info[:2])"
    for candidate in (sys.executable, f"/usr/bin/python3.{sys.version_info.minor}"):
        if shutil.which(candidate):
            try:
                said = subprocess.run(
                    [candidate, "-c", wanted], user=user.pw_uid, stdout=subprocess.PIPE, text=True
                )
            except PermissionError:
                continue
            if said.stdout.strip() == str(sys.version_info[:2]):
                return candidate
    pytest.skip(
        f"no Python 3.{sys.version_info.minor} that an ordinary user may execute; Debian has one as python3"
    )


@contextmanager
def ordinary_folder() -> Iterator[Path]:
    """A folder that nobody may reach: those above a test's own are for us alone, and every run of pytest sees to it again."""
    user = pwd.getpwnam("nobody")
    with tempfile.TemporaryDirectory(prefix="pilothouse-ordinary-") as folder:
        os.chown(folder, user.pw_uid, user.pw_gid)
        yield Path(folder)


def _owned_interpreter(work: Path, user: pwd.struct_passwd) -> str:
    """An interpreter that belongs to the user, as one in a home folder does: the harder case for what contains its containers."""
    home = work / "python"
    if not home.exists():
        command = [interpreter(user), "-m", "venv", "--copies", "--without-pip", str(home)]
        subprocess.run(command, user=user.pw_uid, group=user.pw_gid, extra_groups=(), check=True)
    return str(home / "bin" / "python3")


def run_as_nobody(work: Path, *arguments: str) -> None:
    """Raises AssertionError with the end of what the suite said, unless it passes."""
    user = pwd.getpwnam("nobody")
    done = subprocess.run(
        [
            _owned_interpreter(work, user),
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-m",
            "not long",
            f"--basetemp={work}/t",
            *arguments,
        ],
        user=user.pw_uid,
        group=user.pw_gid,
        extra_groups=(),
        cwd=ROOT,
        env={
            "PATH": "/usr/bin:/bin",
            "HOME": str(work),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": ":".join([str(ROOT), str(ROOT / "src"), *site.getsitepackages()]),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:]
    assert " passed" in done.stdout or "%]" in done.stdout
