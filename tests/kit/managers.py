"""Whoever runs the controllers of a server: `pilothouse controller-manager` for ours, the real one for kube-apiserver.

with manager(target, folder, theirs=("statefulset-controller",)):
    …
process = started(target.kubeconfig, folder, "--leader-elect-lease-duration=2s")
shown(process, "/readyz")
"""

from __future__ import annotations

import contextlib
import re
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from tests.kit import kube
from tests.kit.processes import Process
from tests.kit.servers import Target


@contextlib.contextmanager
def manager(target: Target, folder: Path, *, theirs: tuple[str, ...]) -> Iterator[Process]:
    """All of our controllers, or these of Kubernetes'."""
    if target.name == kube.NAME:
        with kube.controller_manager(target, folder, controllers=theirs) as process:
            yield process
        return
    process = started(target.kubeconfig, folder, "--no-leader-elect")
    try:
        yield process
    finally:
        process.end(seconds=5)


def started(kubeconfig: Path, folder: Path, *flags: str) -> Process:
    """`pilothouse controller-manager`, which has said where its pages are. Whoever asked for it ends it."""
    argv = [sys.executable, "-m", "pilothouse", "controller-manager", "--kubeconfig", str(kubeconfig), *flags]
    process = Process.start("pilothouse controller-manager", argv, log=folder / "controller-manager.log")
    try:
        process.wait_until(lambda: _address(process), seconds=60)
    except BaseException:
        process.kill()
        raise
    return process


def shown(process: Process, path: str) -> tuple[int, str]:
    """The status and the text of one of its pages."""
    try:
        with urllib.request.urlopen(_address(process) + path, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()


def _address(process: Process) -> str:
    said = re.search(r"health and metrics are at (http://\S+)\n", process.output())
    return said[1] if said else ""
