"""Folders in memory: for secrets, and for ``emptyDir`` of the medium ``Memory``.

    memory = memory_of(data, root=True)
    memory.folder(pod_uid)                                  # below it, whatever the pod needs in memory
    memory.sized(pod_uid, "cache", 64 << 20)                # one that holds so much and no more

Root mounts a tmpfs of its own in the data folder, and another for each folder with a limit. Who may not mount uses a folder in the machine's own
tmpfs (``/dev/shm``); there, limits are watched and not enforced.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from threading import Lock
from typing import Final

from pilothouse.node.volumes.machine import NO_DEVICES, NO_SUID, at, mount, mounts
from pilothouse.node.volumes.removing import remove

_SHARED: Final = Path("/dev/shm")


class Memory:
    """Where folders in memory are."""

    def __init__(self, top: Path, *, mounts: bool) -> None:
        """``mounts`` says whether we may mount."""
        self._top = top
        self._mounts = mounts
        self._turn = Lock()
        """Whoever lets go of the last folder must not do so under one that is being made."""

    def folder(self, pod_uid: str) -> Path:
        """A pod's own folder in memory. Raises OSError."""
        with self._turn:
            self._made()
            folder = self._top / pod_uid
            folder.mkdir(exist_ok=True, mode=0o755)
        return folder

    def sized(self, pod_uid: str, name: str, size: int | None) -> Path:
        """A folder for all users of the pod. Raises OSError."""
        folder = self.folder(pod_uid) / name
        folder.mkdir(exist_ok=True)
        if size and self._mounts and at(mounts(), folder) is None:
            mount("tmpfs", folder, "tmpfs", NO_SUID | NO_DEVICES, f"size={size},mode=1777")
        return folder

    def release(self, pod_uid: str) -> None:
        """Let go of all that a pod has in memory; with the last pod, of the memory itself."""
        with self._turn:
            remove(self._top / pod_uid)
            if self._top.exists() and not any(self._top.iterdir()):
                remove(self._top)

    def _made(self) -> None:
        self._top.mkdir(parents=True, exist_ok=True, mode=0o755 if self._mounts else 0o700)
        if self._mounts and at(mounts(), self._top) is None:
            mount("tmpfs", self._top, "tmpfs", NO_SUID | NO_DEVICES, "mode=755")


def memory_of(data: Path, *, root: bool) -> Memory:
    """The memory of a node with this data folder."""
    if root:
        return Memory(data / "memory", mounts=True)
    mark = hashlib.sha256(os.fsencode(data.absolute())).hexdigest()[:16]
    return Memory(_SHARED / f"pilothouse-{os.getuid()}-{mark}", mounts=False)
