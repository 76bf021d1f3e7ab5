"""Watches: ordered, unique, atomic, without gaps, resumable."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest
from tests.store.backends import Backend
from tests.store.following import brief, collect, next_batch, until

from pilothouse.store.interface import Batch, Change, Store


async def test_a_creation_is_seen(store: Store) -> None:
    async with store.watch("/a/", after=await store.revision()) as batches:
        revision = await store.create("/a/1", b"x")
        assert await collect(batches, 1) == [Change("/a/1", revision, b"x")]


async def test_an_update_is_seen_with_its_value(store: Store) -> None:
    created = await store.create("/a/1", b"old")
    async with store.watch("/a/", after=created) as batches:
        updated = await store.update("/a/1", b"new", revision=created)
        assert await collect(batches, 1) == [Change("/a/1", updated, b"new")]


async def test_a_deletion_is_seen_without_value(store: Store) -> None:
    created = await store.create("/a/1", b"x")
    updated = await store.update("/a/1", b"y", revision=created)
    async with store.watch("/a/", after=updated) as batches:
        deleted = await store.delete("/a/1", revision=updated)
        assert await collect(batches, 1) == [Change("/a/1", deleted, None)]


async def test_a_key_born_anew_is_seen(store: Store) -> None:
    created = await store.create("/a/1", b"x")
    deleted = await store.delete("/a/1", revision=created)
    async with store.watch("/a/", after=deleted) as batches:
        again = await store.create("/a/1", b"y")
        assert await collect(batches, 1) == [Change("/a/1", again, b"y")]


async def test_an_empty_value_is_not_taken_for_a_deletion(store: Store) -> None:
    start = await store.revision()
    created = await store.create("/a/1", b"")
    async with store.watch("/a/", after=start) as batches:
        await store.update("/a/1", b"", revision=created)
        first, second = await collect(batches, 2)
        assert (first.value, second.value) == (b"", b"")


async def test_history_comes_first_then_the_present(store: Store) -> None:
    start = await store.revision()
    created = await store.create("/a/1", b"1")
    updated = await store.update("/a/1", b"2", revision=created)
    async with store.watch("/a/", after=start) as batches:
        deleted = await store.delete("/a/1", revision=updated)
        assert await collect(batches, 3) == [
            Change("/a/1", created, b"1"),
            Change("/a/1", updated, b"2"),
            Change("/a/1", deleted, None),
        ]


async def test_a_watch_starts_right_after_its_revision(store: Store) -> None:
    await store.create("/a/1", b"1")
    second = await store.create("/a/2", b"2")
    third = await store.create("/a/3", b"3")
    async with store.watch("/a/", after=second) as batches:
        assert [change.revision for change in await collect(batches, 1)] == [third]


async def test_a_watch_from_the_latest_revision_shows_only_what_follows(store: Store) -> None:
    await store.create("/a/1", b"1")
    async with store.watch("/a/", after=await store.revision()) as batches:
        await store.create("/a/2", b"2")
        assert brief(await collect(batches, 1)) == [("/a/2", b"2")]


async def test_other_prefixes_do_not_show(store: Store) -> None:
    async with store.watch("/a/", after=await store.revision()) as batches:
        for key in ("/ab/1", "/a", "/b/1", "/a0"):
            await store.create(key, b"no")
        await store.create("/a/1", b"yes")
        assert brief(await collect(batches, 1)) == [("/a/1", b"yes")]


async def test_other_prefixes_do_not_show_in_history(store: Store) -> None:
    start = await store.revision()
    for key in ("/ab/1", "/a", "/b/1", "/a0"):
        await store.create(key, b"no")
    await store.create("/a/1", b"yes")
    async with store.watch("/a/", after=start) as batches:
        assert brief(await collect(batches, 1)) == [("/a/1", b"yes")]


async def test_a_prefix_without_slash_is_just_text(store: Store) -> None:
    async with store.watch("/pod", after=await store.revision()) as batches:
        await store.create("/pods/t/a", b"1")
        await store.create("/poo", b"no")
        await store.create("/pod", b"2")
        assert brief(await collect(batches, 2)) == [("/pods/t/a", b"1"), ("/pod", b"2")]


async def test_the_empty_prefix_shows_every_key(store: Store) -> None:
    async with store.watch("", after=await store.revision()) as batches:
        await store.create("/a", b"1")
        await store.create("b", b"2")
        assert brief(await collect(batches, 2)) == [("/a", b"1"), ("b", b"2")]


async def test_a_single_key_can_be_watched_by_its_name(store: Store) -> None:
    async with store.watch("/a/name", after=await store.revision()) as batches:
        await store.create("/a/nam", b"no")
        await store.create("/a/name", b"yes")
        assert brief(await collect(batches, 1)) == [("/a/name", b"yes")]


async def test_wide_characters_are_watched_like_any_others(store: Store) -> None:
    async with store.watch("/日", after=await store.revision()) as batches:
        await store.create("/月/1", b"no")
        await store.create("/日本/🚢", b"yes")
        assert brief(await collect(batches, 1)) == [("/日本/🚢", b"yes")]


async def test_changes_come_in_the_order_of_revisions_once_each(store: Store) -> None:
    start = await store.revision()

    async def churn(key: str) -> list[int]:
        mine = [await store.create(key, b"0")]
        for n in range(10):
            mine.append(await store.update(key, str(n).encode(), revision=mine[-1]))
        mine.append(await store.delete(key, revision=mine[-1]))
        return mine

    async with store.watch("/c/", after=start) as batches:
        writes = await asyncio.gather(*(churn(f"/c/{n}") for n in range(20)))
        seen = [change.revision for change in await collect(batches, 20 * 12)]
    assert seen == sorted(revision for mine in writes for revision in mine)


async def test_the_changes_of_a_key_come_in_the_order_of_its_life(store: Store) -> None:
    async def churn(key: str) -> None:
        revision = await store.create(key, b"0")
        for n in range(1, 9):
            revision = await store.update(key, str(n).encode(), revision=revision)
        await store.delete(key, revision=revision)

    async with store.watch("/c/", after=await store.revision()) as batches:
        await asyncio.gather(*(churn(f"/c/{n}") for n in range(10)))
        lives: dict[str, list[bytes | None]] = {}
        for change in await collect(batches, 100):
            lives.setdefault(change.key, []).append(change.value)
    life = [*(str(n).encode() for n in range(9)), None]
    assert lives == {f"/c/{n}": life for n in range(10)}


async def test_a_batch_is_marked_with_the_revision_of_its_last_change(store: Store) -> None:
    async with store.watch("/a/", after=await store.revision()) as batches:
        revision = await store.create("/a/1", b"x")
        batch = await next_batch(batches)
        while not batch.changes:
            batch = await next_batch(batches)
        assert batch.revision >= revision
        assert batch.changes[-1].revision <= batch.revision


async def test_marks_and_changes_never_go_back(store: Store) -> None:
    async def write() -> None:
        for n in range(40):
            await store.create(f"/{'a' if n % 2 else 'b'}/{n}", b"x")
            if n % 5 == 0:
                await store.progress()

    mark = await store.revision()
    async with store.watch("/a/", after=mark) as batches:
        writing = asyncio.create_task(write())
        seen = 0
        while seen < 20:
            batch = await next_batch(batches)
            for change in batch.changes:
                assert change.revision > mark
                mark = change.revision
                seen += 1
            assert batch.revision >= mark
            mark = batch.revision
        await writing


async def test_a_watch_resumes_from_any_mark_without_gap_or_repeat(store: Store) -> None:
    start = await store.revision()
    written = []
    for n in range(30):
        written.append(await store.create(f"/a/{n}", b"x"))
        await store.create(f"/b/{n}", b"x")
    seen: list[int] = []
    mark = start
    while len(seen) < len(written):
        async with store.watch("/a/", after=mark) as batches:
            batch = await next_batch(batches)
            seen += [change.revision for change in batch.changes]
            mark = batch.revision
    assert seen == written


async def test_resuming_after_each_single_change_repeats_nothing(store: Store) -> None:
    start = await store.revision()
    written = [await store.create(f"/a/{n}", b"x") for n in range(12)]
    for n, revision in enumerate([start, *written[:-1]]):
        async with store.watch("/a/", after=revision) as batches:
            assert [c.revision for c in await collect(batches, len(written) - n)] == written[n:]


async def test_a_list_and_a_watch_from_it_meet_without_a_seam(store: Store) -> None:
    async def write() -> None:
        for n in range(60):
            revision = await store.create(f"/a/{n:02}", b"1")
            if n % 3 == 0:
                revision = await store.update(f"/a/{n:02}", b"2", revision=revision)
            if n % 4 == 0:
                await store.delete(f"/a/{n:02}", revision=revision)

    start = await store.revision()
    writing = asyncio.create_task(write())
    async with store.watch("/a/", after=start) as batches:
        await collect(batches, 5)
    page = await store.list("/a/")
    state = {entry.key: entry.value for entry in page.entries}
    async with store.watch("/a/", after=page.revision) as batches:
        await writing
        for change in await until(batches, (await store.create("/a/last", b"end"))):
            if change.value is None:
                del state[change.key]
            else:
                state[change.key] = change.value
    assert state == {entry.key: entry.value for entry in (await store.list("/a/")).entries}


async def test_many_watchers_of_one_prefix_see_the_same(store: Store) -> None:
    start = await store.revision()
    async with AsyncExitStack() as stack:
        watches = [await stack.enter_async_context(store.watch("/a/", after=start)) for _ in range(10)]
        for n in range(20):
            await store.create(f"/a/{n}", b"x")
        seen = await asyncio.gather(*(collect(batches, 20) for batches in watches))
    assert all(changes == seen[0] for changes in seen)
    assert brief(seen[0]) == [(f"/a/{n}", b"x") for n in range(20)]


async def test_watchers_of_nested_prefixes_each_see_their_part(store: Store) -> None:
    start = await store.revision()
    async with (
        store.watch("/r/", after=start) as outer,
        store.watch("/r/pods/", after=start) as inner,
        store.watch("/r/pods/t/a", after=start) as one,
    ):
        await store.create("/r/nodes/n", b"1")
        await store.create("/r/pods/t/b", b"2")
        await store.create("/r/pods/t/a", b"3")
        assert len(await collect(outer, 3)) == 3
        assert brief(await collect(inner, 2)) == [("/r/pods/t/b", b"2"), ("/r/pods/t/a", b"3")]
        assert brief(await collect(one, 1)) == [("/r/pods/t/a", b"3")]


async def test_a_reader_that_gives_up_waiting_loses_nothing(store: Store) -> None:
    async with store.watch("/a/", after=await store.revision()) as batches:
        seen: list[Change] = []
        for n in range(10):
            waiting = asyncio.ensure_future(anext(batches))
            await asyncio.sleep(0)
            waiting.cancel()
            (outcome,) = await asyncio.gather(waiting, return_exceptions=True)
            if isinstance(outcome, Batch):
                seen += outcome.changes
            await store.create(f"/a/{n}", b"x")
        seen += await collect(batches, 10 - len(seen))
    assert brief(seen) == [(f"/a/{n}", b"x") for n in range(10)]


async def test_a_slow_reader_gets_everything_however_much_it_is(store: Store) -> None:
    start = await store.revision()
    total = 12_000
    async with store.watch("/s/", after=start) as batches:
        await store.create("/s/first", b"x")
        first = await collect(batches, 1)
        for i in range(0, total, 400):
            await asyncio.gather(*(store.create(f"/s/{n:05}", b"v") for n in range(i, i + 400)))
        seen = first + await collect(batches, total)
    assert len(seen) == total + 1
    assert [change.revision for change in seen] == sorted({change.revision for change in seen})
    assert {change.key for change in seen[1:]} == {f"/s/{n:05}" for n in range(total)}


async def test_a_reader_that_keeps_falling_behind_still_sees_each_change_once(store: Store) -> None:
    async with store.watch("/s/", after=await store.revision()) as batches:
        writing = asyncio.gather(*(_chain(store, f"/s/{n}", 40) for n in range(25)))
        seen: list[Change] = []
        while len(seen) < 25 * 40:
            seen += (await next_batch(batches)).changes
            for _ in range(20):
                await asyncio.sleep(0)
        await writing
    assert [c.revision for c in seen] == sorted({c.revision for c in seen})


async def _chain(store: Store, key: str, length: int) -> None:
    revision = await store.create(key, b"0")
    for n in range(1, length):
        revision = await store.update(key, str(n).encode(), revision=revision)


async def test_a_watch_ahead_of_the_store_waits_for_its_revision(store: Store) -> None:
    now = await store.revision()
    async with store.watch("/a/", after=now + 2) as batches:
        for n in range(3):
            last = await store.create(f"/a/{n}", b"x")
        assert last == now + 3
        assert [change.revision for change in await collect(batches, 1)] == [last]


async def test_a_large_history_comes_in_whole(store: Store, backend: Backend) -> None:
    start = await store.revision()
    value = b"x" * (backend.largest // 4)
    for n in range(24):
        await store.create(f"/big/{n:02}", value)
    async with store.watch("/big/", after=start) as batches:
        seen = await collect(batches, 24)
    assert [change.key for change in seen] == [f"/big/{n:02}" for n in range(24)]
    assert all(change.value == value for change in seen)


async def test_a_watch_that_has_ended_yields_nothing_more(store: Store) -> None:
    async with store.watch("/a/", after=await store.revision()) as batches:
        await store.create("/a/1", b"x")
        await collect(batches, 1)
    await store.create("/a/2", b"x")
    with pytest.raises(StopAsyncIteration):
        await anext(batches)


async def test_a_writer_on_a_local_store_is_never_ahead_of_its_watchers(
    store: Store, backend: Backend
) -> None:
    seen: list[Batch] = []
    more = asyncio.Event()
    ready = asyncio.Event()

    async def follow(after: int) -> None:
        async with store.watch("/a/", after=after) as batches:
            ready.set()
            async for batch in batches:
                seen.append(batch)
                more.set()

    following = asyncio.create_task(follow(await store.revision()))
    await ready.wait()
    await asyncio.sleep(0)
    for n in range(10):
        revision = await store.create(f"/a/{n}", b"x")
        while backend.name == "etcd" and not (seen and seen[-1].revision >= revision):
            more.clear()
            await more.wait()
        assert seen[-1].revision >= revision
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    assert brief([change for batch in seen for change in batch.changes]) == [
        (f"/a/{n}", b"x") for n in range(10)
    ]
