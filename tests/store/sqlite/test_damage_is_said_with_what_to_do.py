"""A database file that is damaged: no traceback, but what, where, and what to do; and what is in memory can be saved."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from pilothouse.store.interface import Entry, StoreError, Unavailable
from pilothouse.store.sqlite import SqliteStore

PAGE = 4096


async def filled(folder: Path) -> None:
    store = await SqliteStore.open(folder)
    for number in range(300):
        await store.create(f"/registry/things/t/n{number}", b"x" * 900)
    await store.close()


def flip(file: Path, start: int, size: int) -> None:
    """As a disk does that loses what it held."""
    with file.open("r+b") as database:
        database.seek(start)
        old = database.read(size)
        database.seek(start)
        database.write(bytes(byte ^ 0xFF for byte in old))


async def create_many(store: SqliteStore) -> None:
    for number in range(10_000):
        await store.create(f"/b/{number}", bytes(5000))


@pytest.mark.parametrize("place", ["header", "first table", "middle"])
async def test_a_damaged_file_is_not_opened_and_the_error_says_what_to_do(tmp_path: Path, place: str) -> None:
    folder = tmp_path / "store"
    await filled(folder)
    file = folder / "store.db"
    size = file.stat().st_size
    start, length = {
        "header": (0, 64),
        "first table": (PAGE, 3 * PAGE),
        "middle": (size // 2 // PAGE * PAGE, 20 * PAGE),
    }[place]
    flip(file, start, length)
    with pytest.raises(StoreError) as refused:
        await SqliteStore.open(folder)
    said = str(refused.value)
    for word in (str(file), "is damaged", "pilothouse restore", str(folder)):
        assert word in said
    # Nobody holds the folder afterwards.
    with pytest.raises(StoreError, match="is damaged"):
        await SqliteStore.open(folder)


async def test_a_server_says_it_in_one_line_and_fails(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "store").mkdir(parents=True, mode=0o700)
    await filled(data / "store")
    (data / "format").write_text("1\n")
    flip(data / "store" / "store.db", PAGE, 50 * PAGE)
    argv = [sys.executable, "-m", "pilothouse", "apiserver", "--data", str(data), "--listen", "127.0.0.1:0"]
    done = await asyncio.to_thread(
        subprocess.run, argv, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    [line] = done.stderr.strip().splitlines()
    assert line.startswith(f"Error: {data / 'store' / 'store.db'} is damaged:")
    assert "pilothouse restore" in line


async def test_damage_met_while_running_ends_writes_and_keeps_what_is_in_memory(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    await filled(folder)
    store = await SqliteStore.open(folder)
    try:
        first = await store.create("/a", b"1")
        # Every page but the first, and nothing left in the write-ahead log to hide it.
        flip(folder / "store.db", PAGE, 10_000 * PAGE)
        with pytest.raises(Unavailable):
            await create_many(store)
        assert "is damaged" in store.condition.damage
        assert "pilothouse backup" in store.condition.problem
        with pytest.raises(Unavailable, match="pilothouse backup"):
            await store.create("/c", b"1")
        assert await store.get("/a") == Entry("/a", b"1", first, first)
        page = await store.list("/registry/things/", revision=await store.revision(), limit=100)
        assert len(page.entries) == 100
        assert page.remaining == 200
    finally:
        await store.close()
