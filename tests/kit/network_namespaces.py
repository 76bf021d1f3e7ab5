"""Machines in a bottle: network namespaces of the test's own, joined by a bridge that exists in them only.

    with machines(3) as lan:
        lan.address                              # 10.77.0.1: where this process is reached
        lan[0].address                           # 10.77.0.11
        lan[0].run("ping", "-c1", lan[1].address)
        process = Process.start("node", [*lan[0].inside, sys.executable, "-m", "pilothouse", "node", …], log=…)
        lan[0].cut_off(); lan[0].heal()

Within the context this thread, and every process and thread that it starts, is in a network of its own, in which nothing of the
real machine's network can be seen, and which is gone afterwards. It takes root; elsewhere ``missing`` says why not.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache

_NEW_NETWORK = 0x40000000
_NETWORK = "10.77.0"


@cache
def missing() -> str:
    """Why there can be no such machines here; empty if there can."""
    for program in ("ip", "nsenter", "unshare"):
        if shutil.which(program) is None:
            return f"{program} is not there (Debian: apt-get install iproute2 util-linux)"
    tried = subprocess.run(
        ["unshare", "--net", "ip", "link", "add", "veth-a", "type", "veth", "peer", "name", "veth-b"],
        capture_output=True,
        text=True,
        check=False,
    )
    return "" if tried.returncode == 0 else f"network namespaces can't be made: {tried.stderr.strip()}"


@dataclass(frozen=True)
class Machine:
    """A network namespace with an address, behind a link that can be cut."""

    name: str
    address: str
    link: str
    """Our end of it."""
    holding: subprocess.Popen[bytes]

    @property
    def inside(self) -> list[str]:
        """The words before a command that has it run there."""
        return ["nsenter", f"--net=/proc/{self.holding.pid}/ns/net", "--"]

    def run(self, *words: str, seconds: float = 20) -> str:
        """What a command says that is run there; ``subprocess.CalledProcessError`` if it fails."""
        done = subprocess.run(
            [*self.inside, *words], capture_output=True, text=True, check=True, timeout=seconds
        )
        return done.stdout

    def cut_off(self) -> None:
        """Nothing comes in or goes out."""
        _ip("link", "set", self.link, "down")

    def heal(self) -> None:
        _ip("link", "set", self.link, "up")


@dataclass
class Lan:
    """Machines that reach one another and us."""

    address: str
    machines: list[Machine] = field(default_factory=list)

    def __getitem__(self, number: int) -> Machine:
        return self.machines[number]

    def __iter__(self) -> Iterator[Machine]:
        return iter(self.machines)


@contextlib.contextmanager
def own_network() -> Iterator[None]:
    """Within it, this thread and what it starts have a loopback device and nothing else."""
    libc = ctypes.CDLL(None, use_errno=True)
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        if libc.unshare(_NEW_NETWORK):
            raise OSError(ctypes.get_errno(), "no network namespace can be made")
        try:
            _ip("link", "set", "lo", "up")
            yield
        finally:
            if libc.setns(before, _NEW_NETWORK):
                raise OSError(ctypes.get_errno(), "can't go back to the network of before")
    finally:
        os.close(before)


@contextlib.contextmanager
def machines(count: int) -> Iterator[Lan]:
    """So many machines on one bridge, at which we are too."""
    with own_network(), contextlib.ExitStack() as ending:
        lan = Lan(f"{_NETWORK}.1")
        _ip("link", "add", "lan", "type", "bridge")
        _ip("addr", "add", f"{lan.address}/24", "dev", "lan")
        _ip("link", "set", "lan", "up")
        for number in range(1, count + 1):
            lan.machines.append(_machine(number, ending))
        yield lan


def _machine(number: int, ending: contextlib.ExitStack) -> Machine:
    # Kept for as long as it lives, with nothing else in it; it ends with us.
    holding = subprocess.Popen(
        ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "sh", "-c", "echo made; exec sleep infinity"],
        stdout=subprocess.PIPE,
    )
    ending.callback(_ended, holding)
    assert holding.stdout is not None
    if holding.stdout.readline() != b"made\n":
        raise OSError("a machine could not be made")
    machine = Machine(f"m{number}", f"{_NETWORK}.{10 + number}", f"to-m{number}", holding)
    _ip("link", "add", machine.link, "type", "veth", "peer", "name", "eth0", "netns", str(holding.pid))
    _ip("link", "set", machine.link, "master", "lan", "up")
    for words in (
        ("link", "set", "lo", "up"),
        ("addr", "add", f"{machine.address}/24", "dev", "eth0"),
        ("link", "set", "eth0", "up"),
    ):
        machine.run("ip", *words)
    return machine


def _ended(holding: subprocess.Popen[bytes]) -> None:
    holding.kill()
    holding.wait()


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=20)
