"""The same as under load through the API, at the store itself: thousands of writes a second, every one of them known."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest
from tests.app.backup.writing import back_up, read

from pilothouse.pki.encryption_keys import EncryptionKeys
from pilothouse.store.encrypted_store import EncryptedStore
from pilothouse.store.interface import Store
from pilothouse.store.sqlite import SqliteStore

STANDING = 4_000
WRITERS = 50
Log = list[tuple[int, str, bytes | None]]


async def write(store: Store, name: str, log: Log, stop: asyncio.Event) -> None:
    choice = random.Random(name)
    live: dict[str, int] = {}
    serial = 0
    while not stop.is_set():
        key = f"/registry/secrets/t/{name}-{choice.randrange(5)}"
        value = b"%s %d" % (name.encode(), serial)
        serial += 1
        if key not in live:
            live[key] = await store.create(key, value)
            log.append((live[key], key, value))
        elif choice.random() < 0.2:
            log.append((await store.delete(key, revision=live.pop(key)), key, None))
        else:
            live[key] = await store.update(key, value, revision=live[key])
            log.append((live[key], key, value))


def standing_at(log: Log, revision: int) -> dict[str, bytes]:
    values: dict[str, bytes] = {}
    for at, key, value in sorted(log):
        if at > revision:
            break
        if value is None:
            del values[key]
        else:
            values[key] = value
    return values


@pytest.mark.parametrize("sealed", [False, True])
async def test_a_backup_shows_exactly_one_revision(tmp_path: Path, sealed: bool) -> None:
    keys = EncryptionKeys({"k": bytes(32)} if sealed else {})
    store = EncryptedStore(await SqliteStore.open(tmp_path / "store"), keys)
    log: Log = []
    stop = asyncio.Event()
    try:
        for n in range(STANDING):
            revision = await store.create(f"/registry/pods/t/p{n:05}", b"x" * 500)
            log.append((revision, f"/registry/pods/t/p{n:05}", b"x" * 500))
        async with asyncio.TaskGroup() as group:
            for n in range(WRITERS):
                group.create_task(write(store, f"w{n}", log, stop))
            for _ in range(3):
                content = await back_up(store.inner, busy=True)
                found = {saved.key: keys.open(saved.key, saved.value) for saved in read(content)}
                revision = int(content.split(b'"revision":')[1].split(b",")[0])
                assert found == standing_at(log, revision)
            stop.set()
    finally:
        await store.close()
