"""The folder: locked, private, versioned."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from pilothouse.store.interface import StoreError
from pilothouse.store.sqlite import SqliteStore
from pilothouse.store.store_directory import FormatTooNew, StoreDirectoryInUse


async def test_a_second_owner_is_told_who_holds_the_folder(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "store")
    with pytest.raises(StoreDirectoryInUse, match=rf"pid {os.getpid()}\b"):
        await SqliteStore.open(tmp_path / "store")
    await store.close()


async def test_the_lock_goes_with_the_store(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "store")
    revision = await store.create("/a", b"1")
    await store.close()
    again = await SqliteStore.open(tmp_path / "store")
    assert again.current == revision
    await again.close()


async def test_a_lock_file_left_behind_by_a_dead_process_is_no_obstacle(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    folder.mkdir()
    (folder / "lock").write_text("4194300\n")
    store = await SqliteStore.open(folder)
    assert (folder / "lock").read_text() == f"{os.getpid()}\n"
    await store.close()


async def test_nobody_else_can_read_the_files(tmp_path: Path) -> None:
    old = os.umask(0o000)
    try:
        store = await SqliteStore.open(tmp_path / "store")
        await store.create("/secret", b"1")
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in (tmp_path / "store").iterdir()}
        await store.copy_to(tmp_path / "copy.db")
        copied = stat.S_IMODE((tmp_path / "copy.db").stat().st_mode)
        await store.close()
    finally:
        os.umask(old)
    assert modes
    assert {"store.db", "store.db-wal", "lock", "format"} <= set(modes)
    assert set(modes.values()) == {0o600}
    assert copied == 0o600
    assert stat.S_IMODE((tmp_path / "store").stat().st_mode) == 0o700


async def test_a_folder_of_a_newer_format_is_refused_and_left_alone(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "store")
    await store.create("/a", b"1")
    await store.close()
    (tmp_path / "store" / "format").write_text("2\n")
    before = (tmp_path / "store" / "store.db").read_bytes()
    with pytest.raises(FormatTooNew, match="format 2"):
        await SqliteStore.open(tmp_path / "store")
    assert (tmp_path / "store" / "store.db").read_bytes() == before


async def test_a_format_that_is_no_number_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "format").write_text("banana\n")
    with pytest.raises(StoreError, match="banana"):
        await SqliteStore.open(tmp_path / "store")


async def test_a_refused_folder_is_not_kept_locked(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "format").write_text("9\n")
    with pytest.raises(FormatTooNew):
        await SqliteStore.open(tmp_path / "store")
    (tmp_path / "store" / "format").write_text("1\n")
    store = await SqliteStore.open(tmp_path / "store")
    assert store.current >= 1
    await store.close()


async def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "store.db").write_bytes(b"this is not a database, it is a sentence " * 50)
    with pytest.raises(StoreError, match=r"store\.db"):
        await SqliteStore.open(tmp_path / "store")


def test_the_local_backends_do_not_need_protobuf() -> None:
    import subprocess

    probe = (
        "import sys, pilothouse.store.factory, pilothouse.store.sqlite, pilothouse.store.memory;"
        "sys.exit('google.protobuf' in sys.modules)"
    )
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", probe], env=env, check=False).returncode == 0
