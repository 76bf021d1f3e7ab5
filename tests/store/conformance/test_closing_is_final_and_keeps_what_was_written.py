"""Closing: calls end, none hangs; what was acknowledged is there when the store is opened again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.store.backends import Backend
from tests.store.following import PATIENCE, brief, collect

from pilothouse.store.interface import Batch, Compacted, Entry, Store, Unavailable


def forgets(backend: Backend) -> bool:
    return backend.name == "memory"


async def test_reads_of_a_closed_store_are_refused(store: Store) -> None:
    await store.close()
    for call in (store.get("/a"), store.list("/"), store.revision()):
        with pytest.raises(Unavailable):
            await call


async def test_writes_to_a_closed_store_are_refused(store: Store) -> None:
    revision = await store.revision()
    await store.close()
    calls = (
        store.create("/a", b"1"),
        store.update("/a", b"1", revision=revision),
        store.delete("/a", revision=revision),
        store.compact(revision),
        store.progress(),
    )
    for call in calls:
        with pytest.raises(Unavailable):
            await call


async def test_a_watch_of_a_closed_store_is_refused(store: Store) -> None:
    revision = await store.revision()
    await store.close()
    with pytest.raises(Unavailable):
        async with store.watch("/", after=revision) as batches:
            await anext(batches)


async def test_an_open_watch_ends_when_the_store_is_closed(store: Store) -> None:
    async with store.watch("/a/", after=await store.revision()) as batches:
        waiting = asyncio.ensure_future(_read_to_the_end(batches))
        await asyncio.sleep(0)
        await store.close()
        with pytest.raises(Unavailable):
            await asyncio.wait_for(waiting, PATIENCE)


async def _read_to_the_end(batches: AsyncIterator[Batch]) -> None:
    async for _ in batches:
        pass


async def test_closing_twice_is_no_error(store: Store) -> None:
    await store.create("/a", b"1")
    await store.close()
    await store.close()
    with pytest.raises(Unavailable):
        await store.get("/a")


async def test_writes_under_way_end_one_way_or_the_other(store: Store, backend: Backend) -> None:
    writes = [asyncio.ensure_future(store.create(f"/a/{n}", b"x")) for n in range(50)]
    await asyncio.sleep(0)
    await store.close()
    results = await asyncio.wait_for(asyncio.gather(*writes, return_exceptions=True), PATIENCE)
    assert all(isinstance(result, int | Unavailable) for result in results)
    if not forgets(backend):
        again = await backend.open()
        for n, result in enumerate(results):
            if isinstance(result, int):
                assert await again.get(f"/a/{n}") == Entry(f"/a/{n}", b"x", result, result)


async def test_what_was_written_is_there_after_reopening(store: Store, backend: Backend) -> None:
    created = await store.create("/a/1", b"1")
    updated = await store.update("/a/1", b"2", revision=created)
    gone = await store.create("/a/2", b"x")
    deleted = await store.delete("/a/2", revision=gone)
    await store.close()
    again = await backend.open()
    if forgets(backend):
        assert (await again.list("")).entries == []
        return
    assert (await again.list("/a/")).entries == [Entry("/a/1", b"2", updated, created)]
    assert await again.revision() == deleted
    assert await again.update("/a/1", b"3", revision=updated) == deleted + 1


async def test_history_is_there_after_reopening(store: Store, backend: Backend) -> None:
    start = await store.revision()
    created = await store.create("/a/1", b"1")
    updated = await store.update("/a/1", b"2", revision=created)
    await store.delete("/a/1", revision=updated)
    await store.close()
    again = await backend.open()
    if forgets(backend):
        assert await again.get("/a/1") is None
        return
    assert (await again.list("/a/", revision=created)).entries == [Entry("/a/1", b"1", created, created)]
    async with again.watch("/a/", after=start) as batches:
        assert brief(await collect(batches, 3)) == [("/a/1", b"1"), ("/a/1", b"2"), ("/a/1", None)]


async def test_a_compaction_is_remembered_after_reopening(store: Store, backend: Backend) -> None:
    created = await store.create("/a/1", b"1")
    deleted = await store.delete("/a/1", revision=created)
    await store.compact(deleted)
    await store.close()
    again = await backend.open()
    if forgets(backend):
        assert await again.get("/a/1") is None
        return
    with pytest.raises(Compacted):
        await again.list("/a/", revision=created)
    assert await again.create("/a/1", b"2") == deleted + 1


async def test_an_end_of_life_is_remembered_after_reopening(store: Store, backend: Backend) -> None:
    created = await store.create("/e/1", b"x", ttl=1)
    await store.close()
    again = await backend.open()
    if forgets(backend):
        assert await again.get("/e/1") is None
        return
    async with again.watch("/e/", after=created) as batches:
        assert brief(await collect(batches, 1)) == [("/e/1", None)]


async def test_a_watch_resumes_on_the_store_opened_again(store: Store, backend: Backend) -> None:
    start = await store.revision()
    async with store.watch("/a/", after=start) as batches:
        await store.create("/a/1", b"1")
        seen = await collect(batches, 1)
    mark = seen[-1].revision
    await store.create("/a/2", b"2")
    await store.close()
    again = await backend.open()
    if forgets(backend):
        assert await again.get("/a/2") is None
        return
    async with again.watch("/a/", after=mark) as batches:
        await again.create("/a/3", b"3")
        assert brief(await collect(batches, 2)) == [("/a/2", b"2"), ("/a/3", b"3")]
