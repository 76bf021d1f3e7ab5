"""Pods rename folders that are mounted for them; tables of mounts show the names of the moment."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pilothouse.node.volumes.mount_holders import mount_users
from pilothouse.node.volumes.mount_table import BIND, at, mount, mounts, unmount
from pilothouse.supervise import cgroups

NAMES = (b"\xff", b"a\x0cb", b"a\rb", b"a\x1c", "a\u2028b".encode(), "a\x85b".encode(), b"a b\nc\\d")


@pytest.fixture
def mounted(tmp_path: Path, root: None) -> Iterator[Path]:
    """What a ``subPath`` is mounted at."""
    (tmp_path / "volume" / "part").mkdir(parents=True)
    (tmp_path / "at").mkdir()
    mount(str(tmp_path / "volume" / "part"), tmp_path / "at", flags=BIND)
    yield tmp_path / "at"
    unmount(tmp_path / "at", lazily=True)


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_that_is_mounted_may_be_renamed_to_anything(mounted: Path, name: bytes) -> None:
    volume = mounted.parent / "volume"
    before = len(mounts())
    (volume / "part").rename(volume / os.fsdecode(name))
    assert len(mounts()) == before
    found = at(mounts(), mounted)
    assert found is not None
    assert found.root.endswith(f"/{os.fsdecode(name)}")
    assert os.getpid() not in mount_users(mounted)
    cgroups.find("pilothouse")


@pytest.mark.parametrize("name", NAMES)
def test_a_place_of_a_mount_may_have_any_name(mounted: Path, name: bytes) -> None:
    place = mounted.parent / os.fsdecode(name)
    place.mkdir()
    mount(str(mounted), place, flags=BIND)
    try:
        assert at(mounts(), place) is not None
        cgroups.find("pilothouse")
    finally:
        unmount(place)
