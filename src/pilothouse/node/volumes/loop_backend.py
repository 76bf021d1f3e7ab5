"""Volumes that are filesystems in files: as large as the claim says, and grown while mounted.

    await loops.make(folder, 320 << 20, {"fsType": "xfs"})
    await loops.mount(folder)               # folder/mount, in the node's own mount namespace
    await loops.expand(folder, 640 << 20)   # df in the pod shows it at once

The file takes its whole size on the disk from the beginning, unless the class has ``allocation: sparse``. A
file that is attached to a loop device is mounted from that one: two devices on one file would be two caches,
and destroy the filesystem.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pilothouse.aio.commands import CommandError, available, run
from pilothouse.node.files.directory_handles import closing_handle, make_directory, set_mode
from pilothouse.node.volumes.filesystems import KNOWN, FilesystemError, chosen
from pilothouse.node.volumes.mount_table import at, mounts, unmount
from pilothouse.node.volumes.volume_attributes import RESERVED, SPARSE
from pilothouse.node.volumes.volume_backend import VolumeBackendError, amount_text, free_bytes

_DISK: Final = "disk"
_BLOCK: Final = 4096
_TRIMMING: Final = 1800.0
"""Seconds that returning unused space may take."""
_libc = ctypes.CDLL(None, use_errno=True)


class LoopBackend:
    """``pilothouse.io/loop``: a ``VolumeBackend``."""

    inner: Final = "mount"

    def __init__(self, *, root: bool) -> None:
        self._root = root
        self._lock = asyncio.Lock()
        """Held from the check whether a file has a device to attaching one."""

    def obstacle(self) -> str:
        if not self._root:
            why = "the node agent runs as an ordinary user, who may not mount filesystems"
            return f"{why}: run it as root, or use a class of pilothouse.io/directory"
        if not Path("/dev/loop-control").exists():
            return "the machine has no loop devices (/dev/loop-control): load the kernel module loop"
        lacking = [program for program in ("losetup", "mount") if not available(program)]
        return f"{lacking[0]} is not on the node: install util-linux" if lacking else ""

    async def make(self, folder: Path, size: int, parameters: Mapping[str, str]) -> str:
        if obstacle := self.obstacle():
            raise VolumeBackendError(obstacle, elsewhere=True)
        try:
            asked = parameters.get("fsType") or parameters.get("csi.storage.k8s.io/fstype") or ""
            filesystem = chosen(asked, size)
            sparse = _is_sparse(parameters)
        except FilesystemError as problem:
            raise VolumeBackendError(str(problem)) from None
        disk, draft = folder / _DISK, folder / f"{_DISK}.draft"
        try:
            make_directory(folder, 0o700, own=True)
            (folder / self.inner).mkdir(exist_ok=True)
            if not disk.exists():
                draft.unlink(missing_ok=True)
                await asyncio.to_thread(_extend, draft, size, sparse)
                await filesystem.make(str(draft))
                if not sparse:
                    # Makers of filesystems discard what they don't write.
                    await asyncio.to_thread(_reserve, draft)
                draft.rename(disk)
                # All users of the pod may write, as in an emptyDir.
                set_mode(await self._mounted(folder), 0o777)
        except CommandError as problem:
            draft.unlink(missing_ok=True)
            raise VolumeBackendError(str(problem), elsewhere=True) from None
        except OSError as problem:
            draft.unlink(missing_ok=True)
            raise VolumeBackendError(_reason(problem, folder, size), elsewhere=True) from None
        return filesystem.name

    async def mount(self, folder: Path) -> Path:
        if obstacle := self.obstacle():
            raise VolumeBackendError(obstacle)
        if not (folder / _DISK).exists():
            raise VolumeBackendError(f"its file {folder / _DISK} does not exist on this node")
        try:
            return await self._mounted(folder)
        except CommandError as problem:
            raise VolumeBackendError(str(problem)) from None
        except OSError as problem:
            raise VolumeBackendError(f"{problem.filename or folder}: {problem.strerror}") from None

    async def _mounted(self, folder: Path) -> Path:
        async with self._lock:
            return await self._mount(folder)

    async def _mount(self, folder: Path) -> Path:
        target = folder / self.inner
        set_mode(folder, 0o700, own=True)
        if at(mounts(), target) is not None:
            return target
        target.mkdir(exist_ok=True)
        disk = folder / _DISK
        try:
            device = await _device(disk)
            if not device:
                _make_node((await run("losetup", "--find")).strip())
                device = (await run("losetup", "--find", "--show", str(disk))).strip()
            # Files of pods belong to real users of the machine, and may be set-user-id.
            await run("mount", "-o", "nosuid,nodev", device, str(target))
        finally:
            # The device then goes with its last mount in any namespace, or at once if mounting failed.
            await _detach(disk)
        return target

    async def expand(self, folder: Path, size: int) -> None:
        target, disk = await self.mount(folder), folder / _DISK
        try:
            if disk.stat().st_size < size:
                reserved = disk.stat().st_blocks * 512 >= disk.stat().st_size * 9 // 10
                await asyncio.to_thread(_extend, disk, size, not reserved)
            mounted = at(mounts(), target)
            assert mounted is not None  # It was mounted above.
            await run("losetup", "--set-capacity", mounted.source)
            await KNOWN[mounted.kind].grow(str(target), mounted.source)
        except CommandError as problem:
            raise VolumeBackendError(f"failed to resize the filesystem: {problem}") from None
        except OSError as problem:
            raise VolumeBackendError(_reason(problem, folder, size)) from None

    async def allocate(self, folder: Path, allocation: str) -> None:
        target, disk = await self.mount(folder), folder / _DISK
        try:
            if allocation == SPARSE:
                # The loop device passes the discards on to the file, which gets holes.
                await run("fstrim", str(target), patience=_TRIMMING)
            else:
                await asyncio.to_thread(_reserve, disk)
        except CommandError as problem:
            raise VolumeBackendError(f"failed to return unused space: {problem}") from None
        except OSError as problem:
            raise VolumeBackendError(_reason(problem, disk.parent, disk.stat().st_size)) from None

    async def unmount(self, folder: Path) -> None:
        target = folder / self.inner
        async with self._lock:
            try:
                # Several times, if an agent was killed while its mount command went on.
                while at(mounts(), target) is not None:
                    unmount(target)
                if (folder / _DISK).exists():
                    await _detach(folder / _DISK)
            except OSError as problem:
                raise VolumeBackendError(f"failed to unmount {target}: {problem.strerror}") from None
            except CommandError as problem:
                raise VolumeBackendError(f"failed to detach {target}: {problem}") from None

    def device(self, folder: Path) -> str:
        mounted = at(mounts(), folder / self.inner)
        if mounted is None:
            return ""
        number = os.stat(mounted.source).st_rdev
        return f"{os.major(number)}:{os.minor(number)}"


def _reserve(disk: Path) -> None:
    """Allocate the holes of a file that may be in use; its content stays."""
    found = disk.stat()
    if found.st_size - found.st_blocks * 512 > free_bytes(disk.parent):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(disk))
    with closing_handle(os.open(disk, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)) as handle:
        # Not posix_fallocate, which writes to the file where the filesystem has no fallocate.
        if _libc.fallocate(handle, 0, ctypes.c_long(0), ctypes.c_long(found.st_size)) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(disk))
        os.fsync(handle)


def _is_sparse(parameters: Mapping[str, str]) -> bool:
    asked = parameters.get("allocation") or RESERVED
    if asked not in (RESERVED, SPARSE):
        raise FilesystemError(f"the class asks for allocation {asked!r}; there are {RESERVED} and {SPARSE}")
    return asked == SPARSE


def _extend(file: Path, size: int, sparse: bool) -> None:
    size = -(-size // _BLOCK) * _BLOCK
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    with closing_handle(os.open(file, flags, 0o600)) as handle:
        if sparse:
            os.ftruncate(handle, size)
        else:
            if size - os.fstat(handle).st_size > free_bytes(file.parent):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(file))
            os.posix_fallocate(handle, 0, size)
        os.fsync(handle)


def _reason(problem: OSError, folder: Path, size: int) -> str:
    if problem.errno == errno.ENOSPC:
        near = next(one for one in (folder, *folder.parents) if one.exists())
        room = f"{folder.parent}, which has {amount_text(free_bytes(near))} left"
        return f"there is not enough space for {amount_text(size)} in {room}: free some, or request less"
    return f"{problem.filename or folder}: {problem.strerror}"


async def _device(disk: Path) -> str:
    """The loop device of a file; empty if it has none."""
    found = await run("losetup", "--associated", str(disk), "--noheadings", "--output", "NAME")
    return found.split()[0] if found.split() else ""


async def _detach(disk: Path) -> None:
    """Detach a file that is not mounted: an agent may have been killed before it mounted the device."""
    if device := await _device(disk):
        try:
            await run("losetup", "--detach", device)
        except CommandError:
            # The last unmount has just detached it.
            if await _device(disk) == device:
                raise


def _make_node(device: str) -> None:
    """Make the file of a loop device: the kernel may have more of them than /dev."""
    if not os.path.exists(device):
        number = int(device.removeprefix("/dev/loop"))
        os.mknod(device, stat.S_IFBLK | 0o660, os.makedev(7, number))
