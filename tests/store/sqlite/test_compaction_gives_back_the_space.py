"""Compaction really removes rows, in small steps that writers hardly notice, and the write-ahead log stays short."""

from __future__ import annotations

import asyncio
from pathlib import Path

import apsw
from tests.kit.waiting import eventually

from pilothouse.store.sqlite import SqliteStore


def rows(folder: Path) -> int:
    connection = apsw.Connection(str(folder / "store.db"), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return int(connection.execute("SELECT count(*) FROM log").get)
    finally:
        connection.close()


async def churn(store: SqliteStore, keys: int, rounds: int) -> None:
    async def one(n: int) -> None:
        revision = await store.create(f"/a/{n}", b"0")
        for i in range(1, rounds):
            revision = await store.update(f"/a/{n}", str(i).encode(), revision=revision)
        if n % 2:
            await store.delete(f"/a/{n}", revision=revision)

    await asyncio.gather(*(one(n) for n in range(keys)))


async def test_only_the_standing_values_remain(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "store")
    await churn(store, keys=40, rounds=50)
    assert rows(tmp_path / "store") == 40 * 50 + 20
    await store.compact(store.current)

    async def swept() -> bool:
        return rows(tmp_path / "store") == 20

    await eventually(swept)
    assert len((await store.list("/a/")).entries) == 20
    await store.close()


async def test_history_above_the_mark_remains(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "store")
    await churn(store, keys=10, rounds=20)
    middle = store.current
    standing = {entry.key: entry.value for entry in (await store.list("/a/")).entries}
    for entry in (await store.list("/a/")).entries:
        await store.delete(entry.key, revision=entry.revision)
    await store.compact(middle)

    async def swept() -> bool:
        return rows(tmp_path / "store") == 2 * len(standing)

    await eventually(swept)
    page = await store.list("/a/", revision=middle)
    assert {entry.key: entry.value for entry in page.entries} == standing
    await store.close()


async def test_a_walk_that_was_cut_short_is_taken_up_again(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "store")
    await churn(store, keys=40, rounds=100)
    await store.compact(store.current)
    await store.close()
    left = rows(tmp_path / "store")
    again = await SqliteStore.open(tmp_path / "store")

    async def swept() -> bool:
        return rows(tmp_path / "store") == 20

    await eventually(swept)
    assert left >= 20
    assert len((await again.list("/a/")).entries) == 20
    await again.close()


async def test_writers_take_turns_with_the_walk(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "store")
    await churn(store, keys=40, rounds=100)
    await store.compact(store.current)
    for n in range(10):
        await store.create(f"/b/{n}", b"x")
    # Sixteen steps of 256 rows are needed; ten commits in between leave some of them to do.
    assert rows(tmp_path / "store") > 30

    async def swept() -> bool:
        return rows(tmp_path / "store") == 30

    await eventually(swept)
    await store.close()


async def test_the_write_ahead_log_does_not_grow_without_end(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "store")
    value = b"x" * 4000
    longest = 0
    for i in range(60):
        await asyncio.gather(*(store.create(f"/a/{i}/{n}", value) for n in range(250)))
        longest = max(longest, (tmp_path / "store" / "store.db-wal").stat().st_size)
    written = 60 * 250 * len(value)
    assert longest < written / 1.5
    await store.close()
