"""On a disk that is really full objects can be deleted and history is compacted; all else is refused, until there is room."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.kit.containers import needs_root
from tests.kit.waiting import eventually

from pilothouse.store.interface import NoSpace, Unavailable
from pilothouse.store.sqlite import SqliteStore

pytestmark = needs_root


@pytest.fixture(params=["tmpfs", pytest.param("ext4", marks=pytest.mark.long)])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    folder, image = tmp_path / "disk", tmp_path / "image"
    folder.mkdir()
    if request.param == "tmpfs":
        mounting: list[str | Path] = ["mount", "-t", "tmpfs", "-o", "size=128m", "pilothouse-test", folder]
    else:
        image.touch()
        with image.open("r+b") as file:
            file.truncate(144 << 20)
        subprocess.run(["mkfs.ext4", "-q", "-m", "0", image], check=True)
        mounting = ["mount", "-o", "loop", image, folder]
    if subprocess.run(mounting, check=False).returncode:
        pytest.skip(f"this machine can't mount a {request.param} of its own")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


@pytest.fixture
async def store(disk: Path) -> AsyncIterator[SqliteStore]:
    opened = await SqliteStore.open(disk / "store", reserve_after=0)

    await kept_back(disk)
    yield opened
    await opened.close()


async def kept_back(disk: Path) -> None:
    """Waits until space is."""

    async def made() -> bool:
        file = disk / "store" / "reserve"
        return file.exists() and file.stat().st_size == 32 << 20

    await eventually(made)


def fill(disk: Path) -> Path:
    """Others have taken all that there was."""
    filling = disk / "filling"
    with filling.open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue
    return filling


async def create_until_refused(store: SqliteStore, prefix: str) -> None:
    for number in range(10_000):
        writes = (store.create(f"{prefix}/{number}-{each}", bytes(50_000)) for each in range(20))
        ends = await asyncio.gather(*writes, return_exceptions=True)
        if any(isinstance(end, NoSpace | Unavailable) for end in ends):
            return


async def fill_up(store: SqliteStore, disk: Path) -> Path:
    """Until the store has noticed."""
    filling = fill(disk)
    await create_until_refused(store, "/more")
    assert store.condition.full
    assert "full" in store.condition.problem
    return filling


async def test_deletes_leases_and_compaction_go_on_and_all_else_when_there_is_room(
    store: SqliteStore, disk: Path
) -> None:
    revisions = [await store.create(f"/a/{number}", bytes(2000)) for number in range(500)]
    lease = await store.create("/lease", b"x" * 400)
    filling = await fill_up(store, disk)
    for number, revision in enumerate(revisions):
        await store.delete(f"/a/{number}", revision=revision)
        lease = await store.update("/lease", b"y" * 400, revision=lease)
        if number % 100 == 99:
            with pytest.raises(NoSpace, match="disk is full"):
                await store.create("/b", b"1")
            fill_rest(filling)
            await store.compact(await store.revision())
    with pytest.raises(NoSpace, match="disk is full"):
        await store.update("/lease", bytes(20_000), revision=lease)
    filling.unlink()
    # The first to ask finds that there is room.
    await store.create("/b", b"1")
    assert not store.condition.full
    assert (disk / "store" / "reserve").stat().st_size == 32 << 20


def fill_rest(filling: Path) -> None:
    """What filled the disk goes on trying."""
    with filling.open("ab", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            return


async def test_updates_dont_use_up_what_deletes_need(store: SqliteStore, disk: Path) -> None:
    victim = await store.create("/victim", bytes(1000))
    large = await store.create("/large", bytes(100_000))
    await fill_up(store, disk)
    for _ in range(10_000):
        try:
            large = await store.update("/large", bytes(100_000), revision=large)
        except NoSpace:
            break
    else:
        pytest.fail("updates were never refused")
    await store.delete("/victim", revision=victim)
    assert await store.get("/victim") is None


async def test_a_disk_that_the_store_itself_filled_has_room_after_deletions(
    store: SqliteStore, disk: Path
) -> None:
    await fill_up(store, disk)
    (disk / "filling").unlink()
    await create_until_refused(store, "/own")
    fill(disk)
    for prefix in ("/own/", "/more/"):
        entries = (await store.list(prefix)).entries
        await asyncio.gather(*(store.delete(entry.key, revision=entry.revision) for entry in entries))
    await store.compact(await store.revision())

    async def taken() -> bool:
        try:
            await store.create("/after", bytes(50_000))
        except NoSpace:
            return False
        return True

    await eventually(taken, seconds=60)
    assert not store.condition.full


async def test_a_store_is_opened_on_a_full_disk(disk: Path) -> None:
    first = await SqliteStore.open(disk / "store", reserve_after=0)

    await kept_back(disk)
    revision = await first.create("/a", b"1")
    await first.close()
    fill(disk)
    again = await SqliteStore.open(disk / "store")
    try:
        await again.delete("/a", revision=revision)
        assert await again.get("/a") is None
    finally:
        await again.close()
