"""Create, update and delete: each against the revision its writer has seen."""

from __future__ import annotations

import pytest
from tests.store.backends import Backend

from pilothouse.store.interface import Conflict, Entry, Store, TooLarge


async def test_a_created_key_can_be_read(store: Store) -> None:
    revision = await store.create("/a", b"1")
    assert await store.get("/a") == Entry("/a", b"1", revision, revision)


async def test_a_key_that_was_never_written_is_none(store: Store) -> None:
    assert await store.get("/nobody") is None


async def test_creating_a_key_that_exists_conflicts_and_shows_it(store: Store) -> None:
    revision = await store.create("/a", b"1")
    with pytest.raises(Conflict) as caught:
        await store.create("/a", b"2")
    assert caught.value.key == "/a"
    assert caught.value.current == Entry("/a", b"1", revision, revision)


async def test_an_update_replaces_the_value_and_keeps_the_creation(store: Store) -> None:
    created = await store.create("/a", b"1")
    updated = await store.update("/a", b"2", revision=created)
    assert await store.get("/a") == Entry("/a", b"2", updated, created)


async def test_an_update_against_an_old_revision_conflicts_and_shows_the_latest(store: Store) -> None:
    created = await store.create("/a", b"1")
    updated = await store.update("/a", b"2", revision=created)
    with pytest.raises(Conflict) as caught:
        await store.update("/a", b"3", revision=created)
    assert caught.value.current == Entry("/a", b"2", updated, created)
    assert (await store.get("/a")) == Entry("/a", b"2", updated, created)


async def test_an_update_against_a_future_revision_conflicts(store: Store) -> None:
    created = await store.create("/a", b"1")
    with pytest.raises(Conflict):
        await store.update("/a", b"2", revision=created + 1000)


async def test_an_update_of_a_missing_key_conflicts_with_nothing_there(store: Store) -> None:
    with pytest.raises(Conflict) as caught:
        await store.update("/a", b"1", revision=await store.revision())
    assert caught.value.current is None


async def test_an_update_against_revision_zero_never_creates(store: Store) -> None:
    with pytest.raises(Conflict):
        await store.update("/a", b"1", revision=0)
    assert await store.get("/a") is None


async def test_a_delete_removes_the_key(store: Store) -> None:
    created = await store.create("/a", b"1")
    deleted = await store.delete("/a", revision=created)
    assert deleted > created
    assert await store.get("/a") is None


async def test_a_delete_against_an_old_revision_conflicts_and_removes_nothing(store: Store) -> None:
    created = await store.create("/a", b"1")
    updated = await store.update("/a", b"2", revision=created)
    with pytest.raises(Conflict) as caught:
        await store.delete("/a", revision=created)
    assert caught.value.current == Entry("/a", b"2", updated, created)
    assert await store.get("/a") is not None


async def test_a_delete_of_a_missing_key_conflicts(store: Store) -> None:
    with pytest.raises(Conflict) as caught:
        await store.delete("/a", revision=await store.revision())
    assert caught.value.current is None


async def test_a_delete_against_revision_zero_conflicts(store: Store) -> None:
    created = await store.create("/a", b"1")
    with pytest.raises(Conflict):
        await store.delete("/a", revision=0)
    assert (await store.get("/a")) == Entry("/a", b"1", created, created)


async def test_a_deleted_key_can_be_created_again_and_is_born_anew(store: Store) -> None:
    first = await store.create("/a", b"1")
    deleted = await store.delete("/a", revision=first)
    second = await store.create("/a", b"2")
    assert second > deleted
    assert await store.get("/a") == Entry("/a", b"2", second, second)


async def test_a_revision_from_before_a_deletion_is_no_longer_good(store: Store) -> None:
    first = await store.create("/a", b"1")
    await store.delete("/a", revision=first)
    await store.create("/a", b"1")
    with pytest.raises(Conflict):
        await store.update("/a", b"2", revision=first)


async def test_revisions_rise_with_every_write_whatever_the_key(store: Store) -> None:
    revisions = [await store.create(f"/k{n}", b"x") for n in range(5)]
    revisions.append(await store.update("/k0", b"y", revision=revisions[0]))
    revisions.append(await store.delete("/k1", revision=revisions[1]))
    assert revisions == sorted(set(revisions))


async def test_a_write_that_conflicts_uses_no_revision(store: Store) -> None:
    created = await store.create("/a", b"1")
    with pytest.raises(Conflict):
        await store.create("/a", b"2")
    assert await store.create("/b", b"1") == created + 1


async def test_the_store_stands_at_its_last_write(store: Store) -> None:
    revision = await store.create("/a", b"1")
    assert await store.revision() == revision


async def test_an_empty_store_stands_above_zero(store: Store) -> None:
    assert await store.revision() >= 1


async def test_the_current_revision_is_known_only_to_a_sole_writer(store: Store, backend: Backend) -> None:
    revision = await store.create("/a", b"1")
    assert store.current == (None if backend.name == "etcd" else revision)


async def test_an_update_with_the_same_bytes_is_a_write_like_any_other(store: Store) -> None:
    created = await store.create("/a", b"1")
    assert await store.update("/a", b"1", revision=created) > created


async def test_an_empty_value_is_a_value(store: Store) -> None:
    revision = await store.create("/a", b"")
    assert await store.get("/a") == Entry("/a", b"", revision, revision)


async def test_a_value_may_hold_any_bytes(store: Store) -> None:
    value = bytes(range(256)) * 3
    await store.create("/a", value)
    found = await store.get("/a")
    assert found is not None
    assert found.value == value


async def test_a_large_value_is_taken_whole(store: Store, backend: Backend) -> None:
    value = b"\x00\xff" * (backend.largest // 2)
    await store.create("/a", value)
    found = await store.get("/a")
    assert found is not None
    assert found.value == value


async def test_a_value_past_the_limit_is_refused_by_name(store: Store, backend: Backend) -> None:
    with pytest.raises(TooLarge, match="/a"):
        await store.create("/a", b"x" * (2 * backend.largest))
    assert await store.get("/a") is None


async def test_an_update_past_the_limit_leaves_the_old_value(store: Store, backend: Backend) -> None:
    revision = await store.create("/a", b"1")
    with pytest.raises(TooLarge):
        await store.update("/a", b"x" * (2 * backend.largest), revision=revision)
    assert await store.get("/a") == Entry("/a", b"1", revision, revision)


async def test_a_very_long_key_is_a_key(store: Store) -> None:
    key = "/" + "k" * 2000
    await store.create(key, b"1")
    assert (await store.get(key)) is not None


@pytest.mark.parametrize(
    "key", ["/ä/ö", "/日本/東京", "/🚢", "/with space", "/per%cent", "/quote'\"", "/tab\tand\nline"]
)
async def test_a_key_may_hold_any_text(store: Store, key: str) -> None:
    revision = await store.create(key, b"1")
    assert await store.get(key) == Entry(key, b"1", revision, revision)
    await store.delete(key, revision=revision)
    assert await store.get(key) is None


async def test_keys_that_differ_by_case_are_two_keys(store: Store) -> None:
    await store.create("/a", b"lower")
    await store.create("/A", b"upper")
    assert [entry.key for entry in (await store.list("/")).entries] == ["/A", "/a"]


async def test_a_key_and_its_child_live_side_by_side(store: Store) -> None:
    await store.create("/a", b"parent")
    await store.create("/a/b", b"child")
    revision = await store.revision()
    parent = await store.get("/a")
    assert parent is not None
    await store.delete("/a", revision=parent.revision)
    assert await store.get("/a/b") is not None
    assert await store.revision() > revision
