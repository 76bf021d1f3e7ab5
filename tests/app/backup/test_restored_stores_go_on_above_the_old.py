from __future__ import annotations

import time
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import msgspec
import pytest
from tests.app.backup.writing import PREFIXES, back_up, read
from tests.kit.etcd import EtcdServer

from pilothouse.store.backup_file import Saved
from pilothouse.store.etcd import EtcdStore
from pilothouse.store.interface import Compacted, Conflict, Entry, Store, StoreError
from pilothouse.store.memory import MemoryStore
from pilothouse.store.restore import MARK, NotEmpty, continued, differences, restore_entries
from pilothouse.store.sqlite import SqliteStore
from pilothouse.store.sqlite_restore import fill_folder

SAVED = [Saved(f"/registry/configmaps/t/c{n:04}", b'{"n":%d}' % n) for n in range(1500)]
BASE = 51_234


def for_ever(saved: Saved) -> float:
    return 0


async def restored_sqlite(folder: Path) -> Store:
    assert fill_folder(folder, SAVED, base=BASE, lifetime=for_ever, now=time.time()) == len(SAVED)
    return await SqliteStore.open(folder)


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServer]:
    server = EtcdServer.start(tmp_path_factory.mktemp("etcd"))
    yield server
    server.stop()


@pytest.fixture(params=["sqlite", pytest.param("etcd", marks=pytest.mark.etcd)])
async def restored(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    if request.param == "sqlite":
        store: Store = await restored_sqlite(tmp_path / "store")
    else:
        endpoint = request.getfixturevalue("etcd").endpoint
        inner = await EtcdStore.open([endpoint], prefix=f"/{uuid.uuid4().hex}")
        assert await restore_entries(inner, SAVED, PREFIXES, base=BASE, lifetime=for_ever) == len(SAVED)
        store = await continued(inner)
    yield store
    await store.close()


async def found(store: Store, key: str) -> Entry:
    entry = await store.get(key)
    assert entry is not None
    return entry


async def test_everything_is_there(restored: Store) -> None:
    assert await differences(restored, SAVED, PREFIXES) == []
    assert read(await back_up(restored, without=(MARK,))) == SAVED


async def test_what_is_different_is_named(restored: Store) -> None:
    await restored.create("/registry/configmaps/t/a", b"new")
    first = await found(restored, SAVED[0].key)
    await restored.update(first.key, b"other", revision=first.revision)
    second = await found(restored, SAVED[1].key)
    await restored.delete(second.key, revision=second.revision)
    last = await found(restored, SAVED[-1].key)
    await restored.delete(last.key, revision=last.revision)
    assert await differences(restored, SAVED, PREFIXES) == [
        "/registry/configmaps/t/a should not be there",
        f"{SAVED[0].key} has another value",
        f"{SAVED[1].key} is missing",
        f"{SAVED[-1].key} is missing",
    ]


async def test_every_revision_is_above_the_old_ones(restored: Store) -> None:
    far = BASE + 10**11
    assert await restored.revision() > far
    assert all(entry.revision > far for entry in (await restored.list("/registry/")).entries)
    assert await restored.create("/registry/configmaps/t/new", b"{}") > far


@pytest.mark.parametrize("remembered", [1, BASE, BASE + 100_000])
async def test_who_remembers_an_old_revision_is_told_to_list_again(restored: Store, remembered: int) -> None:
    with pytest.raises(Compacted) as gone:
        await restored.list("/registry/", revision=remembered)
    assert remembered < gone.value.oldest <= await restored.revision()
    async with restored.watch("/registry/", after=remembered) as batches:
        with pytest.raises(Compacted):
            await anext(batches)


async def test_a_write_based_on_an_old_read_is_refused(restored: Store) -> None:
    with pytest.raises(Conflict) as conflict:
        await restored.update(SAVED[7].key, b"{}", revision=7)
    assert conflict.value.current is not None
    assert conflict.value.current.value == SAVED[7].value


async def test_watches_go_on_from_the_restored_state(restored: Store) -> None:
    async with restored.watch("/registry/", after=await restored.revision()) as batches:
        written = await restored.create("/registry/configmaps/t/new", b"{}")
        while not (batch := await anext(batches)).changes:
            pass
    assert [change.revision for change in batch.changes] == [written]


async def test_what_was_short_lived_is_so_again(tmp_path: Path) -> None:
    clock = [1000.0]
    fill_folder(
        tmp_path,
        [Saved("/registry/events/t/a", b"{}"), Saved("/registry/pods/t/a", b"{}")],
        base=5,
        lifetime=lambda saved: 60 if "/events/" in saved.key else 0,
        now=clock[0],
    )
    clock[0] += 61
    store = await SqliteStore.open(tmp_path, clock=lambda: clock[0])
    try:
        async with store.watch("/registry/", after=await store.revision()) as batches:
            while (await store.get("/registry/events/t/a")) is not None:
                await anext(batches)
        assert await store.get("/registry/pods/t/a") is not None
    finally:
        await store.close()


async def test_a_restored_store_can_be_restored_again(tmp_path: Path) -> None:
    store = await restored_sqlite(tmp_path / "one")
    try:
        reached = await store.revision()
        content = await back_up(store)
    finally:
        await store.close()
    fill_folder(tmp_path / "two", read(content), base=reached, lifetime=for_ever, now=0)
    again = await SqliteStore.open(tmp_path / "two")
    try:
        assert await again.revision() > reached
        assert await differences(again, SAVED, PREFIXES) == []
    finally:
        await again.close()


async def test_nothing_is_restored_over_something(tmp_path: Path) -> None:
    await (await restored_sqlite(tmp_path)).close()
    with pytest.raises(NotEmpty, match="holds a store already"):
        fill_folder(tmp_path, SAVED, base=1, lifetime=for_ever, now=0)
    store = MemoryStore()
    await store.create("/registry/pods/t/a", b"{}")
    await store.create("/registry/pods/t/b", b"{}")
    with pytest.raises(NotEmpty, match="it has /registry/pods/t/a and 1 other keys below /registry/"):
        await restore_entries(store, SAVED, PREFIXES, base=1, lifetime=for_ever)
    assert await store.revision() == 3


def broken_off() -> Iterator[Saved]:
    yield from SAVED[:700]
    raise StoreError("the backup ended too early")


async def test_a_store_that_was_filled_by_half_is_not_worked_on() -> None:
    store = MemoryStore()
    with pytest.raises(StoreError, match="too early"):
        await restore_entries(store, broken_off(), PREFIXES, base=1, lifetime=for_ever)
    with pytest.raises(StoreError, match="was interrupted"):
        await continued(store)
    with pytest.raises(NotEmpty):
        await restore_entries(store, SAVED, PREFIXES, base=1, lifetime=for_ever)


async def test_a_store_that_was_never_restored_is_taken_as_it_is() -> None:
    store = MemoryStore()
    assert await continued(store) is store
    await store.create(MARK, msgspec.json.encode("garbage"))
    with pytest.raises(StoreError, match=f"{MARK} in the store can't be read"):
        await continued(store)
