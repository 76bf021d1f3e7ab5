"""Where a container's folder is on a disk without room: starts are refused with the reason, and ends are written down."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kit.containers import Box, needs_root

from pilothouse.supervise.containers import adopt
from pilothouse.supervise.launch_spec import ContainerExit, LaunchError

pytestmark = needs_root


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "pilothouse-test", folder], check=True)
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def fill(disk: Path, *, leave: int = 0) -> Path:
    """Until nothing more goes onto it, but so many bytes."""
    path = disk / "filling"
    free = os.statvfs(disk)
    path.write_bytes(b"x" * (free.f_bavail * free.f_frsize - leave))
    assert os.statvfs(disk).f_bavail * free.f_frsize == leave
    return path


async def test_the_exit_is_written_down(box: Box, disk: Path) -> None:
    container = await box.shell("echo up; read x; seq 1 20000; exit 5", folder=disk / "c", stdin=True)
    await box.says(container, "up")
    fill(disk)
    attached = await container.attach()
    await attached.send(b"go\n")
    assert (await container.exited()).code == 5
    await attached.aclose()
    found = await adopt(disk / "c")
    assert isinstance(found, ContainerExit)
    assert (found.code, found.lost) == (5, False)


async def test_what_is_in_the_log_stays_whole(box: Box, disk: Path) -> None:
    container = await box.shell("seq 1 20000; exit 5", folder=disk / "c")
    assert (await container.exited()).code == 5
    numbers = [int(line) for line in box.output(container)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert 1000 < len(numbers) < 20000


@pytest.mark.parametrize("leave", [0, 4096, 8192])
async def test_a_start_is_refused_with_the_reason_and_can_be_tried_again(
    box: Box, disk: Path, leave: int
) -> None:
    """Each of the first files takes a block of 4096 bytes: it runs out at one after the other."""
    filling = fill(disk, leave=leave)
    with pytest.raises((LaunchError, OSError), match="No space left on device"):
        await box.shell("exit 3", folder=disk / "c")
    assert await adopt(disk / "c") is None
    filling.unlink()
    assert (await (await box.shell("exit 3", folder=disk / "c")).exited()).code == 3
