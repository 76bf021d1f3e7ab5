"""Child processes of a test run: started with a log file, waited for by a condition, ended by their own pid.

    etcd = Process.start("etcd", [str(binary), "--data-dir", …], log=folder / "etcd.log")
    etcd.wait_until(answers, seconds=20)
    …
    etcd.end()

A process that dies while it is waited for fails the wait at once, with the end of its log: a test never times out
on a server that said long ago why it could not start.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

TAIL = 3000


class ProcessFailed(Exception):
    """A child process ended, or did not become ready, when it was needed."""


def free_port() -> int:
    """A TCP port of the loopback address that nobody listens on at this moment.

    Below those that the kernel gives to connections, which would take it until it is listened on.
    """
    while True:
        port = random.randrange(12_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


@dataclass(frozen=True)
class Process:
    """A running child and where its output goes."""

    name: str
    popen: subprocess.Popen[bytes]
    log: Path

    @classmethod
    def start(
        cls, name: str, argv: Sequence[str], *, log: Path, env: Mapping[str, str] | None = None
    ) -> Process:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            popen = subprocess.Popen(
                [*_tied_to_us(), *argv],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=dict(os.environ) | dict(env or {}),
            )
        return cls(name, popen, log)

    @property
    def pid(self) -> int:
        return self.popen.pid

    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def wait_until(self, ready: Callable[[], T | None], *, seconds: float) -> T:
        """Poll `ready` until it gives something true."""
        deadline = time.monotonic() + seconds
        while not (found := ready()):
            if (status := self.popen.poll()) is not None:
                raise ProcessFailed(f"{self.name} exited with status {status}:\n{self.output()[-TAIL:]}")
            if time.monotonic() > deadline:
                raise ProcessFailed(f"{self.name} was not ready in {seconds} s:\n{self.output()[-TAIL:]}")
            time.sleep(0.02)
        return found

    def end(self, *, seconds: float = 10) -> int:
        """Ask it to go, and make it go when it does not; returns its exit status."""
        if self.popen.poll() is None:
            self.popen.send_signal(signal.SIGTERM)
            try:
                return self.popen.wait(seconds)
            except subprocess.TimeoutExpired:
                self.kill()
        return self.popen.wait()

    def kill(self) -> None:
        """End it without a chance to tidy up."""
        with contextlib.suppress(ProcessLookupError):
            self.popen.kill()
        self.popen.wait()


def _tied_to_us() -> list[str]:
    """Words before a command that end it when the test run itself is killed, where the system has them."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []
