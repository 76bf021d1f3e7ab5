"""A volume that moves between two tiers of a node, as its files and the kernel's mount tables show it.

volume = MovedVolume(data / "node" / "volumes" / "pvc-1234", tmp_path / "fast" / "pvc-1234", size)
with MountWatch(volume) as watch:
    …
watch.check()                   # one whole copy was there at every moment, and no two were mounted
postmasters(data)               # the Postgres servers in the pods of that node
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import NamedTuple, Self

from pilothouse.node.volumes.mount_holders import pod_folder_of
from pilothouse.node.volumes.mount_table import mounts
from pilothouse.node.volumes.move_journal import MovePhase, MoveRecord, read_move
from pilothouse.node.volumes.volume_backend import read_record

HOME, OTHER = "default", "fast"
_POSTGRES = b"postgres\0-D\0/data/db\0"
_PAUSE = 0.05


class Postmaster(NamedTuple):
    pid: int
    address: str


def postmasters(data: Path) -> Iterator[Postmaster]:
    for entry in sorted((entry for entry in os.listdir("/proc") if entry.isdigit()), key=int):
        with suppress(OSError):
            process = Path("/proc", entry)
            if not (process / "cmdline").read_bytes().startswith(_POSTGRES):
                continue
            folder = pod_folder_of(int(entry))
            words = (process / "environ").read_bytes().split(b"\0")
            address = next((each[7:].decode() for each in words if each.startswith(b"POD_IP=")), "")
            if folder is not None and folder.parent == data / "node" / "pods" and address:
                yield Postmaster(int(entry), address)


class MovedVolume(NamedTuple):
    home: Path
    copy: Path
    size: int

    def folder(self, tier: str) -> Path:
        return self.copy if tier == OTHER else self.home

    def tier(self) -> str:
        """Where the volume is, by its record."""
        record = read_record(self.home)
        assert record is not None
        return record.tier or HOME

    def move(self) -> MoveRecord | None:
        return read_move(self.home)

    def devices(self) -> dict[str, Path]:
        """The files of the volume that are attached to a device, by device; a deleted one has another name."""
        found = {}
        for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
            with suppress(OSError):
                file = Path(backing.read_text().strip())
                if file.parent in (self.home, self.copy):
                    found[f"/dev/{backing.parts[3]}"] = file
        return found


class MountWatch:
    """Looks all the time."""

    def __init__(self, volume: MovedVolume, data: Path) -> None:
        self._volume = volume
        self._data = data
        self._pool = ThreadPoolExecutor(1)
        self._over = Event()
        self._watching: Future[None]
        self.address = ""
        """Where Postgres listens; empty if it does not run."""
        self.looks = 0
        """How often Postgres was seen on the volume."""

    def __enter__(self) -> Self:
        self._watching = self._pool.submit(self._watch)
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._pool.shutdown()

    def check(self) -> None:
        """Raises the AssertionError of the first look that was wrong."""
        if self._watching.done():
            self._watching.result()

    def _watch(self) -> None:
        while not self._over.wait(_PAUSE):
            self._look()

    def _look(self) -> None:
        volume = self._volume
        tier, move, devices = volume.tier(), volume.move(), volume.devices()
        disk = volume.folder(tier) / "disk"
        is_whole = disk.exists() and disk.stat().st_size >= volume.size
        here = {devices.get(one.source) for one in mounts() if one.target == volume.home / "mount"}
        servers = list(postmasters(self._data))
        seen = {}
        for server in servers:
            with suppress(OSError):
                namespace = os.readlink(f"/proc/{server.pid}/ns/mnt")
                seen[namespace] = {devices[each] for each in _sources(server.pid) if each in devices}
        self.address = servers[0].address if servers else ""
        if (tier, move, devices) != (volume.tier(), volume.move(), volume.devices()):
            return
        assert is_whole, f"{disk} is not whole"
        assert len(here) <= 1, f"several are mounted for pods: {here}"
        assert len(seen) <= 1, "there are several servers"
        for files in seen.values():
            assert len(files) == 1, f"the pod has {files}"
            # btrfs moves from one file to the other before the record says so.
            is_online = move is not None and move.phase is MovePhase.REPLACING
            either = {volume.folder(each) / "disk" for each in (HOME, OTHER)}
            assert files <= (either if is_online else {disk}), f"the pod has {files} instead of {disk}"
            self.looks += 1


def _sources(pid: int) -> list[str]:
    """What is mounted in a process's mount namespace."""
    lines = Path(f"/proc/{pid}/mountinfo").read_text(errors="surrogateescape").splitlines()
    return [line.partition(" - ")[2].split(" ")[1] for line in lines]
