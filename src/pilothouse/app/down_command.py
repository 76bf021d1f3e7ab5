"""``pilothouse down``: stops a running ``up``, or what a killed one left behind.

    bring_down(Path("/var/lib/pilothouse"), keep=False, patience=180, say=print)

It signals the process that holds the folder. While it stops pods that were left running it holds the folder
itself, so that no ``up`` starts meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import Callable
from pathlib import Path

from pilothouse.app import up_state
from pilothouse.app.data_folder import DataFolder
from pilothouse.app.stop_progress import StopProgress
from pilothouse.app.up_state import FolderHolder
from pilothouse.base.clock import SystemClock
from pilothouse.node.machine.shutdown import end_pods
from pilothouse.supervise import containers
from pilothouse.supervise.launch_spec import LaunchError
from pilothouse.supervise.process_identity import ProcessGone, ProcessHandle, ProcessIdentity

_LOOK_SECONDS = 0.05


class NotDown(Exception):
    """Something is still running."""


def bring_down(path: Path, *, keep: bool, patience: float, say: Callable[[str], None]) -> str:
    """Stop everything; returns the result in a line. Raises ``NotDown``, ``StartError``."""
    deadline = time.monotonic() + patience
    progress = StopProgress(DataFolder(path).node, say)
    stopping = _Stopping(path, signal.SIGUSR1 if keep else signal.SIGTERM, patience)
    while True:
        with up_state.free(path) as free:
            if free:
                if not (keep or stopping.keeps):
                    progress.look(time.monotonic())
                return _end_rest(path, stopping, keep=keep, deadline=deadline)
        if time.monotonic() > deadline:
            raise NotDown(stopping.complaint())
        if (holder := up_state.holder(path)) is not None:
            stopping.see(holder)
        if not (keep or stopping.keeps):
            progress.look(time.monotonic())
        time.sleep(_LOOK_SECONDS)


class _Stopping:
    """The stop of the process that holds the folder."""

    def __init__(self, path: Path, number: int, patience: float) -> None:
        self._path = path
        self._number = number
        self._patience = patience
        self._told: ProcessIdentity | None = None
        self.found = False
        """Whether a process held the folder."""
        self.keeps = False
        """Whether the process that was told to stop keeps its pods running."""

    def see(self, holder: FolderHolder) -> None:
        """Ask the holder to stop, once. Raises ``NotDown`` if another process has taken over since."""
        self.found = True
        if holder.process is None or holder.process == self._told or not holder.lives:
            return
        if self._told is not None:
            raise NotDown(
                f"process {self._told.pid} has ended, but another `pilothouse up`, process "
                f"{holder.process.pid}, uses {self._path} now; `pilothouse down --data {self._path}` "
                "stops that one"
            )
        self._told = holder.process
        self.keeps = holder.keep
        try:
            with (
                contextlib.suppress(ProcessGone),
                contextlib.closing(ProcessHandle.open(holder.process)) as handle,
            ):
                handle.signal(self._number)
        except PermissionError:
            raise NotDown(
                f"process {holder.process.pid} belongs to another user: stop it as that user"
            ) from None

    def complaint(self) -> str:
        if self._told is not None and FolderHolder(self._told).lives:
            return f"`pilothouse up`, process {self._told.pid}, did not stop within {self._patience:g} s"
        return f"the processes of `pilothouse up` on {self._path} did not stop within {self._patience:g} s"


def _end_rest(path: Path, stopping: _Stopping, *, keep: bool, deadline: float) -> str:
    """The folder is locked: stop pods that are left running, unless they are to be kept."""
    if keep or stopping.keeps:
        return "down; pods keep running" if stopping.found else f"nothing is running on {path}"
    left = max(1.0, deadline - time.monotonic())
    try:
        ended = asyncio.run(end_pods(DataFolder(path).node, containers, SystemClock(), patience=left))
    except (containers.StillRunning, LaunchError, OSError) as problem:
        raise NotDown(str(problem)) from None
    if not stopping.found and not ended:
        return f"nothing is running on {path}"
    return f"down; stopped {ended} containers that were left running" if ended else "down"
