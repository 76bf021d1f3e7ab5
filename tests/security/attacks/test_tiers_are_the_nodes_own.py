"""Folders for volumes that another user of the machine owns, or can write, or has exchanged."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.running import pilothouse
from tests.kit.containers import needs_root
from tests.kit.ordinary_user import ordinary_folder
from tests.kit.other_users import as_user

from pilothouse.node.volumes.directory_backend import DirectoryBackend
from pilothouse.node.volumes.loop_backend import LoopBackend
from pilothouse.node.volumes.orphaned_volumes import folders
from pilothouse.node.volumes.tier_permissions import tier_problem
from pilothouse.node.volumes.volume_backend import VolumeBackendError, VolumeRecord, read_record, write_record

pytestmark = needs_root

OTHER = 64_998


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder of root's that everybody can enter."""
    with ordinary_folder() as folder:
        os.chown(folder, 0, 0)
        folder.chmod(0o755)
        yield folder


def test_a_folder_of_roots_is_fine_and_so_is_one_that_is_not_there_yet(place: Path) -> None:
    (place / "tier").mkdir()
    assert tier_problem(place / "tier") == ""
    assert tier_problem(place / "tier" / "not" / "yet") == ""
    (place / "tier").chmod(0o1777)
    assert tier_problem(place / "tier") == "", "nobody can exchange folders of others there"


@pytest.mark.parametrize("above", [True, False])
def test_a_folder_that_another_user_owns_or_can_write_is_none(place: Path, above: bool) -> None:
    tier = place / "mount" / "tier"
    tier.mkdir(parents=True)
    bad = tier.parent if above else tier
    os.chown(bad, OTHER, OTHER)
    assert f"{bad} belongs to user {OTHER}" in tier_problem(tier)
    os.chown(bad, 0, OTHER)
    for mode in (0o775, 0o757):
        bad.chmod(mode)
        assert f"chmod go-w {bad}" in tier_problem(tier)


def test_a_link_in_a_folder_that_others_can_write_is_no_way_to_one(place: Path) -> None:
    (place / "open").mkdir()
    (place / "open").chmod(0o777)
    (place / "tier").mkdir()
    (place / "open" / "link").symlink_to(place / "tier")
    assert f"chmod go-w {place / 'open'}" in tier_problem(place / "open" / "link")
    (place / "link").symlink_to(place / "open")
    assert f"chmod go-w {place / 'open'}" in tier_problem(place / "link").replace("link", "open")


def test_nothing_starts_on_such_a_folder(place: Path, tmp_path: Path) -> None:
    os.chown(place, OTHER, OTHER)
    done = pilothouse("up", "--data", str(tmp_path / "data"), "--tier", f"fast={place}")
    assert done.returncode == 2
    assert f"{place} belongs to user {OTHER}, who could exchange the volumes in it" in " ".join(
        done.stderr.split()
    )


async def test_a_folder_that_another_user_has_exchanged_is_not_taken(place: Path) -> None:
    volume, volumes = place / "pvc-1", DirectoryBackend()
    await volumes.make(volume, 1, {})
    assert await volumes.mount(volume) == volume / "data"
    os.chown(place, OTHER, OTHER)

    def exchange() -> str:
        volume.rename(place / "was")
        (volume / "data").mkdir(parents=True)
        (volume / "data").chmod(0o777)
        return "exchanged"

    assert as_user(OTHER, exchange) == "exchanged"
    said = rf"(it belongs to|was made by) user {OTHER}\b"
    with pytest.raises(VolumeBackendError, match=said):
        await volumes.mount(volume)
    with pytest.raises(VolumeBackendError, match=said):
        await volumes.make(volume, 1, {})
    loops = LoopBackend(root=True)
    if not loops.obstacle():
        (volume / "disk").write_bytes(b"a filesystem of somebody else's")
        with pytest.raises(VolumeBackendError, match=said):
            await loops.mount(volume)
        with pytest.raises(VolumeBackendError, match=said):
            await loops.make(volume, 400 << 20, {})


def test_what_another_user_has_put_there_is_no_volume(place: Path) -> None:
    place.chmod(0o1777)
    target = place / "made-by-root"

    def forge() -> str:
        (place / "pvc-1").mkdir()
        (place / "pvc-1" / "announced").symlink_to(target)
        write_record(place / "pvc-1", VolumeRecord("pvc-1", "pilothouse.io/directory", "1", 1))
        (place / "pvc-2").symlink_to(place)
        return "forged"

    assert as_user(OTHER, forge) == "forged"
    assert list(folders([place])) == []
    with pytest.raises(VolumeBackendError, match=f"made by user {OTHER}"):
        read_record(place / "pvc-1")
    with pytest.raises(VolumeBackendError):
        read_record(place / "pvc-2")
    shutil.rmtree(place / "pvc-1")
    assert read_record(place / "pvc-1") is None
