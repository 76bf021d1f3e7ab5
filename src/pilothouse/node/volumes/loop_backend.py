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
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from pilothouse.aio.commands import CommandError, available, run
from pilothouse.node.files.directory_handles import closing_handle, make_directory, set_mode
from pilothouse.node.volumes import btrfs_replace
from pilothouse.node.volumes.filesystems import BTRFS, KNOWN, FilesystemError, chosen
from pilothouse.node.volumes.mount_table import at, mounts, unmount
from pilothouse.node.volumes.move_journal import MovePhase, read_move
from pilothouse.node.volumes.volume_attributes import RESERVED, SPARSE
from pilothouse.node.volumes.volume_backend import (
    VolumeBackendError,
    amount_text,
    free_bytes,
    read_record,
)
from pilothouse.node.volumes.volume_places import VolumePlaces

_DISK: Final = "disk"
_COPY: Final = "copy"
"""Where the node mounts a copy that is not the volume yet."""
_BLOCK: Final = 4096
_TRIMMING: Final = 1800.0
"""Seconds that returning unused space may take."""
_ATTEMPTS: Final = 60
"""How often ``btrfs replace`` is started for a volume before that is an error."""
_DETACHING: Final = 20
"""Tenths of seconds that the kernel may take to detach a file that is not used any more."""
_libc = ctypes.CDLL(None, use_errno=True)


