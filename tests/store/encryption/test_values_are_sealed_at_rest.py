from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.store.following import collect

from pilothouse.pki.encryption_keys import MARK, EncryptionKeys, Unopenable, key_of
from pilothouse.store.encrypted_store import EncryptedStore
from pilothouse.store.interface import Conflict, why_unreadable
from pilothouse.store.memory import MemoryStore

OLD, NEW = bytes(32), bytes(range(32))
SECRET = "/registry/secrets/t/a"


@given(st.text(max_size=50), st.binary(max_size=200))
def test_what_is_sealed_opens_to_the_same(place: str, value: bytes) -> None:
    keys = EncryptionKeys({"k": NEW})
    sealed = keys.seal(place, value)
    assert key_of(sealed) == "k"
    assert keys.open(place, sealed) == value
    assert keys.seal(place, value) != sealed


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_a_value_that_was_altered_does_not_open(at: int, by: int) -> None:
    keys = EncryptionKeys({"k": NEW})
    sealed = bytearray(keys.seal("/a", b'{"data":{"password":"cGFzcw=="}}'))
    at = len(MARK) + at % (len(sealed) - len(MARK))
    sealed[at] ^= by
    try:
        opened = keys.open("/a", bytes(sealed))
    except Unopenable:
        return
    # Only the end of the name can be spoilt so that the value looks plain, and then it is no JSON.
    assert opened == bytes(sealed)


def test_a_value_that_was_moved_does_not_open() -> None:
    keys = EncryptionKeys({"k": NEW})
    with pytest.raises(Unopenable, match="altered or moved"):
        keys.open("/registry/secrets/t/mine", keys.seal("/registry/secrets/t/yours", b"{}"))


async def test_only_what_is_covered_is_sealed() -> None:
    inner = MemoryStore()
    store = EncryptedStore(inner, EncryptionKeys({"k": NEW}))
    await store.create(SECRET, b'{"password":"hunter2"}')
    await store.create("/registry/configmaps/t/a", b'{"colour":"blue"}')
    kept = {entry.key: entry.value for entry in (await inner.list("/")).entries}
    assert kept["/registry/configmaps/t/a"] == b'{"colour":"blue"}'
    assert b"hunter2" not in kept[SECRET]
    shown = {entry.key: entry.value for entry in (await store.list("/")).entries}
    assert shown[SECRET] == b'{"password":"hunter2"}'


async def test_everyone_above_sees_plain_values() -> None:
    store = EncryptedStore(MemoryStore(), EncryptionKeys({"k": NEW}))
    created = await store.create(SECRET, b"1")
    with pytest.raises(Conflict) as conflict:
        await store.create(SECRET, b"2")
    assert conflict.value.current is not None
    assert conflict.value.current.value == b"1"
    updated = await store.update(SECRET, b"2", revision=created)
    with pytest.raises(Conflict) as conflict:
        await store.delete(SECRET, revision=created)
    assert conflict.value.current is not None
    assert conflict.value.current.value == b"2"
    await store.delete(SECRET, revision=updated)
    async with store.watch("/registry/", after=1) as batches:
        changes = await collect(batches, 3)
    assert [change.value for change in changes] == [b"1", b"2", None]
    assert (await store.list(SECRET, revision=created)).entries[0].value == b"1"


async def test_plain_values_are_served_and_sealed_when_written() -> None:
    inner = MemoryStore()
    revision = await inner.create(SECRET, b"{}")
    store = EncryptedStore(inner, EncryptionKeys({"k": NEW}))
    found = await store.get(SECRET)
    assert found is not None
    assert found.value == b"{}"
    await store.update(SECRET, b"{}", revision=revision)
    kept = await inner.get(SECRET)
    assert kept is not None
    assert key_of(kept.value) == "k"


async def test_a_missing_key_spoils_nothing_else() -> None:
    inner = MemoryStore()
    await EncryptedStore(inner, EncryptionKeys({"lost": OLD})).create(SECRET, b"{}")
    store = EncryptedStore(inner, EncryptionKeys({"k": NEW}))
    await store.create("/registry/secrets/t/b", b'{"b":1}')
    one, other = (await store.list("/registry/")).entries
    assert f"{SECRET} can't be read: it is sealed with the key 'lost'" in why_unreadable(one.value)
    assert other.value == b'{"b":1}'
    found = await store.get(SECRET)
    assert found is not None
    assert found.value == one.value
    async with store.watch("/registry/", after=1) as batches:
        first, second = await collect(batches, 2)
    assert first.value == one.value
    assert second.value == b'{"b":1}'


async def test_another_key_of_the_same_name_is_told_apart() -> None:
    inner = MemoryStore()
    await EncryptedStore(inner, EncryptionKeys({"k": OLD})).create(SECRET, b"{}")
    found = await EncryptedStore(inner, EncryptionKeys({"k": NEW})).get(SECRET)
    assert found is not None
    assert "the keys differ" in why_unreadable(found.value)


async def test_without_keys_values_stay_plain_and_sealed_ones_say_why() -> None:
    inner = MemoryStore()
    store = EncryptedStore(inner, EncryptionKeys())
    await store.create(SECRET, b"{}")
    kept = await inner.get(SECRET)
    assert kept is not None
    assert kept.value == b"{}"
    await EncryptedStore(inner, EncryptionKeys({"k": NEW})).create("/registry/secrets/t/b", b"{}")
    found = await store.get("/registry/secrets/t/b")
    assert found is not None
    assert "'k', which this server was not given (it has: none)" in why_unreadable(found.value)
