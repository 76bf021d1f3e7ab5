"""A write may depend on a second key: it happens only while that key stands where the guard says."""

from __future__ import annotations

import pytest

from pilothouse.store.interface import Conflict, Entry, Guard, GuardFailed, Store


async def test_a_create_goes_ahead_while_its_guard_holds(store: Store) -> None:
    lease = await store.create("/lease", b"me")
    revision = await store.create("/a", b"1", guard=Guard("/lease", lease))
    assert await store.get("/a") == Entry("/a", b"1", revision, revision)


async def test_a_create_is_refused_once_its_guard_has_moved_on(store: Store) -> None:
    lease = await store.create("/lease", b"me")
    await store.update("/lease", b"other", revision=lease)
    with pytest.raises(GuardFailed) as caught:
        await store.create("/a", b"1", guard=Guard("/lease", lease))
    assert caught.value.guard == Guard("/lease", lease)
    assert await store.get("/a") is None


async def test_an_update_is_refused_once_its_guard_has_moved_on(store: Store) -> None:
    lease = await store.create("/lease", b"me")
    revision = await store.create("/a", b"1")
    await store.update("/lease", b"other", revision=lease)
    with pytest.raises(GuardFailed):
        await store.update("/a", b"2", revision=revision, guard=Guard("/lease", lease))
    assert await store.get("/a") == Entry("/a", b"1", revision, revision)


async def test_an_update_goes_ahead_while_its_guard_holds(store: Store) -> None:
    lease = await store.create("/lease", b"me")
    created = await store.create("/a", b"1")
    updated = await store.update("/a", b"2", revision=created, guard=Guard("/lease", lease))
    assert await store.get("/a") == Entry("/a", b"2", updated, created)


async def test_a_delete_is_refused_once_its_guard_is_gone(store: Store) -> None:
    lease = await store.create("/lease", b"me")
    revision = await store.create("/a", b"1")
    await store.delete("/lease", revision=lease)
    with pytest.raises(GuardFailed):
        await store.delete("/a", revision=revision, guard=Guard("/lease", lease))
    assert await store.get("/a") is not None


async def test_a_delete_goes_ahead_while_its_guard_holds(store: Store) -> None:
    lease = await store.create("/lease", b"me")
    revision = await store.create("/a", b"1")
    await store.delete("/a", revision=revision, guard=Guard("/lease", lease))
    assert await store.get("/a") is None


async def test_a_guard_of_revision_zero_holds_while_its_key_does_not_exist(store: Store) -> None:
    await store.create("/a", b"1", guard=Guard("/absent", 0))
    assert await store.get("/a") is not None


async def test_a_guard_of_revision_zero_fails_once_its_key_exists(store: Store) -> None:
    await store.create("/present", b"x")
    with pytest.raises(GuardFailed):
        await store.create("/a", b"1", guard=Guard("/present", 0))


async def test_a_failed_guard_is_told_before_a_conflict(store: Store) -> None:
    await store.create("/a", b"1")
    with pytest.raises(GuardFailed):
        await store.create("/a", b"2", guard=Guard("/absent", 7))


async def test_a_conflict_is_told_while_the_guard_holds(store: Store) -> None:
    lease = await store.create("/lease", b"me")
    revision = await store.create("/a", b"1")
    with pytest.raises(Conflict) as caught:
        await store.create("/a", b"2", guard=Guard("/lease", lease))
    assert caught.value.current == Entry("/a", b"1", revision, revision)


async def test_a_write_may_be_guarded_by_its_own_key(store: Store) -> None:
    created = await store.create("/a", b"1")
    updated = await store.update("/a", b"2", revision=created, guard=Guard("/a", created))
    with pytest.raises(GuardFailed):
        await store.update("/a", b"3", revision=updated, guard=Guard("/a", created))


async def test_a_guarded_write_leaves_the_guard_untouched(store: Store) -> None:
    lease = await store.create("/lease", b"me")
    await store.create("/a", b"1", guard=Guard("/lease", lease))
    assert await store.get("/lease") == Entry("/lease", b"me", lease, lease)


async def test_a_refused_write_uses_no_revision_and_shows_no_change(store: Store) -> None:
    before = await store.create("/lease", b"me")
    with pytest.raises(GuardFailed):
        await store.create("/a", b"1", guard=Guard("/lease", before + 1))
    assert await store.create("/b", b"1") == before + 1


async def test_of_several_guards_all_have_to_hold(store: Store) -> None:
    lease, book = await store.create("/lease", b"x"), await store.create("/book", b"x")
    both = Guard("/lease", lease, Guard("/book", book))
    revision = await store.create("/a", b"1", guard=both)
    revision = await store.update("/a", b"2", revision=revision, guard=both)
    await store.update("/book", b"y", revision=book)
    for write in (
        store.create("/b", b"1", guard=both),
        store.update("/a", b"3", revision=revision, guard=both),
        store.delete("/a", revision=revision, guard=both),
    ):
        with pytest.raises(GuardFailed) as caught:
            await write
        assert (caught.value.guard.key, caught.value.guard.revision) == ("/book", book)
    assert await store.get("/b") is None
    found = await store.get("/a")
    assert found is not None
    assert found.value == b"2"