class LoopBackend:
    """``pilothouse.io/loop``: a ``VolumeBackend``."""

    inner: Final = "mount"

    def __init__(self, *, root: bool, places: VolumePlaces = VolumePlaces()) -> None:
        self._root = root
        self._places = places
        self._replaced: dict[Path, int] = {}
        """How often ``btrfs replace`` was started for a volume, by directory."""
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
        if not (disk := self._disk(folder)).exists():
            raise VolumeBackendError(f"its file {disk} does not exist on this node")
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
        target, disks = folder / self.inner, self._disks(folder)
        set_mode(folder, 0o700, own=True)
        if at(mounts(), target) is not None:
            return target
        target.mkdir(exist_ok=True)
        try:
            devices = [await _attached(disk) for disk in disks]
            try:
                await _mount_device(devices[0], target, devices[1:])
            except CommandError:
                if len(devices) == 1:
                    raise
                # btrfs has moved all, and the first one is not its own any more.
                await _mount_device(devices[1], target)
        finally:
            # The device then goes with its last mount in any namespace, or at once if mounting failed.
            for disk in disks:
                await _detach(disk)
        return target

    def _disk(self, folder: Path) -> Path:
        return self._places.data(folder) / _DISK

    def _disks(self, folder: Path) -> list[Path]:
        """The files of a volume: two while btrfs moves it from the first to the second."""
        move = read_move(folder)
        disks = [self._disk(folder)]
        if move is not None and move.phase is MovePhase.REPLACING:
            both = self._places.folder(folder, move.source), self._places.folder(folder, move.target)
            disks = [place / _DISK for place in both if (place / _DISK).exists()] or disks
        return disks

    async def expand(self, folder: Path, size: int) -> None:
        target, disk = await self.mount(folder), self._disk(folder)
        try:
            if disk.stat().st_size < size:
                await asyncio.to_thread(_extend, disk, size, not _is_reserved(disk))
            await _fill_device(target)
        except CommandError as problem:
            raise VolumeBackendError(f"failed to resize the filesystem: {problem}") from None
        except OSError as problem:
            raise VolumeBackendError(_reason(problem, disk.parent, size)) from None

    async def allocate(self, folder: Path, allocation: str) -> None:
        target, disk = await self.mount(folder), self._disk(folder)
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

    def allocation(self, folder: Path) -> str:
        return RESERVED if _is_reserved(self._disk(folder)) else SPARSE

    async def unmount(self, folder: Path) -> None:
        await self._unmount(folder / self.inner, self._disks(folder))

    async def _unmount(self, target: Path, disks: Sequence[Path]) -> None:
        async with self._lock:
            try:
                # Several times, if an agent was killed while its mount command went on.
                while at(mounts(), target) is not None:
                    unmount(target)
                for disk in disks:
                    if disk.exists():
                        await _detach(disk)
            except OSError as problem:
                raise VolumeBackendError(f"failed to unmount {target}: {problem.strerror}") from None
            except CommandError as problem:
                raise VolumeBackendError(f"failed to detach {target}: {problem}") from None

    async def make_copy(self, folder: Path, target: Path, allocation: str) -> None:
        source = self._disk(folder)
        record = read_record(folder)
        disk, draft, size = target / _DISK, target / f"{_DISK}.draft", source.stat().st_size
        sparse = allocation == SPARSE
        try:
            make_directory(target, 0o700, own=True)
            if not disk.exists():
                draft.unlink(missing_ok=True)
                await asyncio.to_thread(_extend, draft, size, sparse)
                await KNOWN[record.filesystem if record is not None else "xfs"].make(str(draft))
                if not sparse:
                    await asyncio.to_thread(_reserve, draft)
                draft.rename(disk)
            elif disk.stat().st_size < size:
                await asyncio.to_thread(_extend, disk, size, sparse)
                await _fill_device(await self.mount_copy(target))
        except CommandError as problem:
            draft.unlink(missing_ok=True)
            raise VolumeBackendError(f"failed to make a copy in {target.parent}: {problem}") from None
        except OSError as problem:
            draft.unlink(missing_ok=True)
            raise VolumeBackendError(_reason(problem, target, size)) from None

    async def mount_copy(self, target: Path) -> Path:
        disk, place = target / _DISK, target / _COPY
        async with self._lock:
            try:
                if at(mounts(), place) is None:
                    place.mkdir(exist_ok=True)
                    try:
                        await _mount_device(await _attached(disk), place)
                    finally:
                        await _detach(disk)
            except CommandError as problem:
                raise VolumeBackendError(f"failed to mount the copy: {problem}") from None
            except OSError as problem:
                raise VolumeBackendError(f"{problem.filename or target}: {problem.strerror}") from None
        return place

    async def unmount_copy(self, target: Path) -> None:
        await self._unmount(target / _COPY, [target / _DISK])
        if (target / _COPY).exists():
            (target / _COPY).rmdir()

    async def remove_data(self, folder: Path) -> None:
        await self.unmount_copy(folder)
        disk = folder / _DISK
        for _ in range(_DETACHING):
            if not await self._attached_device(disk):
                break
            await asyncio.sleep(0.1)
        else:
            # btrfs may have moved there, and the record does not say so yet.
            raise VolumeBackendError(f"{disk} is in use: it is not removed")
        for name in (_DISK, f"{_DISK}.draft"):
            (folder / name).unlink(missing_ok=True)

    def moves_online(self, folder: Path) -> bool:
        record = read_record(folder)
        return record is not None and record.filesystem == BTRFS.name

    async def move_online(self, folder: Path, target: Path) -> float:
        mounted, disk = await self.mount(folder), target / _DISK
        try:
            if await self._is_on(folder, disk):
                self._replaced.pop(folder, None)
                await self._release(disk)
                return 100.0
            progress = await btrfs_replace.progress(mounted)
            if progress.is_running:
                await self._release(disk)
            if progress.errors:
                await btrfs_replace.cancel(mounted)
                raise VolumeBackendError(f"btrfs replace has failed to write to {disk}")
            if not progress.is_running:
                # The kernel cancels it while it finds no room for a block group: that may pass.
                if attempts := self._replaced.pop(folder, 0):
                    with suppress(CommandError):  # It may have no room for that either.
                        await btrfs_replace.make_room(mounted)
                if attempts >= _ATTEMPTS:
                    raise VolumeBackendError(
                        "btrfs has canceled the move again and again, as it has too little unallocated "
                        "space: grow the claim"
                    )
                self._replaced[folder] = attempts + 1
                await self._begin_replace(folder, mounted, disk)
            return min(progress.percent, 99.9) if progress.is_running else 0.0
        except CommandError as problem:
            raise VolumeBackendError(f"failed to move the filesystem: {problem}") from None
        except OSError as problem:
            size = self._disk(folder).stat().st_size
            raise VolumeBackendError(_reason(problem, target, size)) from None

    async def _begin_replace(self, folder: Path, mounted: Path, disk: Path) -> None:
        found = at(mounts(), mounted)
        assert found is not None  # The caller has mounted it.
        make_directory(disk.parent, 0o700, own=True)
        await self._release(disk)
        if await _device(disk):
            # An earlier start has only just opened it.
            return
        await asyncio.to_thread(disk.unlink, missing_ok=True)
        # Reserved, whatever the volume is: btrfs goes on where it fails to write.
        await asyncio.to_thread(_extend, disk, self._disk(folder).stat().st_size, False)
        async with self._lock:
            # Detached once the kernel has opened it.
            await btrfs_replace.start(found.source, await _attached(disk), mounted)

    async def _release(self, disk: Path) -> None:
        """Have the device of a file detached with its last use."""
        async with self._lock:
            await _detach(disk)

    async def _is_on(self, folder: Path, disk: Path) -> bool:
        """Whether the volume is mounted from this file."""
        found = at(mounts(), folder / self.inner)
        present = await asyncio.to_thread(disk.exists)
        return present and found is not None and found.source == await _device(disk)

    async def cancel_online(self, folder: Path) -> None:
        try:
            mounted = await self.mount(folder)
            if (await btrfs_replace.progress(mounted)).is_running:
                await btrfs_replace.cancel(mounted)
        except CommandError as problem:
            raise VolumeBackendError(f"failed to cancel the move: {problem}") from None

    async def is_attached(self, folder: Path) -> bool:
        return bool(await self._attached_device(self._disk(folder)))

    async def _attached_device(self, disk: Path) -> str:
        try:
            return await _device(disk)
        except CommandError as problem:
            raise VolumeBackendError(str(problem)) from None

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


def _is_reserved(disk: Path) -> bool:
    found = disk.stat()
    return found.st_blocks * 512 >= found.st_size * 9 // 10


async def _attached(disk: Path) -> str:
    """The loop device of a file, attached to one if need be."""
    if device := await _device(disk):
        return device
    _make_node((await run("losetup", "--find")).strip())
    return (await run("losetup", "--find", "--show", str(disk))).strip()


async def _mount_device(device: str, target: Path, others: Sequence[str] = ()) -> None:
    # Files of pods belong to real users of the machine, and may be set-user-id.
    options = ",".join(["nosuid", "nodev", *(f"device={other}" for other in others)])
    await run("mount", "-o", options, device, str(target))


async def _fill_device(target: Path) -> None:
    """Grow a mounted filesystem to the size of its file."""
    mounted = at(mounts(), target)
    assert mounted is not None  # The caller has mounted it.
    await run("losetup", "--set-capacity", mounted.source)
    await KNOWN[mounted.kind].grow(str(target), mounted.source)


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
