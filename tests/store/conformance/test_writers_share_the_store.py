"""Many at once: one wins, nobody is told of what did not happen."""

from __future__ import annotations

import asyncio

import pytest
from tests.store.following import collect

from pilothouse.store.interface import Conflict, Entry, Guard, GuardFailed, Store


async def test_of_many_creators_of_one_key_one_wins(store: Store) -> None:
    results = await asyncio.gather(
        *(store.create("/a", str(n).encode()) for n in range(50)), return_exceptions=True
    )
    winners = [n for n, result in enumerate(results) if isinstance(result, int)]
    assert len(winners) == 1
    entry = await store.get("/a")
    assert entry is not None
    assert entry.value == str(winners[0]).encode()
    losers = [result for result in results if isinstance(result, Conflict)]
    assert len(losers) == 49
    assert all(loser.current == entry for loser in losers)


async def test_of_many_updates_against_one_revision_one_wins(store: Store) -> None:
    revision = await store.create("/a", b"0")
    results = await asyncio.gather(
        *(store.update("/a", str(n).encode(), revision=revision) for n in range(50)), return_exceptions=True
    )
    assert sum(isinstance(result, int) for result in results) == 1
    assert sum(isinstance(result, Conflict) for result in results) == 49


async def test_of_an_update_and_a_delete_one_wins(store: Store) -> None:
    for n in range(10):
        revision = await store.create(f"/a/{n}", b"0")
        results = await asyncio.gather(
            store.update(f"/a/{n}", b"1", revision=revision),
            store.delete(f"/a/{n}", revision=revision),
            return_exceptions=True,
        )
        assert sorted(isinstance(result, int) for result in results) == [False, True]


async def test_a_counter_counts_every_increment(store: Store) -> None:
    await store.create("/counter", b"0")

    async def add(times: int) -> None:
        done = 0
        entry = await store.get("/counter")
        while done < times:
            assert entry is not None
            try:
                await store.update("/counter", str(int(entry.value) + 1).encode(), revision=entry.revision)
                done += 1
                entry = await store.get("/counter")
            except Conflict as conflict:
                entry = conflict.current

    await asyncio.gather(*(add(20) for _ in range(8)))
    found = await store.get("/counter")
    assert found is not None
    assert found.value == b"160"


async def test_writers_of_different_keys_never_conflict_and_share_no_revision(store: Store) -> None:
    revisions = await asyncio.gather(*(store.create(f"/a/{n}", b"x") for n in range(300)))
    assert len(set(revisions)) == 300
    assert len((await store.list("/a/")).entries) == 300


async def test_a_read_after_a_write_sees_it(store: Store) -> None:
    async def write_and_read(n: int) -> None:
        revision = await store.create(f"/a/{n}", b"x")
        entry = await store.get(f"/a/{n}")
        assert entry is not None
        assert entry.revision == revision
        page = await store.list("/a/")
        assert page.revision >= revision
        assert f"/a/{n}" in {found.key for found in page.entries}

    await asyncio.gather(*(write_and_read(n) for n in range(50)))


async def test_a_conflict_shows_a_value_that_can_be_read(store: Store) -> None:
    await store.create("/a", b"0")
    shown: list[Entry | None] = []

    async def fight(n: int) -> None:
        for _ in range(10):
            entry = await store.get("/a")
            assert entry is not None
            await asyncio.sleep(0)
            try:
                await store.update("/a", f"{n}".encode(), revision=entry.revision)
            except Conflict as conflict:
                shown.append(conflict.current)

    await asyncio.gather(*(fight(n) for n in range(10)))
    assert shown
    for entry in shown:
        assert entry is not None
        assert (await store.list("/a", revision=entry.revision)).entries == [entry]


async def test_no_guarded_write_lands_after_its_guard_has_moved(store: Store) -> None:
    lease = await store.create("/lease", b"0")
    start = lease

    async def write(n: int) -> None:
        for i in range(20):
            try:
                await store.create(f"/w/{n}/{i}", b"x", guard=Guard("/lease", lease))
            except GuardFailed:
                return

    async def take_over() -> int:
        for _ in range(5):
            await store.create(f"/noise/{_}", b"x")
        return await store.update("/lease", b"1", revision=lease)

    *_, moved = await asyncio.gather(*(write(n) for n in range(10)), take_over())
    assert isinstance(moved, int)
    with pytest.raises(GuardFailed):
        await store.create("/w/late", b"x", guard=Guard("/lease", lease))
    written = (await store.list("/w/")).entries
    assert all(start < entry.revision < moved for entry in written)


async def test_a_cancelled_writer_leaves_a_store_that_works(store: Store) -> None:
    for n in range(20):
        writing = asyncio.ensure_future(store.create(f"/a/{n}", b"x"))
        await asyncio.sleep(0)
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
    for n in range(20):
        # Whether it was written is open; that the key can be used is not.
        await _put(store, f"/a/{n}", b"y")
    assert [entry.value for entry in (await store.list("/a/")).entries] == [b"y"] * 20


async def _put(store: Store, key: str, value: bytes) -> None:
    entry = await store.get(key)
    while True:
        try:
            if entry is None:
                await store.create(key, value)
            else:
                await store.update(key, value, revision=entry.revision)
            return
        except Conflict as conflict:
            entry = conflict.current


async def test_a_watcher_sees_the_writes_of_all_writers_in_one_order(store: Store) -> None:
    start = await store.revision()
    async with store.watch("/a/", after=start) as one, store.watch("/a/", after=start) as two:
        writes = asyncio.gather(*(store.create(f"/a/{n}", b"x") for n in range(100)))
        first, second, revisions = await asyncio.gather(collect(one, 100), collect(two, 100), writes)
    assert first == second
    assert sorted(revisions) == [change.revision for change in first]
