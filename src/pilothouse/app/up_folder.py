"""What ``up`` leaves in the data folder for ``down``, ``status`` and the next ``up``: that it runs, and how it is doing.

    with held(folder) as lock: ...          # AlreadyRunning if another `up` has it
    write(folder, Report(...))
    running(folder)                         # the report of one that runs, else None

The lock is held by ``up`` and by each of its roles. So the folder is not free before the last of them has ended, even when
``up`` itself was killed; whoever finds a report without a lock knows that it is of one that is no more.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from pilothouse.app.options import StartError
from pilothouse.pki.files import write_private

_LOCK, _REPORT = "up.lock", "up.json"


@dataclass(frozen=True)
class RoleReport:
    """One of the processes."""

    name: str
    state: str
    pid: int
    since: float
    starts: int


@dataclass(frozen=True)
class Report:
    """An ``up`` at one moment."""

    pid: int
    since: float
    url: str
    node: str
    keep: bool
    ready: float
    """Seconds from its beginning until the node was ready; 0 before that."""
    roles: tuple[RoleReport, ...]


class AlreadyRunning(StartError):
    """Somebody else has the folder."""


@contextmanager
def held(folder: Path, *, patience: float) -> Iterator[int]:
    """The descriptor of the lock, held within the context. What the last ``up`` left behind gets ``patience`` seconds to end.

    Raises ``AlreadyRunning``.
    """
    descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        deadline = time.monotonic() + patience
        while not _taken(descriptor):
            report = _read(folder)
            if report is not None and Path(f"/proc/{report.pid}").exists():
                raise AlreadyRunning(
                    f"pilothouse is up on {folder} already, as process {report.pid}: `pilothouse status --data {folder}` "
                    f"shows it, `pilothouse down --data {folder}` stops it"
                )
            if time.monotonic() > deadline:
                raise AlreadyRunning(
                    f"something of an earlier `pilothouse up` on {folder} has not ended in {patience:g} s; "
                    f"`fuser {folder / _LOCK}` names it"
                )
            time.sleep(0.05)
        yield descriptor
    finally:
        os.close(descriptor)


def write(folder: Path, report: Report) -> None:
    write_private(folder / _REPORT, json.dumps(asdict(report), indent=2).encode() + b"\n")


def remove(folder: Path) -> None:
    (folder / _REPORT).unlink(missing_ok=True)


def running(folder: Path) -> Report | None:
    """The report of the ``up`` that has the folder; None if there is none."""
    try:
        descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except PermissionError:
        raise StartError(f"{folder} belongs to another user; ask as that user") from None
    try:
        return None if _taken(descriptor) else _read(folder)
    finally:
        os.close(descriptor)


def _taken(descriptor: int) -> bool:
    """Whether the lock is ours now."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read(folder: Path) -> Report | None:
    try:
        told = json.loads((folder / _REPORT).read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    return Report(**{**told, "roles": tuple(RoleReport(**each) for each in told["roles"])})
