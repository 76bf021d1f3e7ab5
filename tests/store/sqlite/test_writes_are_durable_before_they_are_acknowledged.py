"""What was acknowledged survives a power cut, and many writes share one sync."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.store.sqlite.disks import Disk

from pilothouse.store.interface import Entry
from pilothouse.store.sqlite import SqliteStore


@pytest.fixture
def disk(request: pytest.FixtureRequest) -> Iterator[Disk]:
    with Disk(f"disk-{request.node.name}") as made:
        yield made


async def test_a_power_cut_after_any_acknowledgement_loses_nothing(tmp_path: Path, disk: Disk) -> None:
    store = await SqliteStore.open(tmp_path / "store", vfs=disk.name)
    acknowledged: dict[str, int] = {}
    for n in range(30):
        acknowledged[f"/a/{n}"] = await store.create(f"/a/{n}", b"x" * n)
        if n % 7 == 6:
            survivor = tmp_path / f"after-{n}"
            disk.save_what_survives(survivor)
            again = await SqliteStore.open(survivor)
            for key, revision in acknowledged.items():
                entry = await again.get(key)
                assert entry is not None
                assert entry.revision == revision
            assert await again.create("/new", b"") > revision
            await again.close()
            shutil.rmtree(survivor)
    await store.close()


async def test_a_power_cut_amid_many_writers_loses_nothing_acknowledged(tmp_path: Path, disk: Disk) -> None:
    store = await SqliteStore.open(tmp_path / "store", vfs=disk.name)
    acknowledged: dict[str, Entry] = {}

    async def write(n: int) -> None:
        revision = 0
        for i in range(10):
            value = f"{n}.{i}".encode()
            if revision:
                revision = await store.update(f"/a/{n}", value, revision=revision)
            else:
                created = revision = await store.create(f"/a/{n}", value)
            acknowledged[f"/a/{n}"] = Entry(f"/a/{n}", value, revision, created)

    async def cut() -> None:
        for number in range(5):
            for _ in range(40):
                await asyncio.sleep(0)
            promised = dict(acknowledged)
            survivor = tmp_path / f"cut-{number}"
            disk.save_what_survives(survivor)
            again = await SqliteStore.open(survivor)
            for key, entry in promised.items():
                found = await again.get(key)
                assert found is not None
                assert found.revision >= entry.revision
            await again.close()

    await asyncio.gather(*(write(n) for n in range(20)), cut())
    await store.close()


async def test_many_writers_share_a_sync(tmp_path: Path, disk: Disk) -> None:
    store = await SqliteStore.open(tmp_path / "store", vfs=disk.name)
    before = disk.syncs
    await asyncio.gather(*(store.create(f"/a/{n}", b"x") for n in range(200)))
    assert disk.syncs - before <= 5
    await store.close()


async def test_a_lone_writer_gets_a_sync_for_each_write(tmp_path: Path, disk: Disk) -> None:
    store = await SqliteStore.open(tmp_path / "store", vfs=disk.name)
    before = disk.syncs
    for n in range(20):
        await store.create(f"/a/{n}", b"x")
    assert disk.syncs - before >= 20
    await store.close()


async def test_a_group_reaches_a_watcher_as_one_batch(tmp_path: Path, disk: Disk) -> None:
    store = await SqliteStore.open(tmp_path / "store", vfs=disk.name)
    async with store.watch("/a/", after=store.current) as batches:
        await asyncio.gather(*(store.create(f"/a/{n}", b"x") for n in range(100)))
        batch = await anext(batches)
        assert len(batch.changes) == 100
    await store.close()
