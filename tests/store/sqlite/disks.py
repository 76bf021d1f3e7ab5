"""Disks for SQLite that count, fail, and lose power.

    with Disk("name") as disk:
        store = await SqliteStore.open(folder, vfs=disk.name)
        disk.failing = True                     # every sync fails from here on
        disk.save_what_survives(target)         # the folder as it would be after a power cut at this moment

What survives a power cut is what each file held when it was last synced: nothing written since is assumed to be there.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import apsw


class Disk(apsw.VFS):
    """A layer over the system's own files."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.syncs = 0
        self.failing = False
        self.full = False
        self.stalled: threading.Event | None = None
        """While set to an event that is not set, syncs wait for it."""
        self._surviving: dict[str, bytes] = {}
        super().__init__(name, "")

    def __enter__(self) -> Disk:
        return self

    def __exit__(self, *_: object) -> None:
        self.unregister()

    def xOpen(self, name: Any, flags: Any) -> DiskFile:
        return DiskFile(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        super().xDelete(filename, syncdir)
        # A deletion whose folder is not synced may be undone by a power cut; the file would be back.
        if syncdir:
            self._surviving.pop(filename, None)

    def synced(self, path: str) -> None:
        self.syncs += 1
        self._surviving[path] = Path(path).read_bytes()

    def save_what_survives(self, target: Path) -> None:
        target.mkdir(parents=True)
        for path, content in list(self._surviving.items()):
            (target / Path(path).name).write_bytes(content)


class DiskFile(apsw.VFSFile):
    def __init__(self, disk: Disk, name: Any, flags: Any) -> None:
        self._disk = disk
        self._path = name.filename() if isinstance(name, apsw.URIFilename) else name
        super().__init__("", name, flags)

    def xWrite(self, data: Any, offset: int) -> None:
        if self._disk.full:
            raise apsw.FullError("no space left on device")
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:
        if self._disk.stalled is not None:
            self._disk.stalled.wait()
        if self._disk.failing:
            raise apsw.IOError("input/output error")
        super().xSync(flags)
        if self._path:
            self._disk.synced(self._path)
