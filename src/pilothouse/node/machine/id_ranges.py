"""The user and group ids of the machine that pods have for their own: 65,536 for each, and no two pods the same.

    ranges = IdRanges(pods=Path("/var/lib/pilothouse/node/pods"), among=IdRange(0x70000000, 0x10000000))
    ranges.recover()                        # when the agent starts
    ranges.claim(PodDirectory(path))           # IdRange(first=1879048192, count=65536); NotReady, if there are none left
    ranges.release("3f0c…")                 # when nothing of the pod is left on disk

A range that a pod has is a file in ``/run/pilothouse/ids`` that only root can make, so that another agent on the machine doesn't take it; the
pod's folder remembers it too. Ranges that overlap those of ``/etc/subuid`` and ``/etc/subgid``, or hold a user or group of the machine, are skipped.
So are the ids that own pods' user namespaces, one for each range (``supervise.shim.namespaces``).

Ranges are given in turn, those of pods that are gone last: what a pod has left somewhere with its ids is not soon another pod's. Where
the turn is at is in a file beside the claims; without one, as after a restart of the machine, it begins anywhere.
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

from pilothouse.node.interfaces import NotReady
from pilothouse.node.pods.pod_directories import PodDirectory
from pilothouse.node.settings import DEFAULT_RANGE, RUN
from pilothouse.supervise.launch_spec import IdRange
from pilothouse.supervise.shim.namespaces import OWNERS

SIZE: Final = 65536
CLAIMS: Final = RUN / "ids"
_DRAFT: Final = "draft"
"""A claim that is being written: under its own name it is there whole or not at all."""
_LATEST: Final = "latest"
"""The first id of the range that was given last, by any agent."""
UNAVAILABLE: Final = "UserNamespaceUnavailable"


log = logging.getLogger(__name__)


class _Claim(msgspec.Struct, frozen=True):
    """Who has a range."""

    pods: str
    """The folder of the agent's pods."""
    uid: str


class IdRanges:
    """Of one agent, which is root."""

    def __init__(
        self,
        pods: Path,
        among: IdRange = DEFAULT_RANGE,
        *,
        claims: Path = CLAIMS,
        machine: Path = Path("/etc"),
    ) -> None:
        """``claims`` is where all agents of the machine claim ranges, ``machine`` where its users are listed."""
        self._pods = str(pods.absolute())
        self._among = among
        self._claims = claims
        self._machine = machine
        self._held: dict[str, int] = {}
        self._is_recovered = False

    def recover(self) -> None:
        """Find what an earlier agent has claimed, and free what it, or one that is gone, could not. Raises ``NotReady`` and OSError."""
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
        """The pod's range: always the same one. Raises ``NotReady`` and OSError."""
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
        """Nothing of the pod is left. What can't be freed now is by the next agent."""
        if (first := self._held.pop(pod_uid, None)) is None:
            return
        try:
            with self._locked() as folder, suppress(FileNotFoundError):
                os.unlink(str(first), dir_fd=folder)
        except (NotReady, OSError) as problem:
            log.warning("the ids from %s on stay claimed: %s", first, problem)

    def _choose(self, folder: int, known: int | None) -> int:
        """A range that is free: the one that the pod had before, if that is."""
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
            f"no range of {SIZE} ids is left among the {self._among.count} from {self._among.first} on, which pods on "
            "this machine may have; give the node more with --user-namespace-ids, or set hostUsers: true",
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
        """Free the ranges of pods whose folders are gone, together with their agents, and of which nothing runs."""
        gone = [
            first for first, claim in self._read_all(folder) if not os.path.isdir(f"{claim.pods}/{claim.uid}")
        ]
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
        """First and last of ids that somebody has on this machine."""
        for name, at in (("subuid", 1), ("subgid", 1), ("passwd", 2), ("group", 2)):
            with suppress(FileNotFoundError):
                for line in (self._machine / name).read_text(errors="replace").splitlines():
                    with suppress(ValueError, IndexError):
                        fields = line.split(":")
                        first = int(fields[at])
                        yield first, first + (int(fields[2]) - 1 if at == 1 else 0)

    @contextmanager
    def _locked(self) -> Iterator[int]:
        """The folder of all claims, which nobody else changes meanwhile."""
        self._claims.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        self._claims.mkdir(mode=0o700, exist_ok=True)
        folder = os.open(self._claims, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            for found, others in ((os.stat(self._claims.parent), 0o022), (os.fstat(folder), 0o077)):
                if found.st_uid != os.geteuid() or found.st_mode & others:
                    raise NotReady(
                        UNAVAILABLE,
                        f"{self._claims} can be changed by others than root; remove it, and look who made it",
                    )
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield folder
        finally:
            os.close(folder)


def _is_free(first: int, taken: list[int], reserved: list[tuple[int, int]]) -> bool:
    at = bisect_left(taken, first - SIZE + 1)
    if at < len(taken) and taken[at] < first + SIZE:
        return False
    if OWNERS - SIZE < first < OWNERS + SIZE:
        return False
    owner = OWNERS + first // SIZE
    return not any((low < first + SIZE and high >= first) or low <= owner <= high for low, high in reserved)


def _write(folder: int, name: str, content: bytes) -> None:
    draft = os.open(
        _DRAFT,
        os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC,
        0o600,
        dir_fd=folder,
    )
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
