"""Progress marks: a mark means that everything up to it has been delivered."""

from __future__ import annotations

import asyncio

from tests.store.following import collect, next_batch, until

from pilothouse.store.interface import Store


async def test_a_mark_comes_when_asked_for_though_nothing_below_the_prefix_changes(store: Store) -> None:
    async with store.watch("/quiet/", after=await store.revision()) as batches:
        revision = await store.create("/loud/1", b"x")
        await store.progress()
        assert await until(batches, revision) == []


async def test_marks_come_unasked_while_other_prefixes_change(store: Store) -> None:
    async with store.watch("/quiet/", after=await store.revision()) as batches:
        revision = await store.create("/loud/1", b"x")
        assert await until(batches, revision) == []


async def test_every_open_watch_gets_its_mark(store: Store) -> None:
    start = await store.revision()
    async with store.watch("/q1/", after=start) as one, store.watch("/q2/", after=start) as two:
        revision = await store.create("/loud/1", b"x")
        await store.progress()
        assert await until(one, revision) == []
        assert await until(two, revision) == []


async def test_a_mark_holds_no_changes_and_the_stores_revision(store: Store) -> None:
    async with store.watch("/quiet/", after=await store.revision()) as batches:
        revision = await store.create("/loud/1", b"x")
        await store.progress()
        batch = await next_batch(batches)
        while batch.revision < revision:
            batch = await next_batch(batches)
        assert batch.changes == ()
        assert batch.revision == revision


async def test_no_change_comes_after_a_mark_above_it(store: Store) -> None:
    async def write(n: int) -> int:
        revision = 0
        for i in range(25):
            revision = await store.create(f"/a/{n}/{i}", b"x")
            await store.progress()
        return revision

    async with store.watch("/a/", after=await store.revision()) as batches:
        writing = asyncio.gather(*(write(n) for n in range(6)))
        mark, seen = 0, 0
        while seen < 150:
            batch = await next_batch(batches)
            assert all(change.revision > mark for change in batch.changes)
            seen += len(batch.changes)
            mark = batch.revision
        await writing


async def test_resuming_from_a_mark_skips_nothing(store: Store) -> None:
    async with store.watch("/a/", after=await store.revision()) as batches:
        revision = await store.create("/b/1", b"x")
        await store.progress()
        batch = await next_batch(batches)
        while batch.revision < revision:
            batch = await next_batch(batches)
    written = await store.create("/a/1", b"x")
    async with store.watch("/a/", after=batch.revision) as batches:
        assert [change.revision for change in await collect(batches, 1)] == [written]


async def test_a_watch_that_catches_up_gets_a_mark_past_its_history(store: Store) -> None:
    start = await store.revision()
    await store.create("/a/1", b"x")
    last = await store.create("/b/1", b"x")
    async with store.watch("/a/", after=start) as batches:
        await store.progress()
        assert [change.key for change in await until(batches, last)] == ["/a/1"]


async def test_a_watch_whose_history_holds_nothing_for_it_gets_a_mark(store: Store) -> None:
    start = await store.revision()
    for n in range(5):
        last = await store.create(f"/b/{n}", b"x")
    async with store.watch("/a/", after=start) as batches:
        await store.progress()
        assert await until(batches, last) == []


async def test_asking_with_no_watch_open_does_no_harm(store: Store) -> None:
    await store.progress()
    assert await store.create("/a", b"1") > 0


async def test_asking_over_and_over_does_no_harm(store: Store) -> None:
    async with store.watch("/a/", after=await store.revision()) as batches:
        for _ in range(50):
            await store.progress()
        revision = await store.create("/a/1", b"x")
        assert [change.revision for change in await collect(batches, 1)] == [revision]
