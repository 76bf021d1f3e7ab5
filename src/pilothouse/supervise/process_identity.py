"""Identifies a process across reboots and pid reuse, by boot id, pid and start time in clock ticks since the
boot.

    identity = identify(pid)
    ...
    with contextlib.closing(ProcessHandle.open(identity)) as handle:    # ProcessGone if it has ended
        handle.signal(signal.SIGTERM)
"""

from __future__ import annotations

import asyncio
import enum
import os
import select
import signal
from pathlib import Path

from msgspec import Struct


class ProcessGone(Exception):
    """The process has ended; its pid may be another's."""


class ProcessIdentity(Struct, frozen=True):
    """One process of one boot of this machine."""

    boot: str
    pid: int
    ticks: int


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def start_ticks(pid: int) -> int | None:
    """The start time of a process; None if there is none. A zombie still counts."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name, in parentheses, may contain parentheses and spaces.
    return int(stat[stat.rindex(b")") + 2 :].split()[19])


class SignalState(enum.Enum):
    """What a process does with a signal."""

    HANDLED = enum.auto()
    BLOCKED = enum.auto()
    """It waits until the process unblocks it, or reads it from a descriptor."""
    DEFAULT = enum.auto()
    """Its default action, or none: the first process of a PID namespace never gets it."""
    ENDED = enum.auto()


def signal_state(pid: int, number: int) -> SignalState:
    try:
        # The process chooses its name, of any bytes.
        status = Path(f"/proc/{pid}/status").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return SignalState.ENDED
    fields = dict(line.split(b":", 1) for line in status.split(b"\n") if b":" in line)

    def has(name: bytes) -> bool:
        return bool(int(fields[name], 16) >> (number - 1) & 1)

    if has(b"SigCgt"):
        return SignalState.HANDLED
    return SignalState.BLOCKED if has(b"SigBlk") or has(b"ShdPnd") or has(b"SigPnd") else SignalState.DEFAULT


def identify(pid: int) -> ProcessIdentity:
    if (ticks := start_ticks(pid)) is None:
        raise ProcessGone(f"there is no process {pid}")
    return ProcessIdentity(boot_id(), pid, ticks)


class ProcessHandle:
    """A process held by a pidfd, so that a reused pid is never meant."""

    def __init__(self, pid: int, descriptor: int) -> None:
        self.pid = pid
        self._descriptor = descriptor

    @classmethod
    def open(cls, identity: ProcessIdentity) -> ProcessHandle:
        """Raises ProcessGone. First the pidfd, then the start time: so a reused pid is noticed."""
        if identity.boot != boot_id():
            raise ProcessGone(f"process {identity.pid} ran before the machine was started again")
        try:
            descriptor = os.pidfd_open(identity.pid)
        except ProcessLookupError:
            raise ProcessGone(f"process {identity.pid} has ended") from None
        if start_ticks(identity.pid) != identity.ticks:
            os.close(descriptor)
            raise ProcessGone(f"process {identity.pid} has ended; its pid belongs to another process")
        return cls(identity.pid, descriptor)

    @classmethod
    def child(cls, pid: int) -> ProcessHandle:
        """A child that hasn't been reaped, whose pid therefore can't be another's."""
        return cls(pid, os.pidfd_open(pid))

    def signal(self, number: int) -> None:
        """Send a signal. Raises ProcessGone once it has been reaped."""
        try:
            signal.pidfd_send_signal(self._descriptor, number)
        except ProcessLookupError:
            raise ProcessGone(f"process {self.pid} has ended") from None

    @property
    def ended(self) -> bool:
        return bool(select.select([self._descriptor], [], [], 0)[0])

    async def wait(self) -> None:
        """Wait until it has ended, whether or not it is our child."""
        loop = asyncio.get_running_loop()
        over = asyncio.Event()
        # A descriptor of this wait's own: a loop has one reader for each, and others may wait too.
        watched = os.dup(self._descriptor)
        loop.add_reader(watched, over.set)
        try:
            await over.wait()
        finally:
            loop.remove_reader(watched)
            os.close(watched)

    def close(self) -> None:
        """Release it. Further waits fail."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
