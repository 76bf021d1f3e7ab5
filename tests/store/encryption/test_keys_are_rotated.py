from __future__ import annotations

from pilothouse.pki.encryption_keys import EncryptionKeys, key_of
from pilothouse.store.encrypted_store import EncryptedStore, Reencrypted
from pilothouse.store.interface import Entry, Guard
from pilothouse.store.memory import MemoryStore

OLD, NEW = bytes(32), bytes(range(32))


async def reseal(store: EncryptedStore) -> Reencrypted:
    return [progress async for progress in store.reseal()][-1]


async def kept(store: MemoryStore) -> dict[str, str | None]:
    return {entry.key.rpartition("/")[2]: key_of(entry.value) for entry in (await store.list("/")).entries}


async def test_all_values_are_rewritten_with_the_first_key() -> None:
    inner = MemoryStore()
    await inner.create("/registry/secrets/t/plain", b"1")
    await EncryptedStore(inner, EncryptionKeys({"old": OLD})).create("/registry/secrets/t/old", b"2")
    both = EncryptedStore(inner, EncryptionKeys({"new": NEW, "old": OLD}))
    await both.create("/registry/secrets/t/new", b"3")

    before = await both.census()
    assert (before.plain, before.sealed, before.missing) == (1, {"new": 1, "old": 1}, ())
    assert await reseal(both) == Reencrypted(3, 2)
    assert await kept(inner) == {"plain": "new", "old": "new", "new": "new"}

    only_new = EncryptedStore(inner, EncryptionKeys({"new": NEW}))
    assert [entry.value for entry in (await only_new.list("/registry/")).entries] == [b"3", b"2", b"1"]
    assert (await only_new.census()).sealed == {"new": 3}


async def test_a_second_rewrite_finds_nothing_to_do() -> None:
    store = EncryptedStore(MemoryStore(), EncryptionKeys({"k": NEW}))
    await store.create("/registry/secrets/t/a", b"1")
    revision = await store.revision()
    assert await reseal(store) == Reencrypted(1, 0)
    assert await store.revision() == revision


async def test_an_empty_store_has_nothing_to_rewrite() -> None:
    assert await reseal(EncryptedStore(MemoryStore(), EncryptionKeys({"k": NEW}))) == Reencrypted()


async def test_values_without_their_key_are_named_and_left_alone() -> None:
    inner = MemoryStore()
    await EncryptedStore(inner, EncryptionKeys({"lost": OLD})).create("/registry/secrets/t/a", b"1")
    store = EncryptedStore(inner, EncryptionKeys({"k": NEW}))
    await store.create("/registry/secrets/t/b", b"2")
    assert (await store.census()).missing == ("lost",)
    done = await reseal(store)
    assert (done.seen, done.rewritten) == (2, 0)
    (problem,) = done.failed
    assert problem.startswith("/registry/secrets/t/a: it is sealed with the key 'lost'")
    assert await kept(inner) == {"a": "lost", "b": "k"}


class BusyStore(MemoryStore):
    """Another writer, which still has the old key first, is always a little quicker."""

    def __init__(self, rival: EncryptionKeys, times: int) -> None:
        super().__init__()
        self._rival = rival
        self._times = times

    async def update(
        self, key: str, value: bytes, *, revision: int, ttl: float = 0, guard: Guard | None = None
    ) -> int:
        if self._times:
            self._times -= 1
            theirs = self._rival.seal(key, f"rival {self._times}".encode())
            await super().update(key, theirs, revision=revision)
        return await super().update(key, value, revision=revision, ttl=ttl, guard=guard)


async def test_a_value_written_meanwhile_keeps_its_content() -> None:
    inner = BusyStore(EncryptionKeys({"old": OLD}), times=3)
    await inner.create("/registry/secrets/t/a", b"mine")
    store = EncryptedStore(inner, EncryptionKeys({"new": NEW, "old": OLD}))
    assert await reseal(store) == Reencrypted(1, 1)
    found = await store.get("/registry/secrets/t/a")
    assert isinstance(found, Entry)
    assert found.value == b"rival 0"
    assert await kept(inner) == {"a": "new"}


async def test_many_values_are_rewritten_page_by_page() -> None:
    inner = MemoryStore()
    for n in range(2500):
        await inner.create(f"/registry/secrets/t/{n:05}", b"%d" % n)
    store = EncryptedStore(inner, EncryptionKeys({"k": NEW}))
    told = [progress async for progress in store.reseal()]
    assert [progress.seen for progress in told] == [1000, 2000, 2500]
    assert told[-1].rewritten == 2500
    assert (await store.census()).sealed == {"k": 2500}
