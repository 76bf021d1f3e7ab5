"""Volumes that are filesystems in files: as large as the claim says, and grown while mounted.

    await loops.make(folder, 320 << 20, {"fsType": "xfs"})
    await loops.bring(folder)               # folder/mount, in the node's own mount namespace
    await loops.grow(folder, 640 << 20)     # df in the pod shows it at once

The file takes its whole size on the disk from the beginning (``allocation: reserved``), so that a database never finds its volume
full before the volume is; a class may say ``allocation: sparse``. A file that is attached to a loop device already is mounted from that
device: two devices on one file would be two caches, and the end of the filesystem.
"""

from __future__ import annotations

import asyncio
import errno
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pilothouse.aio.commands import CommandError, available, run
from pilothouse.node.files.directory_handles import make_directory, set_mode
from pilothouse.node.volumes.filesystems import KNOWN, FilesystemError, chosen
from pilothouse.node.volumes.mount_table import at, mounts, unmount
from pilothouse.node.volumes.volume_backend import VolumeBackendError, amount_text, free_bytes

_DISK: Final = "disk"
_BLOCK: Final = 4096


class LoopBackend:
    """``pilothouse.io/loop``: a ``Keeper``."""

    inner: Final = "mount"

    def __init__(self, *, root: bool) -> None:
        self._root = root
        self._turn = asyncio.Lock()
        """One mounts at a time: between looking whether a file has a device and giving it one, nobody else may."""

    def obstacle(self) -> str:
        if not self._root:
            return (
                "the node agent runs as an ordinary user, who may not mount filesystems: "
                "run it as root, or use a class of pilothouse.io/directory"
            )
        if not Path("/dev/loop-control").exists():
            return "the machine has no loop devices (/dev/loop-control): load the kernel module loop"
        lacking = [program for program in ("losetup", "mount") if not available(program)]
        return f"{lacking[0]} is not on the node: install util-linux" if lacking else ""

    async def make(self, folder: Path, size: int, parameters: Mapping[str, str]) -> str:
        if obstacle := self.obstacle():
            raise VolumeBackendError(obstacle, elsewhere=True)
        try:
            filesystem = chosen(
                parameters.get("fsType") or parameters.get("csi.storage.k8s.io/fstype") or "", size
            )
            sparse = _is_sparse(parameters)
        except FilesystemError as problem:
            raise VolumeBackendError(str(problem)) from None
        disk, draft = folder / _DISK, folder / f"{_DISK}.draft"
        try:
            _made(folder / self.inner)
            if not disk.exists():
                draft.unlink(missing_ok=True)
                await asyncio.to_thread(_extend, draft, size, sparse)
                await filesystem.make(str(draft))
                draft.rename(disk)
                # Whoever runs in the pod may write, as in an emptyDir.
                set_mode(await self._mounted(folder), 0o777)
        except CommandError as problem:
            draft.unlink(missing_ok=True)
            raise VolumeBackendError(str(problem), elsewhere=True) from None
        except OSError as problem:
            draft.unlink(missing_ok=True)
            raise VolumeBackendError(_told(problem, folder, size), elsewhere=True) from None
        return filesystem.name

    async def bring(self, folder: Path) -> Path:
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
        async with self._turn:
            return await self._mounted_now(folder)

    async def _mounted_now(self, folder: Path) -> Path:
        target = folder / self.inner
        set_mode(folder, 0o700, own=True)
        if at(mounts(), target) is not None:
            return target
        target.mkdir(exist_ok=True)
        disk = folder / _DISK
        try:
            device = await _device(disk)
            if not device:
                free = (await run("losetup", "--find")).strip()
                _node(free)
                device = (await run("losetup", "--find", "--show", str(disk))).strip()
            # A pod's files belong to real users of the machine, and may be set-user-id.
            await run("mount", "-o", "nosuid,nodev", device, str(target))
        finally:
            # From now on the device goes with its last mount, in whichever namespace that is; without one, whatever came between, at once.
            await _detach(disk)
        return target

    async def grow(self, folder: Path, size: int) -> None:
        target, disk = await self.bring(folder), folder / _DISK
        try:
            if disk.stat().st_size < size:
                reserved = disk.stat().st_blocks * 512 >= disk.stat().st_size * 9 // 10
                await asyncio.to_thread(_extend, disk, size, not reserved)
            mounted = at(mounts(), target)
            assert mounted is not None  # It was brought a moment ago.
            await run("losetup", "--set-capacity", mounted.source)
            await KNOWN[mounted.kind].grow(str(target), mounted.source)
        except CommandError as problem:
            raise VolumeBackendError(f"failed to resize the filesystem: {problem}") from None
        except OSError as problem:
            raise VolumeBackendError(_told(problem, folder, size)) from None

    async def put_away(self, folder: Path) -> None:
        target = folder / self.inner
        async with self._turn:
            try:
                # More than once, if an agent was killed while its mount went on without it.
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


def _made(inner: Path) -> None:
    make_directory(inner.parent, 0o700, own=True)
    inner.mkdir(exist_ok=True)


def _is_sparse(parameters: Mapping[str, str]) -> bool:
    asked = parameters.get("allocation") or "reserved"
    if asked not in ("reserved", "sparse"):
        raise FilesystemError(f"the class asks for allocation {asked!r}; there are reserved and sparse")
    return asked == "sparse"


def _extend(file: Path, size: int, sparse: bool) -> None:
    """Have a file be so large."""
    size = -(-size // _BLOCK) * _BLOCK
    handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        if sparse:
            os.ftruncate(handle, size)
        else:
            present = os.fstat(handle).st_size
            if size - present > free_bytes(file.parent):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(file))
            os.posix_fallocate(handle, 0, size)
        os.fsync(handle)
    finally:
        os.close(handle)


def _told(problem: OSError, folder: Path, size: int) -> str:
    if problem.errno == errno.ENOSPC:
        near = next(one for one in (folder, *folder.parents) if one.exists())
        room = f"{folder.parent}, which has {amount_text(free_bytes(near))} left"
        return f"there is not enough space for {amount_text(size)} in {room}: free some, or request less"
    return f"{problem.filename or folder}: {problem.strerror}"


async def _device(disk: Path) -> str:
    """The loop device that a file is attached to; empty if it is to none."""
    found = await run("losetup", "--associated", str(disk), "--noheadings", "--output", "NAME")
    return found.split()[0] if found.split() else ""


async def _detach(disk: Path) -> None:
    """Have a file on no device, once nobody has it mounted: one may have been left by an agent that was killed before it mounted it."""
    if device := await _device(disk):
        try:
            await run("losetup", "--detach", device)
        except CommandError:
            # The last mount took it along, a moment ago.
            if await _device(disk) == device:
                raise


def _node(device: str) -> None:
    """The kernel may have more loop devices than there are files for them in /dev."""
    if not os.path.exists(device):
        number = int(device.removeprefix("/dev/loop"))
        os.mknod(device, stat.S_IFBLK | 0o660, os.makedev(7, number))
