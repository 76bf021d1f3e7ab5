"""Identifies a process across reboots and pid reuse, by boot id, pid and start time.

    identity = identify(pid)
    ...
    with contextlib.closing(ProcessHandle.open(identity)) as handle:      # ProcessGone if that process has ended
        handle.signal(signal.SIGTERM)

The start time is in clock ticks since the boot. An identity can be stored and looked up after a restart: a reused pid and a pid of an
earlier boot are both recognised.
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
    """The process has ended; if there is one with its pid, it is another."""


class ProcessIdentity(Struct, frozen=True):
    """One process of one boot of this machine."""

    boot: str
    pid: int
    ticks: int


def boot_id() -> str:
    """What tells this boot of the machine from all others."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def start_ticks(pid: int) -> int | None:
    """When a process began; None if there is none. A zombie still counts."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name, in parentheses, may hold anything, parentheses and spaces too.
    return int(stat[stat.rindex(b")") + 2 :].split()[19])


class SignalState(enum.Enum):
    """What becomes of a signal that is sent to a process."""

    HANDLED = enum.auto()
    BLOCKED = enum.auto()
    """It waits until the process unblocks it, or reads it from a descriptor."""
    DEFAULT = enum.auto()
    """Its default action, or nothing: the first process of a PID namespace never gets it."""
    ENDED = enum.auto()
    """There is no such process any more."""


def signal_state(pid: int, number: int) -> SignalState:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return SignalState.ENDED
    fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)

    def has(name: str) -> bool:
        return bool(int(fields[name], 16) >> (number - 1) & 1)

    if has("SigCgt"):
        return SignalState.HANDLED
    return SignalState.BLOCKED if has("SigBlk") or has("ShdPnd") or has("SigPnd") else SignalState.DEFAULT


def identify(pid: int) -> ProcessIdentity:
    """The identity of a running process."""
    if (ticks := start_ticks(pid)) is None:
        raise ProcessGone(f"there is no process {pid}")
    return ProcessIdentity(boot_id(), pid, ticks)


class ProcessHandle:
    """A hold on one process, by pidfd: what is done through it never meets another."""

    def __init__(self, pid: int, descriptor: int) -> None:
        self.pid = pid
        self._descriptor = descriptor

    @classmethod
    def open(cls, identity: ProcessIdentity) -> ProcessHandle:
        """Raises ProcessGone. The order matters: once the pidfd is open, the pid can't be given to another unnoticed."""
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
        """A child of ours that hasn't been reaped, whose pid therefore can't be another's."""
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
        """Until it has ended, whether or not it is our child."""
        loop = asyncio.get_running_loop()
        over = asyncio.Event()
        # A descriptor of this wait's own: a loop holds one reader each, and others may wait too.
        watched = os.dup(self._descriptor)
        loop.add_reader(watched, over.set)
        try:
            await over.wait()
        finally:
            loop.remove_reader(watched)
            os.close(watched)

    def close(self) -> None:
        """Let go. Further waits fail."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
