"""Not after a restart, not after a compaction, not after a restore."""

from __future__ import annotations

from pathlib import Path

import pytest

from pilothouse.store.interface import Compacted, StoreError
from pilothouse.store.sqlite import SqliteStore


async def test_not_after_everything_was_deleted_compacted_and_reopened(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "store")
    last = 0
    for _ in range(5):
        for n in range(10):
            revision = await store.create(f"/a/{n}", b"x")
            last = await store.delete(f"/a/{n}", revision=revision)
        await store.compact(last)
        await store.close()
        store = await SqliteStore.open(tmp_path / "store")
        assert store.current == last
    assert await store.create("/a", b"x") == last + 1
    await store.close()


async def test_not_after_a_copy_was_put_in_the_stores_place(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "store")
    kept = await store.create("/a/kept", b"x")
    await store.copy_to(tmp_path / "copy.db")
    for n in range(50):
        lost = await store.create(f"/a/{n}", b"x")
    await store.close()

    (tmp_path / "restored").mkdir()
    (tmp_path / "copy.db").rename(tmp_path / "restored" / "store.db")
    restored = await SqliteStore.open(tmp_path / "restored")
    assert [entry.key for entry in (await restored.list("/a/")).entries] == ["/a/kept"]
    assert restored.current > lost
    with pytest.raises(Compacted):
        await restored.list("/a/", revision=kept)
    async with restored.watch("/a/", after=lost) as batches:
        with pytest.raises(Compacted):
            await anext(batches)
    first = await restored.create("/a/new", b"x")
    await restored.close()

    again = await SqliteStore.open(tmp_path / "restored")
    assert again.current == first, "a restored store leaps once"
    await again.close()


async def test_not_after_files_were_brought_back_by_other_means(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "store")
    await store.create("/a/kept", b"x")
    await store.close()
    old = (tmp_path / "store" / "store.db").read_bytes()
    store = await SqliteStore.open(tmp_path / "store")
    for n in range(50):
        lost = await store.create(f"/a/{n}", b"x")
    await store.close()
    for file in (tmp_path / "store").glob("store.db*"):
        file.unlink()
    (tmp_path / "store" / "store.db").write_bytes(old)
    restored = await SqliteStore.open(tmp_path / "store", restored=True)
    assert await restored.create("/a/new", b"x") > lost
    await restored.close()


async def test_a_copy_holds_what_stood_and_the_store_goes_on(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "store")
    for n in range(100):
        await store.create(f"/a/{n:03}", str(n).encode())
    await store.copy_to(tmp_path / "copy.db")
    await store.create("/later", b"x")
    shown = [(entry.key, entry.value) for entry in (await store.list("/a/")).entries]
    await store.close()
    (tmp_path / "restored").mkdir()
    (tmp_path / "copy.db").rename(tmp_path / "restored" / "store.db")
    restored = await SqliteStore.open(tmp_path / "restored")
    assert [(entry.key, entry.value) for entry in (await restored.list("")).entries] == shown
    await restored.close()


async def test_a_copy_does_not_overwrite(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "store")
    (tmp_path / "copy.db").write_text("precious")
    with pytest.raises(StoreError, match=r"copy\.db"):
        await store.copy_to(tmp_path / "copy.db")
    assert (tmp_path / "copy.db").read_text() == "precious"
    await store.close()
