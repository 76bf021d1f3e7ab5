"""Whoever runs the controllers of a server: `pilothouse controller-manager` for ours, the real one for kube-apiserver.

with manager(target, folder, theirs=("statefulset-controller",)):
    …
"""

from __future__ import annotations

import contextlib
import sys
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
    argv = [sys.executable, "-m", "pilothouse", "controller-manager", "--no-leader-elect"]
    argv += ["--kubeconfig", str(target.kubeconfig)]
    process = Process.start("pilothouse controller-manager", argv, log=folder / "controller-manager.log")
    try:
        yield process
    finally:
        process.end(seconds=5)
