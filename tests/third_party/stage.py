"""Where a program that others wrote is run: a control plane, a namespace of it, and a folder.

with stage.running(needed("kube-rs-controller")) as controller:
    await prints(controller, "established .*")
    await stage.apply(tree)
    await stage.read("configmap", "hello")          # None while it is not there
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.kit import tools
from tests.kit.control_planes import UpPlane
from tests.kit.processes import Process
from tests.kit.waiting import eventually

TAIL = 3000

Tree = dict[str, Any]


@dataclass(frozen=True)
class Stage:
    plane: UpPlane
    namespace: str
    folder: Path

    @property
    def kubeconfig(self) -> Path:
        return self.plane.data / "admin.kubeconfig"

    async def kubectl(self, *arguments: str, stdin: str = "") -> str:
        """What a command printed, which has to succeed."""
        return (await self.plane.kubectl(*arguments, "--namespace", self.namespace, stdin=stdin)).ok()

    async def read(self, *what: str) -> Tree | None:
        """An object, or a list of them; None while there is none."""
        done = await self.plane.kubectl("get", *what, "--namespace", self.namespace, "-o", "json")
        if done.code != 0:
            assert "NotFound" in done.err, done.err
            return None
        found: Tree = json.loads(done.out)
        return found

    async def appears(self, *what: str, seconds: float = 60) -> Tree:
        """The object, once it is there."""
        return await eventually(lambda: self.read(*what), seconds=seconds)

    async def disappears(self, *what: str, seconds: float = 60) -> None:
        async def is_gone() -> bool:
            return await self.read(*what) is None

        await eventually(is_gone, seconds=seconds)

    async def apply(self, *objects: Tree) -> None:
        tree = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        await self.kubectl("apply", "-f", "-", stdin=json.dumps(tree))

    @contextmanager
    def running(self, program: Path, *arguments: str, name: str = "") -> Iterator[Process]:
        """A program, until the end of the block. It gets the kubeconfig, and a home in which nothing is."""
        name = name or program.name
        env = {"KUBECONFIG": str(self.kubeconfig), "HOME": str(self.folder), "PATH": os.environ["PATH"]}
        argv = [str(program), *arguments]
        process = Process.start(name, argv, log=self.folder / f"{name}.log", env=env)
        try:
            yield process
        finally:
            process.end()

    async def run(self, program: Path, *arguments: str, seconds: float = 180) -> tuple[int, str]:
        """A program to its end: its exit status and what it printed."""
        earlier = len(list(self.folder.glob(f"{program.name}-*.log")))
        with self.running(program, *arguments, name=f"{program.name}-{earlier}") as process:
            code = await asyncio.to_thread(process.popen.wait, seconds)
            return code, process.output()


def needed(program: str) -> Path:
    """Where it is; skips the test if it is not on this machine, and says how it would come here."""
    try:
        return tools.find(program)
    except tools.MissingTool as missing:
        pytest.skip(str(missing))


async def prints(process: Process, line: str, seconds: float = 60) -> str:
    """All that a program has printed, once one of its lines fits a pattern."""

    async def printed() -> str | None:
        output = process.output()
        if re.search(f"^{line}$", output, re.MULTILINE):
            return output
        assert process.popen.poll() is None, f"{process.name} ended:\n{output[-TAIL:]}"
        return None

    try:
        return await eventually(printed, seconds=seconds)
    except AssertionError as error:
        raise AssertionError(f"no line {line!r} yet:\n{process.output()[-TAIL:]}") from error
