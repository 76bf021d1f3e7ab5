from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pilothouse.pki.encryption_keys import EncryptionKeys
from pilothouse.store.encrypted_store import EncryptedStore
from pilothouse.store.interface import Conflict
from pilothouse.store.memory import MemoryStore
from pilothouse.store.sqlite import SqliteStore
from pilothouse.store.timed_store import TimedStore, grouping


async def test_each_call_is_counted_whether_it_succeeds_or_not() -> None:
    store = TimedStore(MemoryStore())
    revision = await store.create("/a", b"1")
    with pytest.raises(Conflict):
        await store.create("/a", b"2")
    await store.update("/a", b"2", revision=revision)
    await store.get("/a")
    await store.close()
    counts = {call: sum(seconds.counts) for call, seconds in store.seconds.items()}
    assert {call: count for call, count in counts.items() if count} == {"create": 2, "update": 1, "get": 1}


async def test_writes_that_wait_together_are_committed_together(tmp_path: Path) -> None:
    inner = await SqliteStore.open(tmp_path / "store")
    store = TimedStore(EncryptedStore(inner, EncryptionKeys()))
    try:
        groups = grouping(store)
        assert groups is not None
        await asyncio.gather(*(store.create(f"/{number}", b"x") for number in range(50)))
        assert groups.group_sizes.sum == 50
        assert sum(groups.group_sizes.counts) == sum(groups.commit_seconds.counts) < 50
    finally:
        await store.close()


async def test_a_store_without_groups_says_so() -> None:
    store = MemoryStore()
    assert grouping(TimedStore(store)) is None
    await store.close()
