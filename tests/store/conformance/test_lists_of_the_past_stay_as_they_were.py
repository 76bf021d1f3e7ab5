"""Lists at an older revision: what was written since does not show, so that pages of one listing fit together."""

from __future__ import annotations

import asyncio

from pilothouse.store.interface import Entry, Store


async def pairs(store: Store, prefix: str, revision: int) -> list[tuple[str, bytes]]:
    page = await store.list(prefix, revision=revision)
    assert page.revision == revision
    return [(entry.key, entry.value) for entry in page.entries]


async def test_an_update_does_not_show_in_the_past(store: Store) -> None:
    created = await store.create("/a/1", b"old")
    await store.update("/a/1", b"new", revision=created)
    page = await store.list("/a/", revision=created)
    assert page.entries == [Entry("/a/1", b"old", created, created)]


async def test_a_deleted_key_still_stands_in_the_past(store: Store) -> None:
    created = await store.create("/a/1", b"x")
    await store.delete("/a/1", revision=created)
    assert await pairs(store, "/a/", created) == [("/a/1", b"x")]
    assert (await store.list("/a/")).entries == []


async def test_a_key_created_later_is_not_there_yet(store: Store) -> None:
    revision = await store.create("/a/1", b"x")
    await store.create("/a/2", b"y")
    assert await pairs(store, "/a/", revision) == [("/a/1", b"x")]


async def test_between_a_deletion_and_its_return_the_key_is_gone(store: Store) -> None:
    created = await store.create("/a/1", b"first")
    deleted = await store.delete("/a/1", revision=created)
    again = await store.create("/a/1", b"second")
    await store.update("/a/1", b"third", revision=again)
    assert await pairs(store, "/a/", created) == [("/a/1", b"first")]
    assert await pairs(store, "/a/", deleted) == []
    page = await store.list("/a/", revision=again)
    assert page.entries == [Entry("/a/1", b"second", again, again)]


async def test_every_revision_of_a_key_can_be_listed(store: Store) -> None:
    revisions = [await store.create("/a/1", b"0")]
    for n in range(1, 10):
        revisions.append(await store.update("/a/1", str(n).encode(), revision=revisions[-1]))
    for n, revision in enumerate(revisions):
        page = await store.list("/a/", revision=revision)
        assert page.entries == [Entry("/a/1", str(n).encode(), revision, revisions[0])]


async def test_an_empty_value_of_the_past_is_not_a_deletion(store: Store) -> None:
    created = await store.create("/a/1", b"")
    await store.update("/a/1", b"x", revision=created)
    assert await pairs(store, "/a/", created) == [("/a/1", b"")]


async def test_before_the_first_key_the_past_is_empty(store: Store) -> None:
    before = await store.create("/elsewhere", b"")
    await store.create("/a/1", b"x")
    assert await pairs(store, "/a/", before) == []


async def test_pages_of_the_past_ignore_what_is_written_between_them(store: Store) -> None:
    names = [f"/a/{n:02}" for n in range(12)]
    revisions = {name: await store.create(name, b"old") for name in names}
    found = []
    page = await store.list("/a/", limit=5)
    first = page.revision
    while True:
        found += [(entry.key, entry.value) for entry in page.entries]
        assert page.revision == first
        assert page.remaining == len(names) - len(found)
        if not page.remaining:
            break
        # One key before the place reached, one after it, one at the end: changed, removed, added.
        await store.create(f"/a/{len(found):02}-new", b"new")
        gone = names[min(len(found) + 1, len(names) - 1)]
        if gone in revisions:
            await store.delete(gone, revision=revisions.pop(gone))
        changed = names[0]
        revisions[changed] = await store.update(changed, b"new", revision=revisions[changed])
        page = await store.list("/a/", limit=5, revision=first, after=found[-1][0])
    assert found == [(name, b"old") for name in names]


async def test_the_remaining_count_of_the_past_does_not_count_the_present(store: Store) -> None:
    for n in range(6):
        revision = await store.create(f"/a/{n}", b"x")
    for n in range(6, 20):
        await store.create(f"/a/{n:02}", b"x")
    gone = await store.get("/a/5")
    assert gone is not None
    await store.delete("/a/5", revision=gone.revision)
    page = await store.list("/a/", revision=revision, limit=2)
    assert [entry.key for entry in page.entries] == ["/a/0", "/a/1"]
    assert page.remaining == 4


async def test_a_limit_in_the_past_skips_keys_that_were_dead_then(store: Store) -> None:
    dead = await store.create("/a/0", b"x")
    await store.delete("/a/0", revision=dead)
    await store.create("/a/1", b"x")
    revision = await store.create("/a/2", b"x")
    await store.create("/a/3", b"x")
    page = await store.list("/a/", revision=revision, limit=1)
    assert [entry.key for entry in page.entries] == ["/a/1"]
    assert page.remaining == 1


async def test_prefixes_hold_in_the_past_too(store: Store) -> None:
    for key in ("/a/1", "/ab/1", "/a", "/日/1", "/月/1"):
        revision = await store.create(key, b"x")
    await store.create("/a/2", b"x")
    assert await pairs(store, "/a/", revision) == [("/a/1", b"x")]
    assert await pairs(store, "/日", revision) == [("/日/1", b"x")]
    assert [key for key, _ in await pairs(store, "", revision)] == ["/a", "/a/1", "/ab/1", "/日/1", "/月/1"]


async def test_lists_of_the_past_can_be_read_while_many_write(store: Store) -> None:
    names = [f"/a/{n:02}" for n in range(20)]
    revisions = [await store.create(name, b"old") for name in names]
    revision = revisions[-1]

    async def churn(n: int) -> None:
        at = revisions[n]
        for round in range(15):
            at = await store.update(names[n], f"new {round}".encode(), revision=at)

    async def look() -> None:
        for _ in range(10):
            assert await pairs(store, "/a/", revision) == [(name, b"old") for name in names]

    await asyncio.gather(*(churn(n) for n in range(20)), look(), look())
