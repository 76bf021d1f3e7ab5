"""Assigns each pod a range of 65,536 user and group ids of the machine, for its user namespace.

    ranges = IdRanges(pods=Path("/var/lib/pilothouse/node/pods"), among=IdRange(0x70000000, 0x10000000))
    ranges.recover()                        # when the agent starts
    ranges.claim(PodDirectory(path))        # IdRange(first=1879048192, count=65536); NotReady if none is free
    ranges.release("3f0c…")                 # when the pod is cleaned up

A claim is a file in ``/run/pilothouse/ids``, which all root agents of the machine share; the pod's directory
records it too. Ranges that overlap those of ``/etc/subuid`` and ``/etc/subgid``, contain a user or group of
the machine, or the owners of pods' user namespaces (``supervise.shim.namespaces``), are skipped.

Ranges are assigned round robin, so files that a pod left elsewhere don't soon belong to another pod. The
position is in a file beside the claims; without it, as after a reboot, it is random.
"""

from __future__ import annotations

import fcntl
import logging
import os
import secrets
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from pilothouse.node.files.directory_handles import open_directory
from pilothouse.node.interfaces import NotReady
from pilothouse.node.pods.pod_directories import PodDirectory
from pilothouse.node.settings import DEFAULT_RANGE, RUN
from pilothouse.supervise.launch_spec import IdRange
from pilothouse.supervise.shim.namespaces import OWNERS

SIZE: Final = 65536
CLAIMS: Final = RUN / "ids"
_DRAFT: Final = "draft"
"""The temporary name of a claim that is being written."""
_LATEST: Final = "latest"
"""The first id of the range that any agent assigned last."""
UNAVAILABLE: Final = "UserNamespaceUnavailable"

log = logging.getLogger(__name__)


class _Claim(msgspec.Struct, frozen=True):
    pods: str
    """The directory of the agent's pods."""
    uid: str


