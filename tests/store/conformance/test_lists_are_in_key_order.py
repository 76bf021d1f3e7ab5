"""Lists of the present: prefixes, order, pages."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pilothouse.store.interface import Entry, FutureRevision, Store


async def keys(store: Store, prefix: str, **how: Any) -> list[str]:
    page = await store.list(prefix, **how)
    return [entry.key for entry in page.entries]


async def fill(store: Store, *names: str) -> None:
    for name in names:
        await store.create(name, name.encode())


async def test_a_list_of_nothing_is_empty_and_has_a_revision(store: Store) -> None:
    page = await store.list("/none/")
    assert page.entries == []
    assert page.remaining == 0
    assert page.revision == await store.revision()


async def test_a_list_shows_whole_entries(store: Store) -> None:
    created = await store.create("/a/1", b"x")
    updated = await store.update("/a/1", b"y", revision=created)
    page = await store.list("/a/")
    assert page.entries == [Entry("/a/1", b"y", updated, created)]
    assert page.revision == updated


async def test_a_list_is_sorted_whatever_the_order_of_writing(store: Store) -> None:
    await fill(store, "/a/3", "/a/1", "/a/2")
    assert await keys(store, "/a/") == ["/a/1", "/a/2", "/a/3"]


async def test_a_prefix_with_its_slash_leaves_out_the_neighbour(store: Store) -> None:
    await fill(store, "/a/1", "/ab/1", "/a", "/a0")
    assert await keys(store, "/a/") == ["/a/1"]


async def test_a_prefix_without_slash_is_just_text(store: Store) -> None:
    await fill(store, "/a/1", "/ab/1", "/a", "/b")
    assert await keys(store, "/a") == ["/a", "/a/1", "/ab/1"]


async def test_the_empty_prefix_lists_everything(store: Store) -> None:
    await fill(store, "/b", "/a", "c")
    assert await keys(store, "") == ["/a", "/b", "c"]


async def test_order_is_by_bytes_not_by_alphabet(store: Store) -> None:
    names = ["/o/-", "/o/.", "/o/0", "/o/A", "/o/_", "/o/a", "/o/ä", "/o/日", "/o/\uffff", "/o/🚢"]
    await fill(store, *reversed(names))
    assert await keys(store, "/o/") == names
    assert names == sorted(names, key=str.encode)


async def test_a_dash_sorts_before_a_slash_so_folders_may_interleave(store: Store) -> None:
    await fill(store, "/n/a/x", "/n/a-b/x", "/n/a0/x")
    assert await keys(store, "/n/") == ["/n/a-b/x", "/n/a/x", "/n/a0/x"]


async def test_a_prefix_of_wide_characters_finds_its_keys_only(store: Store) -> None:
    await fill(store, "/日/1", "/日本/1", "/月/1", "/\ud7ff1", "/\ue0001")
    assert await keys(store, "/日") == ["/日/1", "/日本/1"]
    assert await keys(store, "/\ud7ff") == ["/\ud7ff1"]


async def test_a_prefix_of_the_last_character_there_is(store: Store) -> None:
    await fill(store, "/z/\U0010ffff1", "/z/a", "/{")
    assert await keys(store, "/z/\U0010ffff") == ["/z/\U0010ffff1"]


async def test_deleted_keys_are_not_listed(store: Store) -> None:
    await fill(store, "/a/1", "/a/2")
    entry = await store.get("/a/1")
    assert entry is not None
    await store.delete("/a/1", revision=entry.revision)
    assert await keys(store, "/a/") == ["/a/2"]


async def test_a_limit_gives_the_first_keys_and_counts_the_rest(store: Store) -> None:
    await fill(store, *(f"/a/{n}" for n in range(7)), "/b/1")
    page = await store.list("/a/", limit=3)
    assert [entry.key for entry in page.entries] == ["/a/0", "/a/1", "/a/2"]
    assert page.remaining == 4


async def test_a_limit_as_large_as_the_list_leaves_nothing(store: Store) -> None:
    await fill(store, "/a/1", "/a/2")
    page = await store.list("/a/", limit=2)
    assert len(page.entries) == 2
    assert page.remaining == 0


async def test_a_limit_larger_than_the_list_gives_it_all(store: Store) -> None:
    await fill(store, "/a/1", "/a/2")
    page = await store.list("/a/", limit=500)
    assert len(page.entries) == 2
    assert page.remaining == 0


async def test_after_a_key_the_next_one_follows(store: Store) -> None:
    await fill(store, "/a/1", "/a/2", "/a/3")
    assert await keys(store, "/a/", after="/a/1") == ["/a/2", "/a/3"]


async def test_after_a_key_its_own_extension_follows(store: Store) -> None:
    await fill(store, "/a/1", "/a/1-", "/a/1/x")
    assert await keys(store, "/a/", after="/a/1") == ["/a/1-", "/a/1/x"]


async def test_after_a_key_that_does_not_exist_the_next_one_follows(store: Store) -> None:
    await fill(store, "/a/1", "/a/3")
    assert await keys(store, "/a/", after="/a/2") == ["/a/3"]


async def test_after_the_last_key_nothing_follows(store: Store) -> None:
    await fill(store, "/a/1", "/b/1")
    page = await store.list("/a/", after="/a/1")
    assert page.entries == []
    assert page.remaining == 0


async def test_after_a_key_before_the_prefix_the_list_is_whole(store: Store) -> None:
    await fill(store, "/b/1", "/b/2")
    assert await keys(store, "/b/", after="/a/9") == ["/b/1", "/b/2"]


async def test_after_a_key_beyond_the_prefix_there_is_nothing(store: Store) -> None:
    await fill(store, "/b/1", "/c/1")
    assert await keys(store, "/b/", after="/c/0") == []


async def test_pages_join_into_the_whole_list(store: Store) -> None:
    names = [f"/a/{n:03}" for n in range(25)]
    await fill(store, *names)
    found: list[str] = []
    page = await store.list("/a/", limit=4)
    while True:
        found += [entry.key for entry in page.entries]
        assert page.remaining == len(names) - len(found)
        if not page.remaining:
            break
        page = await store.list("/a/", limit=4, after=found[-1], revision=page.revision)
    assert found == names


async def test_a_list_of_thousands_is_whole_and_of_one_revision(store: Store) -> None:
    names = [f"/many/{n:05}" for n in range(4500)]
    for i in range(0, len(names), 100):
        await asyncio.gather(*(store.create(name, b"v") for name in names[i : i + 100]))
    page = await store.list("/many/")
    assert [entry.key for entry in page.entries] == names
    assert page.remaining == 0


async def test_a_list_in_the_future_is_refused_with_both_revisions(store: Store) -> None:
    current = await store.create("/a", b"1")
    with pytest.raises(FutureRevision) as caught:
        await store.list("/", revision=current + 1000)
    assert caught.value.revision == current + 1000
    assert caught.value.current >= current


async def test_a_list_at_the_current_revision_is_the_present(store: Store) -> None:
    revision = await store.create("/a/1", b"1")
    page = await store.list("/a/", revision=revision)
    assert [entry.key for entry in page.entries] == ["/a/1"]
    assert page.revision == revision
