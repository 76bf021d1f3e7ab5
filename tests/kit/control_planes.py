"""Whole control planes, as `pilothouse up` runs them.

    with UpPlane(folder) as plane:                  # ready on entry; stopped, pods too, at the end
        await plane.kubectl("get", "nodes")
        plane.report["roles"]
        plane.stop(signal.SIGINT)
        plane.start()                               # on the same data

A plane that a test left in any state is brought down by `pilothouse down`, so that no pod outlives it.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.kit.kubectl import Kubectl, newest
from tests.kit.processes import Process

import pilothouse

NOBODY = 65534
_BROUGHT_DOWN = 60


class UpPlane:
    """`pilothouse up` on a folder."""

    def __init__(
        self,
        folder: Path,
        *flags: str,
        command: Sequence[str] = (sys.executable, "-m", "pilothouse"),
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.data = folder / "data"
        self._flags = flags
        self._command = tuple(command)
        self._env = env or {}
        self._starts = 0
        self.process: Process | None = None

    def __enter__(self) -> UpPlane:
        try:
            self.start()
        except BaseException:
            self.down()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.down()

    def start(self, *flags: str) -> None:
        """Another process on the same data; ready on return."""
        self.begin(*flags)
        assert self.process is not None
        process = self.process
        process.wait_until(lambda: "Pilothouse is up at" in process.output(), seconds=60)

    def begin(self, *flags: str) -> Process:
        """The same, without waiting."""
        self._starts += 1
        listen = ("--listen", "127.0.0.1:0")
        argv = [*self._command, "up", "--data", str(self.data), *listen, "--name", "n1", *self._flags, *flags]
        log = self.folder / f"up-{self._starts}.log"
        self.process = Process.start("pilothouse up", argv, log=log, env=self._env)
        return self.process

    @property
    def output(self) -> str:
        assert self.process is not None
        return self.process.output()

    @property
    def report(self) -> dict[str, Any]:
        """What `up` says of itself."""
        told: dict[str, Any] = json.loads((self.data / "up.json").read_text())
        return told

    def role(self, name: str) -> dict[str, Any]:
        [found] = [each for each in self.report["roles"] if each["name"] == name]
        return dict(found)

    @property
    def kubectl(self) -> Kubectl:
        return Kubectl(newest(), self.data / "admin.kubeconfig", self.folder / "home")

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Signal it, and wait for its end; its exit status."""
        assert self.process is not None
        self.process.popen.send_signal(number)
        return self.process.popen.wait(_BROUGHT_DOWN)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Another command of the same program, as the same user, on the same data."""
        return subprocess.run(
            [*self._command, *arguments, "--data", str(self.data)],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env={**os.environ, **self._env},
        )

    def down(self) -> None:
        """Nothing of it is left running."""
        done = self.run("down", "--timeout", str(_BROUGHT_DOWN))
        if self.process is not None:
            self.process.end()
        assert done.returncode == 0, done.stderr


@contextmanager
def as_ordinary_user() -> Iterator[tuple[Path, list[str], dict[str, str]]]:
    """A folder, the words and the environment with which a user without privileges runs the program. Skips where none can be had."""
    if os.geteuid() != 0:
        with tempfile.TemporaryDirectory() as name:
            yield Path(name), [sys.executable, "-m", "pilothouse"], _home(name)
        return
    if shutil.which("setpriv") is None:
        pytest.skip("setpriv (of util-linux) is needed to run something as another user")
    words = [
        "setpriv",
        "--reuid",
        str(NOBODY),
        "--regid",
        str(NOBODY),
        "--clear-groups",
        "--",
        _interpreter(),
    ]
    packages = f"{Path(pilothouse.__file__).parent.parent}:{sysconfig.get_path('purelib')}"
    # Not pytest's own folder: into that one its owner alone may look.
    with tempfile.TemporaryDirectory() as name:
        os.chown(name, NOBODY, NOBODY)
        yield Path(name), [*words, "-m", "pilothouse"], _home(name, PYTHONPATH=packages)


def _home(name: str, **more: str) -> dict[str, str]:
    """The environment of somebody at home there, whose planes nobody else's commands find."""
    return {**more, "HOME": name, "PILOTHOUSE_RUNTIME_DIR": f"{name}/run"}


def _interpreter() -> str:
    """A Python of the same version that everybody may run, and from there all packages."""
    for folder in Path(pilothouse.__file__).resolve().parents:
        if not folder.stat().st_mode & stat.S_IXOTH:
            pytest.skip(f"other users may not look into {folder}")
    name = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    for candidate in (sys.executable, f"/usr/bin/{name}", f"/usr/local/bin/{name}"):
        found = Path(candidate).resolve()
        if found.exists() and all(each.stat().st_mode & stat.S_IXOTH for each in (found, *found.parents)):
            return candidate
    pytest.skip(f"other users may not run {sys.executable}, and there is no other {name}")
