"""A btrfs is moved to another file by the kernel, which needs the file's device, and room to move block groups."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.kit.waiting import eventually
from tests.node.volumes.conftest import needed

from pilothouse.aio.commands import run
from pilothouse.node.volumes.loop_backend import LoopBackend
from pilothouse.node.volumes.mount_table import unmount_below
from pilothouse.node.volumes.volume_backend import VolumeBackendError
from pilothouse.node.volumes.volume_places import VolumePlaces

MI = 1 << 20


class Moved(NamedTuple):
    loops: LoopBackend
    home: Path
    target: Path

    async def percent(self) -> float:
        return await self.loops.move_online(self.home, self.target)

    async def is_over(self) -> bool:
        return await self.percent() == 100

    async def detached_after_use(self) -> str:
        """Whether the kernel detaches the target's device with its last use, as losetup prints it."""
        disk = str(self.target / "disk")
        return (await run("losetup", "--associated", disk, "--noheadings", "--output", "AUTOCLEAR")).strip()


@pytest.fixture
async def moved(tmp_path: Path, root: None) -> AsyncIterator[Moved]:
    needed("mkfs.btrfs")
    places = VolumePlaces({"fast": tmp_path / "fast"})
    moved = Moved(LoopBackend(root=True, places=places), tmp_path / "home", tmp_path / "fast" / "home")
    await moved.loops.make(moved.home, 256 * MI, {"fsType": "btrfs", "allocation": "sparse"})
    yield moved
    unmount_below(tmp_path)
    for folder in (moved.home, moved.target):
        await moved.loops.unmount_copy(folder)


async def test_the_target_stays_attached_until_the_kernel_has_it(moved: Moved) -> None:
    """`btrfs replace start` returns before the kernel has opened the device."""
    await moved.percent()
    assert await moved.detached_after_use() == "0"
    await eventually(moved.is_over)
    assert await moved.detached_after_use() == "1"


async def test_a_file_that_the_kernel_has_open_stays(moved: Moved) -> None:
    """An earlier start may have opened it, and not be reported yet: the volume would move to a deleted file."""
    disk = moved.target / "disk"
    disk.parent.mkdir(parents=True)
    disk.touch()
    os.truncate(disk, 256 * MI)
    device = (await run("losetup", "--find", "--show", str(disk))).strip()
    before = disk.stat().st_ino
    handle = os.open(device, os.O_RDONLY)
    try:
        await moved.percent()
        assert disk.stat().st_ino == before
    finally:
        os.close(handle)
    await eventually(moved.is_over)


async def test_the_file_that_has_the_filesystem_is_not_removed(moved: Moved) -> None:
    """A move that is canceled may just be over, and the record does not say so yet."""
    await eventually(moved.is_over)
    await moved.loops.cancel_online(moved.home)
    with pytest.raises(VolumeBackendError, match="in use: it is not removed"):
        await moved.loops.remove_data(moved.target)
    assert (moved.target / "disk").exists()
    await moved.loops.remove_data(moved.home)
    assert not (moved.home / "disk").exists()


async def test_room_that_is_allocated_and_hardly_used_is_no_obstacle(moved: Moved) -> None:
    """To move a block group, the kernel may have to allocate another one."""
    mounted = await moved.loops.mount(moved.home)
    files = [mounted / f"{number}" for number in range(200)]
    with suppress(OSError):
        for file in files:
            file.write_bytes(os.urandom(MI))
    os.sync()
    for number, file in enumerate(files):
        if number % 4:
            file.unlink(missing_ok=True)
    os.sync()
    await eventually(moved.is_over)
