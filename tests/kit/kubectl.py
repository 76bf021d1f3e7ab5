"""Every kubectl on this machine, and a way to run one against a target.

    for binary in installed():           # kubectl.1.27 … kubectl.1.33 beside the one on PATH, and that one
        kubectl = Kubectl(binary, target.kubeconfig, home)
        (await kubectl("get", "db", "-n", ns)).out

Some installed kubectls are a dispatcher that runs the version beside it which fits the server: it counts as one more.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
import re
import subprocess
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from tests.kit import tools

PATIENCE = 60.0


@dataclass(frozen=True)
class Binary:
    """A kubectl program; `version` is `1.32`, or `default` for the one on PATH where there are others beside it."""

    version: str
    path: Path

    @property
    def minor(self) -> int:
        return int(self.version.partition(".")[2] or 0)


def installed() -> list[Binary]:
    """The kubectls found, oldest first, the one on PATH last; empty when there is none."""
    try:
        default = tools.find("kubectl")
    except tools.MissingTool:
        return []
    beside: dict[str, Path] = {}
    for folder in (default.parent, default.resolve().parent):
        for path in folder.glob("kubectl.1.*"):
            if re.fullmatch(r"kubectl\.1\.\d+", path.name) and os.access(path, os.X_OK):
                beside[path.name.removeprefix("kubectl.")] = path
    versioned = sorted((Binary(version, path) for version, path in beside.items()), key=lambda b: b.minor)
    if not versioned:
        return [Binary(_version(default), default)]
    return [*versioned, Binary("default", default)]


@functools.cache
def _version(path: Path) -> str:
    """Its own, such as 1.33."""
    said = subprocess.run(
        [path, "version", "--client", "-o", "json"], capture_output=True, check=True, timeout=60
    )
    known = json.loads(said.stdout)["clientVersion"]
    return f"{known['major']}.{known['minor'].rstrip('+')}"


def newest() -> Binary:
    found = installed()
    if not found:
        return Binary("default", tools.find("kubectl"))
    return max(found, key=lambda binary: binary.minor)


@dataclass(frozen=True)
class Output:
    """What a command printed and returned."""

    code: int
    out: str
    err: str

    def ok(self) -> str:
        """Its standard output, once it succeeded."""
        if self.code != 0:
            raise AssertionError(f"exit status {self.code}\n{self.out}\n{self.err}")
        return self.out

    def rows(self) -> list[list[str]]:
        """The words of each line of a table, its header first."""
        return [re.split(r"\s{2,}", line.strip()) for line in self.ok().splitlines()]


@dataclass(frozen=True)
class Kubectl:
    """One kubectl with one kubeconfig; `home` holds its discovery cache and its temporary files."""

    binary: Binary
    kubeconfig: Path
    home: Path

    async def __call__(
        self, *args: str, stdin: str = "", editor: str = "", folder: Path | None = None
    ) -> Output:
        """Run to the end, in `folder` where one is given."""
        async with self.started(*args, editor=editor, folder=folder) as process:
            try:
                out, err = await asyncio.wait_for(process.communicate(stdin.encode()), PATIENCE)
            except TimeoutError:
                process.kill()
                out, err = await process.communicate()
                raise AssertionError(f"kubectl {' '.join(args)} hung:\n{out!r}\n{err!r}") from None
        return Output(process.returncode or 0, out.decode(), err.decode())

    @contextlib.asynccontextmanager
    async def started(
        self, *args: str, editor: str = "", folder: Path | None = None
    ) -> AsyncIterator[asyncio.subprocess.Process]:
        """A running kubectl, ended with the block."""
        self.home.mkdir(parents=True, exist_ok=True)
        env = {
            "HOME": str(self.home),
            "TMPDIR": str(self.home),
            "PATH": os.environ["PATH"],
            "KUBECONFIG": str(self.kubeconfig),
        }
        if editor:
            env["KUBE_EDITOR"] = editor
        process = await asyncio.create_subprocess_exec(
            str(self.binary.path),
            *args,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=env,
            cwd=folder,
        )
        try:
            yield process
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
