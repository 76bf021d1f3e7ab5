from __future__ import annotations

import io
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.app.backup.writing import PREFIXES, back_up, read

from pilothouse.store.backup_file import BackupError, BackupReader, Header, Saved, written
from pilothouse.store.memory import MemoryStore


async def filled(count: int = 5) -> MemoryStore:
    store = MemoryStore()
    for n in range(count):
        await store.create(f"/registry/configmaps/t/c{n:05}", b'{"n":%d}' % n)
    return store


async def test_what_was_written_is_read_in_order() -> None:
    store = await filled()
    await store.create("/pilothouse/keys/a", b"k")
    await store.create("/elsewhere/a", b"not ours")
    assert read(await back_up(store)) == [
        Saved("/pilothouse/keys/a", b"k"),
        *(Saved(f"/registry/configmaps/t/c{n:05}", b'{"n":%d}' % n) for n in range(5)),
    ]


async def test_an_empty_store_makes_an_empty_backup() -> None:
    assert read(await back_up(MemoryStore())) == []


async def test_the_first_line_is_for_people() -> None:
    first = (await back_up(await filled())).split(b"\n")[0]
    assert json.loads(first) | {"server": ""} == {
        "format": "pilothouse-backup",
        "version": 1,
        "revision": 6,
        "created": "2031-04-01T12:00:00Z",
        "server": "",
        "keys": [],
    }


async def test_values_from_elsewhere_find_their_place() -> None:
    store = await filled(1)
    await store.create("/pilothouse/instances/a", b"gone soon")
    await store.create("/pilothouse/keys/old", b"in the store")
    besides = {"/pilothouse/keys/b": b"1", "/zzz": b"2", "/pilothouse/keys/old": b"from elsewhere"}
    found = read(await back_up(store, besides=besides, without=("/pilothouse/instances/",)))
    assert found == [
        Saved("/pilothouse/keys/b", b"1"),
        Saved("/pilothouse/keys/old", b"from elsewhere"),
        Saved("/registry/configmaps/t/c00000", b'{"n":0}'),
        Saved("/zzz", b"2"),
    ]


async def test_everything_is_of_one_revision() -> None:
    store = await filled(3000)
    header = Header(revision=await store.revision(), created="")
    pieces = written(store, header, PREFIXES, besides={}, without=())
    content = await anext(pieces, b"")
    for n in range(3000):
        entry = await store.get(f"/registry/configmaps/t/c{n:05}")
        assert entry is not None
        await store.update(entry.key, b"later", revision=entry.revision)
    await store.create("/registry/configmaps/t/a", b"later")
    content += b"".join([piece async for piece in pieces])
    assert [saved.value for saved in read(content)] == [b'{"n":%d}' % n for n in range(3000)]


async def test_a_backup_that_history_ran_away_from_says_so() -> None:
    store = await filled(3000)
    revision = await store.revision()
    await store.create("/registry/x", b"")
    await store.compact(await store.revision())
    header = Header(revision=revision, created="")
    pieces = written(store, header, PREFIXES, besides={}, without=())
    content = b"".join([piece async for piece in pieces])
    with pytest.raises(BackupError, match=r"was not finished: revision \d+ is compacted"):
        read(content)


@pytest.fixture(scope="module")
def backup() -> bytes:
    import asyncio

    async def make() -> bytes:
        return await back_up(await filled(20))

    return asyncio.run(make())


@given(at=st.integers(0, 10**6))
@settings(max_examples=300)
def test_a_file_that_was_cut_off_is_refused(backup: bytes, at: int) -> None:
    with pytest.raises(BackupError, match=r"ends too early|not a backup"):
        read(backup[: at % len(backup)])


@given(at=st.integers(0, 10**6), by=st.integers(1, 255))
@settings(max_examples=500)
def test_a_file_with_a_wrong_byte_is_refused(backup: bytes, at: int, by: int) -> None:
    spoilt = bytearray(backup)
    spoilt[at % len(backup)] ^= by
    with pytest.raises(BackupError):
        read(bytes(spoilt))


def test_the_place_of_the_damage_is_told(backup: bytes) -> None:
    at = backup.index(b"c00007")
    spoilt = backup.replace(b"c00007", b"c0000X")
    with pytest.raises(BackupError, match=r"b\.backup: entry 8, at byte (\d+), is damaged") as refused:
        read(spoilt)
    start = int(str(refused.value).split("at byte ")[1].split(",")[0])
    assert start < at < start + 60
    with pytest.raises(
        BackupError, match=rf"ends too early, at byte {at}: .* entry 8, which begins at byte {start}"
    ):
        read(backup[:at])


def test_what_comes_after_the_end_is_refused(backup: bytes) -> None:
    with pytest.raises(BackupError, match=f"goes on after its end, at byte {len(backup)}"):
        read(backup + b"\n")


def test_entries_that_are_left_out_are_missed(backup: bytes) -> None:
    frames = backup.index(b"\n") + 1
    first = frames + 9 + int.from_bytes(backup[frames + 1 : frames + 5], "big")
    with pytest.raises(BackupError, match="says it has 20 entries, and has 19"):
        read(backup[:frames] + backup[first:])
    with pytest.raises(BackupError, match="does not come after"):
        read(backup[:first] + backup[frames:])


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"", "not a backup"),
        (b"PK\x03\x04 something\n", "not a backup"),
        (b'["a"]\n', "not a backup"),
        (b'{"format":"another","version":1}\n', "not a backup"),
        (
            b'{"format":"pilothouse-backup","version":2,"new":true}\n',
            "version 2 of the format.*reads version 1",
        ),
        (b'{"format":"pilothouse-backup","version":1}\n', "the first line can't be used"),
        (b"x" * 200_000, "not a backup"),
    ],
)
def test_other_files_are_told_apart(line: bytes, said: str) -> None:
    with pytest.raises(BackupError, match=said):
        BackupReader(io.BytesIO(line), "b.backup")
