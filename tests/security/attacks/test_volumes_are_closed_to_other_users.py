"""Volumes in a tier: what pods leave there belongs to real users of the machine, root among them, and may be set-user-id."""

from __future__ import annotations

import pwd
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kit.containers import needs_root
from tests.kit.ordinary_user import ordinary_folder

from pilothouse.node.volumes.directory_backend import DirectoryBackend
from pilothouse.node.volumes.loop_backend import LoopBackend

pytestmark = needs_root


@pytest.fixture
def tier() -> Iterator[Path]:
    """Open to all, as the root of a disk is."""
    with ordinary_folder() as folder:
        folder.chmod(0o755)
        yield folder


def reached(file: Path) -> bool:
    """Whether another user of the machine can read a file."""
    nobody = pwd.getpwnam("nobody")
    done = subprocess.run(
        ["cat", file], user=nobody.pw_uid, group=nobody.pw_gid, capture_output=True, check=False
    )
    return done.returncode == 0


def flags_of(folder: Path) -> set[str]:
    """With which it is mounted."""
    lines = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    return next(set(line[3].split(",")) for line in lines if line[1] == str(folder))


@pytest.mark.parametrize("mode", [0o700, 0o711], ids=["new", "of an earlier release"])
async def test_a_folder_is_reached_by_none_but_its_pods(tier: Path, mode: int) -> None:
    volumes, volume = DirectoryBackend(), tier / "pvc-1"
    await volumes.make(volume, 1, {})
    volume.chmod(mode)
    inner = await volumes.mount(volume)
    (inner / "secret").write_text("secret")
    (inner / "secret").chmod(0o644)
    assert not reached(inner / "secret")


async def test_a_filesystem_gives_no_privileges_and_no_devices_and_is_reached_by_none(tier: Path) -> None:
    volumes, volume = LoopBackend(root=True), tier / "pvc-1"
    size = 400 << 20
    await volumes.make(volume, size, {})
    inner = await volumes.mount(volume)
    try:
        (inner / "secret").write_text("secret")
        assert not reached(inner / "secret")
        assert {"nosuid", "nodev"} <= flags_of(inner)
    finally:
        await volumes.unmount(volume)