class IdRanges:
    """The id ranges of one agent, which is root."""

    def __init__(
        self,
        pods: Path,
        among: IdRange = DEFAULT_RANGE,
        *,
        claims: Path = CLAIMS,
        machine: Path = Path("/etc"),
    ) -> None:
        """``claims`` is shared by all agents, ``machine`` is the directory of passwd and group."""
        self._pods = str(pods.absolute())
        self._among = among
        self._claims = claims
        self._machine = machine
        self._held: dict[str, int] = {}
        self._is_recovered = False

    def recover(self) -> None:
        """Read an earlier agent's claims, and release those of deleted pods. Raises ``NotReady``, OSError."""
        with self._locked() as folder:
            for first, claim in self._read_all(folder):
                if claim.pods == self._pods:
                    if os.path.isdir(f"{self._pods}/{claim.uid}"):
                        self._held[claim.uid] = first
                    else:
                        os.unlink(str(first), dir_fd=folder)
            self._sweep(folder)
        self._is_recovered = True

    def claim(self, pod: PodDirectory) -> IdRange:
        """The pod's range, always the same one. Raises ``NotReady`` and OSError."""
        if not self._is_recovered:
            self.recover()
        if pod.uid not in self._held:
            with self._locked() as folder:
                first = self._choose(folder, pod.first_id)
                _write(folder, str(first), msgspec.json.encode(_Claim(self._pods, pod.uid)))
            self._held[pod.uid] = first
        if pod.first_id != self._held[pod.uid]:
            pod.first_id = self._held[pod.uid]
        return IdRange(self._held[pod.uid], SIZE)

    def release(self, pod_uid: str) -> None:
        """Release the range of a pod that is cleaned up. On an error the next agent does."""
        if (first := self._held.pop(pod_uid, None)) is None:
            return
        try:
            with self._locked() as folder, suppress(FileNotFoundError):
                os.unlink(str(first), dir_fd=folder)
        except (NotReady, OSError) as problem:
            log.warning("failed to release the id range from %s on: %s", first, problem)

    def _choose(self, folder: int, known: int | None) -> int:
        """A free range: the one that the pod had before, if it is free."""
        taken = sorted(self._numbers(folder))
        reserved = list(self._reserved())
        if known is not None and _is_free(known, taken, reserved) and self._contains(known):
            return known
        latest = _latest(folder)
        first = self._next(latest, taken, reserved)
        if first is None:
            self._sweep(folder)
            first = self._next(latest, sorted(self._numbers(folder)), reserved)
        if first is not None:
            _write(folder, _LATEST, str(first).encode())
            return first
        raise NotReady(
            UNAVAILABLE,
            f"no range of {SIZE} ids is left among the {self._among.count} from {self._among.first} on, "
            "which pods on this machine may have; give the node more with --user-namespace-ids, or set "
            "hostUsers: true",
        )

    def _contains(self, first: int) -> bool:
        return self._among.first <= first <= self._among.first + self._among.count - SIZE

    def _next(self, latest: int | None, taken: list[int], reserved: list[tuple[int, int]]) -> int | None:
        """The first free range after the latest one, and then from the beginning."""
        room = range(self._among.first, self._among.first + self._among.count - SIZE + 1, SIZE)
        if not room:
            return None
        after = secrets.randbelow(len(room)) if latest is None else bisect_right(room, latest)
        in_turn = (room[(after + each) % len(room)] for each in range(len(room)))
        return next((first for first in in_turn if _is_free(first, taken, reserved)), None)

    def _sweep(self, folder: int) -> None:
        """Release the ranges of pods whose directories are gone and of which no process runs."""
        claims = self._read_all(folder)
        gone = [first for first, claim in claims if not os.path.isdir(f"{claim.pods}/{claim.uid}")]
        used = {each // SIZE for each in _running_ids()} if gone else set()
        for first in gone:
            if not used & {first // SIZE, (first + SIZE - 1) // SIZE}:
                os.unlink(str(first), dir_fd=folder)

    def _read_all(self, folder: int) -> Iterator[tuple[int, _Claim]]:
        for first in self._numbers(folder):
            file = os.open(str(first), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            with open(file, "rb") as opened, suppress(msgspec.DecodeError):
                yield first, msgspec.json.decode(opened.read(), type=_Claim)

    def _numbers(self, folder: int) -> list[int]:
        return [int(name) for name in os.listdir(folder) if name.isdigit()]

    def _reserved(self) -> Iterator[tuple[int, int]]:
        """First and last id of each range that the machine's users have."""
        for name, at in (("subuid", 1), ("subgid", 1), ("passwd", 2), ("group", 2)):
            with suppress(FileNotFoundError):
                for line in (self._machine / name).read_text(errors="replace").splitlines():
                    with suppress(ValueError, IndexError):
                        fields = line.split(":")
                        first = int(fields[at])
                        yield first, first + (int(fields[2]) - 1 if at == 1 else 0)

    @contextmanager
    def _locked(self) -> Iterator[int]:
        """The directory of all claims, locked."""
        self._claims.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        self._claims.mkdir(mode=0o700, exist_ok=True)
        with open_directory(self._claims) as folder:
            for found, others in ((os.stat(self._claims.parent), 0o022), (os.fstat(folder), 0o077)):
                if found.st_uid != os.geteuid() or found.st_mode & others:
                    problem = "is writable by other users than root; find out who made it, and remove it"
                    raise NotReady(UNAVAILABLE, f"{self._claims} {problem}")
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield folder


def _is_free(first: int, taken: list[int], reserved: list[tuple[int, int]]) -> bool:
    at = bisect_left(taken, first - SIZE + 1)
    if at < len(taken) and taken[at] < first + SIZE:
        return False
    if OWNERS - SIZE < first < OWNERS + SIZE:
        return False
    owner = OWNERS + first // SIZE
    return not any((low < first + SIZE and high >= first) or low <= owner <= high for low, high in reserved)


def _write(folder: int, name: str, content: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    draft = os.open(_DRAFT, flags, 0o600, dir_fd=folder)
    with open(draft, "wb") as opened:
        opened.write(content)
    os.rename(_DRAFT, name, src_dir_fd=folder, dst_dir_fd=folder)


def _latest(folder: int) -> int | None:
    with suppress(FileNotFoundError, ValueError):
        file = os.open(_LATEST, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        with open(file, "rb") as opened:
            return int(opened.read())
    return None


def _running_ids() -> Iterator[int]:
    """The users of all processes."""
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with suppress(OSError), open(f"/proc/{entry}/status") as status:
                for line in status:
                    if line.startswith("Uid:"):
                        yield from map(int, line.split()[1:])
