"""Containers for tests: started in the test's own folder, all gone when it ends.

async def test_...(box: Box) -> None:
    container = await box.shell("echo hello; exit 3")
    assert (await container.exited()).code == 3
    assert box.output(container) == ["hello"]
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.kit.waiting import eventually

import pilothouse
from pilothouse.supervise.containers import Container, adopt, start
from pilothouse.supervise.launch_spec import FilesystemView, LaunchSpec, LogPolicy, Mount

ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C"}
PLAIN_VIEW = FilesystemView(hostname="box")
REPOSITORY = str(Path(__file__).parents[2])
INSTALLATION = (
    sys.prefix,
    sys.base_prefix,
    sys.executable,
    str(Path(pilothouse.__file__).parent),
    REPOSITORY,
)
"""What a program of a test needs to import this project and its tests."""

needs_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="it mounts a filesystem or becomes another user, which only root may"
)
needs_ordinary_user = pytest.mark.skipif(
    os.geteuid() == 0,
    reason="root is refused nothing of this; tests/supervise/test_an_ordinary_user_runs_containers.py runs it as nobody",
)


@dataclass(frozen=True)
class Line:
    """A record of a log."""

    time: str
    stream: str
    whole: bool
    text: str


class Box:
    """Starts containers below one folder. `view` is what those get that don't say."""

    def __init__(self, folder: Path, view: FilesystemView | None) -> None:
        self.folder = folder
        self.view = view
        self._names = (f"c{number}" for number in itertools.count())

    def launch(self, folder: Path, argv: tuple[str, ...], **fields: Any) -> LaunchSpec:
        fields.setdefault("view", self.view)
        fields.setdefault("env", ENV)
        fields.setdefault("log", LogPolicy(str(folder / "log")))
        return LaunchSpec(argv=argv, **fields)

    async def run(self, *argv: str, folder: Path | None = None, **fields: Any) -> Container:
        where = self.folder / next(self._names) if folder is None else folder
        return await start(where, self.launch(where, argv, **fields))

    async def shell(self, script: str, **fields: Any) -> Container:
        return await self.run("/bin/sh", "-c", script, **fields)

    def lines(self, container: Container) -> list[Line]:
        """All that is in its log, oldest file first."""
        return read_log(container.folder / "log")

    def output(self, container: Container, stream: str = "stdout") -> list[str]:
        return [line.text for line in self.lines(container) if line.stream == stream]

    async def says(self, container: Container, text: str, *, seconds: float = 60) -> None:
        """Wait until it has printed such a line."""

        async def said() -> bool:
            return text in self.output(container)

        await eventually(said, seconds=seconds)

    async def clear(self) -> None:
        """End whatever was started here."""
        for folder in [path.parent for path in self.folder.rglob("launch.json")]:
            found = await adopt(folder)
            if isinstance(found, Container):
                await found.stop(signal.SIGKILL, 0)


def read_log(path: Path) -> list[Line]:
    older = sorted(path.parent.glob(path.name + ".*"), key=lambda each: -int(each.suffix[1:]))
    found = []
    for file in (*older, path):
        for line in file.read_bytes().decode(errors="surrogateescape").split("\n")[:-1]:
            time, stream, mark, text = line.split(" ", 3)
            assert mark in "FP", line
            found.append(Line(time, stream, mark == "F", text))
    return found


def alive_with(marker: str) -> list[int]:
    """Processes, zombies apart, whose environment or command has `marker` in it."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            if marker.encode() in (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return found


def zombies_of(pid: int) -> list[int]:
    """Dead children of a process that it has not buried."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if fields[0] == "Z" and int(fields[1]) == pid:
                    found.append(int(entry.name))
    return found


@pytest.fixture(params=["plain", "view"])
async def box(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Box]:
    """Every test of what holds for any container runs twice: on the bare machine, and in a view of its own."""
    inside = with_mounts(PLAIN_VIEW, machine=INSTALLATION, mounts=(Mount(str(tmp_path), str(tmp_path)),))
    box = Box(tmp_path, inside if request.param == "view" else None)
    yield box
    await box.clear()


@pytest.fixture
async def views(tmp_path: Path) -> AsyncIterator[Box]:
    """For what only a view has."""
    box = Box(tmp_path, PLAIN_VIEW)
    yield box
    await box.clear()


@pytest.fixture
async def bare(tmp_path: Path) -> AsyncIterator[Box]:
    """For what only a container without a view has."""
    box = Box(tmp_path, None)
    yield box
    await box.clear()


def with_mounts(view: FilesystemView, **fields: Any) -> FilesystemView:
    return msgspec.structs.replace(view, **fields)


def can(program: str) -> bool:
    return shutil.which(program) is not None
