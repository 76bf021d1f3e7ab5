"""Directories in memory: for secrets, and for ``emptyDir`` with the medium ``Memory``.

    memory = memory_directories(data, root=True)
    memory.folder(pod_uid)                                  # the pod's directory in memory
    memory.sized(pod_uid, "cache", 64 << 20)                # one with a limit

Root mounts a tmpfs in the data directory, and another for each directory with a limit. Other users have a
directory in ``/dev/shm``, where limits are checked and not enforced. Any user can make directories there, so
ours must belong to our user and be closed to others; if another user has its name, a random one is chosen and
recorded in the data directory.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import secrets
import stat
from collections.abc import Iterable
from pathlib import Path
from threading import Lock
from typing import Final

from pilothouse.node.files.directory_handles import open_directory
from pilothouse.node.interfaces import VolumeNotReady
from pilothouse.node.volumes.mount_table import NO_DEVICES, NO_SUID, at, mount, mounts
from pilothouse.node.volumes.removal import remove

MOST_SECRETS: Final = 32 << 20
"""Bytes of a pod's secrets and tokens together: no limit of the pod counts this memory."""
_PAGE: Final = 4096
_SHARED: Final = Path("/dev/shm")

log = logging.getLogger(__name__)


class MemoryDirectories:
    def __init__(self, top: Path, *, mounts: bool, elsewhere: Path | None = None) -> None:
        """``mounts``: whether we may mount. ``elsewhere``: the file with another name of the directory."""
        self._top = top
        self._mounts = mounts
        self._elsewhere = elsewhere
        if elsewhere is not None and elsewhere.is_file():
            self._top = top.with_name(Path(elsewhere.read_text()).name)
        self._lock = Lock()
        """The removal of an empty top must not race with a new directory in it."""
        self._secrets: dict[str, dict[str, int]] = {}
        """The size of each volume's files, by pod."""

    def reserve(self, pod_uid: str, volume: str, sizes: Iterable[int]) -> None:
        """Count the files of a volume anew. Raises VolumeNotReady beyond the pod's limit."""
        # Each file takes whole pages, an inode and a link; each volume some directories.
        wanted = 4 * _PAGE + sum(-(-size // _PAGE) * _PAGE + _PAGE for size in sizes)
        held = self._secrets.setdefault(pod_uid, {})
        total = sum(size for name, size in held.items() if name != volume) + wanted
        if total > MOST_SECRETS:
            raise VolumeNotReady(
                "FailedMount",
                f'volume "{volume}": with it the secrets and tokens of the pod would take {total} bytes of '
                f"the node's memory, and a pod's may take {MOST_SECRETS}; mount fewer or smaller ones",
            )
        held[volume] = wanted

    def folder(self, pod_uid: str) -> Path:
        """A pod's directory in memory. Raises OSError."""
        with self._lock:
            self._make_top()
            folder = self._top / pod_uid
            folder.mkdir(exist_ok=True, mode=0o700)
        return folder

    def sized(self, pod_uid: str, name: str, size: int | None) -> Path:
        """A directory for all users of the pod. Raises OSError."""
        folder = self.folder(pod_uid) / name
        folder.mkdir(exist_ok=True)
        if self._mounts and at(mounts(), folder) is None:
            # Also without a limit: it must not take the space of secrets.
            limit = f"size={size}," if size else ""
            mount("tmpfs", folder, "tmpfs", NO_SUID | NO_DEVICES, f"{limit}mode=1777")
        return folder

    def release(self, pod_uid: str) -> None:
        """Remove all that a pod has in memory; after the last pod, the tmpfs itself."""
        self._secrets.pop(pod_uid, None)
        if not self._mounts and not is_own(self._top):
            return
        # Outside of the lock: an emptyDir may have any number of files.
        remove(self._top / pod_uid)
        with self._lock:
            if self._top.exists() and not any(self._top.iterdir()):
                remove(self._top)

    def _make_top(self) -> None:
        if not self._mounts:
            self._make_own()
            return
        self._top.mkdir(parents=True, exist_ok=True, mode=0o700)
        if at(mounts(), self._top) is None:
            mount("tmpfs", self._top, "tmpfs", NO_SUID | NO_DEVICES, "mode=700")

    def _make_own(self) -> None:
        """Create our directory beside those of other users."""
        while True:
            try:
                self._top.mkdir(mode=0o700)
            except FileExistsError:
                if is_own(self._top):
                    return
                log.warning("%s is not this user's alone; another name is taken", self._top)
                self._rename()
            else:
                return

    def _rename(self) -> None:
        if self._elsewhere is None:
            raise OSError(errno.EEXIST, "belongs to another user, or is open to others", str(self._top))
        self._top = self._top.with_name(f"pilothouse-{os.getuid()}-{secrets.token_hex(16)}")
        self._elsewhere.parent.mkdir(parents=True, exist_ok=True)
        draft = self._elsewhere.with_suffix(".draft")
        draft.write_text(self._top.name)
        draft.replace(self._elsewhere)


def is_own(folder: Path) -> bool:
    """Whether a directory belongs to our user, and is closed to others."""
    try:
        with open_directory(folder) as handle:
            found = os.fstat(handle)
    except OSError:
        return False
    return found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IRWXG | stat.S_IRWXO)


def memory_directories(data: Path, *, root: bool) -> MemoryDirectories:
    if root:
        return MemoryDirectories(data / "memory", mounts=True)
    mark = hashlib.sha256(os.fsencode(data.absolute())).hexdigest()[:16]
    usual = _SHARED / f"pilothouse-{os.getuid()}-{mark}"
    return MemoryDirectories(usual, mounts=False, elsewhere=data / "memory.name")
