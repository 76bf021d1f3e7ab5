"""A disk that fails: every write under way is told, the store takes the disk for the truth, and goes on when it can."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.store.following import collect
from tests.store.sqlite.disks import Disk

from pilothouse.store.interface import Conflict, Entry, Unavailable
from pilothouse.store.sqlite import SqliteStore


@pytest.fixture
def disk(request: pytest.FixtureRequest) -> Iterator[Disk]:
    with Disk(f"disk-{request.node.name}") as made:
        yield made


@pytest.fixture
async def store(tmp_path: Path, disk: Disk) -> AsyncIterator[SqliteStore]:
    opened = await SqliteStore.open(tmp_path / "store", vfs=disk.name)
    yield opened
    disk.failing = disk.full = False
    await opened.close()


async def test_a_failed_commit_is_unavailable_and_nothing_changes(store: SqliteStore, disk: Disk) -> None:
    revision = await store.create("/a", b"1")
    disk.failing = True
    with pytest.raises(Unavailable, match="/a"):
        await store.update("/a", b"2", revision=revision)
    disk.failing = False
    assert await store.get("/a") == Entry("/a", b"1", revision, revision)


async def test_the_store_goes_on_when_the_disk_does(store: SqliteStore, disk: Disk) -> None:
    revision = await store.create("/a", b"1")
    disk.failing = True
    for _ in range(3):
        with pytest.raises(Unavailable):
            await store.update("/a", b"2", revision=revision)
    disk.failing = False
    updated = await _insist(store, "/a", b"3")
    assert updated > revision
    assert await store.get("/a") == Entry("/a", b"3", updated, revision)


async def test_a_full_disk_is_unavailable_until_there_is_room(store: SqliteStore, disk: Disk) -> None:
    await store.create("/a", b"1")
    disk.full = True
    with pytest.raises(Unavailable):
        await store.create("/b", b"2")
    assert await store.get("/b") is None
    disk.full = False
    await _insist(store, "/b", b"2")
    assert await store.get("/b") is not None


async def test_every_write_under_way_fails_with_the_group(store: SqliteStore, disk: Disk) -> None:
    await store.create("/a", b"1")
    disk.failing = True
    results = await asyncio.gather(
        *(store.create(f"/n/{n}", b"x") for n in range(30)), return_exceptions=True
    )
    assert all(isinstance(result, Unavailable) for result in results)
    disk.failing = False
    assert (await store.list("/n/")).entries == []


async def test_watchers_are_not_told_of_what_was_not_written(store: SqliteStore, disk: Disk) -> None:
    async with store.watch("/", after=store.current) as batches:
        disk.failing = True
        with pytest.raises(Unavailable):
            await store.create("/lost", b"1")
        disk.failing = False
        await _insist(store, "/kept", b"2")
        assert [change.key for change in await collect(batches, 1)] == ["/kept"]


async def test_the_revisions_of_failed_writes_are_not_used_again(store: SqliteStore, disk: Disk) -> None:
    before = await store.create("/a", b"1")
    disk.failing = True
    with pytest.raises(Unavailable):
        await store.create("/b", b"2")
    disk.failing = False
    assert await _insist(store, "/c", b"3") > before + 1


async def test_what_the_store_says_after_a_failure_is_what_is_on_disk(
    store: SqliteStore, disk: Disk, tmp_path: Path
) -> None:
    for n in range(10):
        await store.create(f"/a/{n}", b"x")
    disk.failing = True
    await asyncio.gather(*(store.create(f"/b/{n}", b"x") for n in range(10)), return_exceptions=True)
    disk.failing = False
    await _insist(store, "/c", b"x")
    shown = (await store.list("")).entries
    await store.close()
    again = await SqliteStore.open(tmp_path / "store")
    assert (await again.list("")).entries == shown
    await again.close()


async def test_a_write_that_waits_for_another_to_settle_is_decided_on_what_is_durable(
    store: SqliteStore, disk: Disk
) -> None:
    disk.stalled = threading.Event()
    first = asyncio.ensure_future(store.create("/a", b"first"))
    await asyncio.sleep(0)
    second = asyncio.ensure_future(store.create("/a", b"second"))
    await asyncio.sleep(0)
    disk.failing = True
    disk.stalled.set()
    disk.stalled = None
    with pytest.raises(Unavailable):
        await first
    disk.failing = False
    # The first was never there, so the second is no conflict; at worst the disk was still failing for it.
    (outcome,) = await asyncio.gather(second, return_exceptions=True)
    assert not isinstance(outcome, Conflict)


async def test_reads_go_on_while_the_disk_stalls(store: SqliteStore, disk: Disk) -> None:
    revision = await store.create("/a", b"1")
    gate = disk.stalled = threading.Event()
    writing = asyncio.ensure_future(store.update("/a", b"2", revision=revision))
    await asyncio.sleep(0)
    assert await store.get("/a") == Entry("/a", b"1", revision, revision)
    assert (await store.list("/")).entries[0].value == b"1"
    assert not writing.done()
    disk.stalled = None
    gate.set()
    assert await writing > revision


async def _insist(store: SqliteStore, key: str, value: bytes) -> int:
    """Write a key until the store takes it: the first commit after a failure may fail while it finds out the truth."""
    for _ in range(10):
        try:
            entry = await store.get(key)
            if entry is None:
                return await store.create(key, value)
            return await store.update(key, value, revision=entry.revision)
        except Unavailable:
            continue
    raise AssertionError(f"{key} could not be written")
