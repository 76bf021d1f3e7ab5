"""``pilothouse down``: what an ``up`` elsewhere runs is stopped, and so is what a killed one left behind.

bring_down(Path("/var/lib/pilothouse"), keep=False, patience=180)
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import time
from pathlib import Path

from pilothouse.app import up_folder
from pilothouse.app.data_folder import DataFolder
from pilothouse.base.clock import SystemClock
from pilothouse.node.leaving import end_pods
from pilothouse.supervise import containers


class NotDown(Exception):
    """Something still runs."""


def bring_down(path: Path, *, keep: bool, patience: float) -> str:
    """What was done, in a line. Raises ``NotDown``, ``StartError``."""
    folder = DataFolder(path)
    deadline = time.monotonic() + patience
    report = up_folder.running(path)
    if report is not None:
        _end(report.pid, signal.SIGUSR1 if keep else signal.SIGTERM, patience)
        while up_folder.running(path) is not None:
            if time.monotonic() > deadline:
                raise NotDown(f"what `pilothouse up` runs on {path} has not ended in {patience:g} s")
            time.sleep(0.05)
    if keep or (report is not None and report.keep):
        return "down; pods go on running" if report is not None else f"nothing is up on {path}"
    left = max(1.0, deadline - time.monotonic())
    try:
        ended = asyncio.run(end_pods(folder.node, containers, SystemClock(), patience=left))
    except containers.StillRunning as problem:
        raise NotDown(str(problem)) from None
    if report is None and not ended:
        return f"nothing is up on {path}"
    return f"down; {ended} containers that nobody looked after were stopped" if ended else "down"


def _end(pid: int, number: int, patience: float) -> None:
    """Signal a process, and wait until it is gone."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        signal.pidfd_send_signal(handle, number)
        ended, _, _ = select.select([handle], [], [], patience)
    except ProcessLookupError:
        return
    except PermissionError:
        raise NotDown(f"process {pid} is another user's: stop it as that user") from None
    finally:
        os.close(handle)
    if not ended:
        raise NotDown(f"`pilothouse up`, process {pid}, has not ended in {patience:g} s")
