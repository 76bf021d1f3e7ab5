"""Folders in memory: for secrets, and for ``emptyDir`` of the medium ``Memory``.

    memory = memory_directories(data, root=True)
    memory.folder(pod_uid)                                  # below it, whatever the pod needs in memory
    memory.sized(pod_uid, "cache", 64 << 20)                # one that holds so much and no more

Root mounts a tmpfs of its own in the data folder, and another for each folder with a limit. Who may not mount uses a folder in the machine's own
tmpfs (``/dev/shm``); there, limits are watched and not enforced. Every user of the machine can make folders there. Ours is one that we have made, or
that is our user's and closed to all others; if somebody else has its name, we take a random one and write that down in the data folder.
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
"""Bytes that a pod's secrets and tokens may take together. The memory is the machine's, and no limit of the pod's counts it."""
_PAGE: Final = 4096
_SHARED: Final = Path("/dev/shm")

log = logging.getLogger(__name__)


class MemoryDirectories:
    """Where folders in memory are."""

    def __init__(self, top: Path, *, mounts: bool, elsewhere: Path | None = None) -> None:
        """``mounts`` says whether we may mount. ``elsewhere``: the file that has another name of the folder, if it needs one."""
        self._top = top
        self._mounts = mounts
        self._elsewhere = elsewhere
        if elsewhere is not None and elsewhere.is_file():
            self._top = top.with_name(Path(elsewhere.read_text()).name)
        self._turn = Lock()
        """Whoever lets go of the last folder must not do so under one that is being made."""
        self._secrets: dict[str, dict[str, int]] = {}
        """What the files of each volume take, by pod."""

    def reserve(self, pod_uid: str, volume: str, sizes: Iterable[int]) -> None:
        """Count the files of a volume, in place of those that it had. Raises VolumeNotReady if the pod's would be too many."""
        # Each file takes whole pages, an inode and a link; each volume a few folders.
        wanted = 4 * _PAGE + sum(-(-size // _PAGE) * _PAGE + _PAGE for size in sizes)
        held = self._secrets.setdefault(pod_uid, {})
        total = sum(size for name, size in held.items() if name != volume) + wanted
        if total > MOST_SECRETS:
            raise VolumeNotReady(
                "FailedMount",
                f'volume "{volume}": with it the secrets and tokens of the pod would take {total} bytes of the node\'s memory, '
                f"and a pod's may take {MOST_SECRETS}; mount fewer or smaller ones",
            )
        held[volume] = wanted

    def folder(self, pod_uid: str) -> Path:
        """A pod's own folder in memory. Raises OSError."""
        with self._turn:
            self._made()
            folder = self._top / pod_uid
            folder.mkdir(exist_ok=True, mode=0o700)
        return folder

    def sized(self, pod_uid: str, name: str, size: int | None) -> Path:
        """A folder for all users of the pod. Raises OSError."""
        folder = self.folder(pod_uid) / name
        folder.mkdir(exist_ok=True)
        if self._mounts and at(mounts(), folder) is None:
            # One of its own also without a limit: it must not take the room of others' secrets.
            limit = f"size={size}," if size else ""
            mount("tmpfs", folder, "tmpfs", NO_SUID | NO_DEVICES, f"{limit}mode=1777")
        return folder

    def release(self, pod_uid: str) -> None:
        """Let go of all that a pod has in memory; with the last pod, of the memory itself."""
        self._secrets.pop(pod_uid, None)
        if not self._mounts and not is_own(self._top):
            return
        # Not in turn: a pod's emptyDir may have any number of files, and others wait for theirs.
        remove(self._top / pod_uid)
        with self._turn:
            if self._top.exists() and not any(self._top.iterdir()):
                remove(self._top)

    def _made(self) -> None:
        if not self._mounts:
            self._make_own()
            return
        self._top.mkdir(parents=True, exist_ok=True, mode=0o700)
        if at(mounts(), self._top) is None:
            mount("tmpfs", self._top, "tmpfs", NO_SUID | NO_DEVICES, "mode=700")

    def _make_own(self) -> None:
        """A folder beside those of other users."""
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
    """Whether a folder is a folder, belongs to our user, and lets nobody else in."""
    try:
        with open_directory(folder) as handle:
            found = os.fstat(handle)
    except OSError:
        return False
    return found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IRWXG | stat.S_IRWXO)


def memory_directories(data: Path, *, root: bool) -> MemoryDirectories:
    """The memory of a node with this data folder."""
    if root:
        return MemoryDirectories(data / "memory", mounts=True)
    mark = hashlib.sha256(os.fsencode(data.absolute())).hexdigest()[:16]
    usual = _SHARED / f"pilothouse-{os.getuid()}-{mark}"
    return MemoryDirectories(usual, mounts=False, elsewhere=data / "memory.name")
