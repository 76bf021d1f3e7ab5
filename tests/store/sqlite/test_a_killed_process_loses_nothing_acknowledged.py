"""kill -9 in the middle of writing: what was acknowledged is there, in order, and revisions go on above it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.store.following import collect

from pilothouse.store.interface import Change
from pilothouse.store.sqlite import SqliteStore

WRITER = """
import asyncio, sys
from pathlib import Path
from pilothouse.store.sqlite import SqliteStore

async def main() -> None:
    store = await SqliteStore.open(Path(sys.argv[1]))
    async def write(n: int) -> None:
        entry = await store.get(f"/w/{n}")
        revision = entry.revision if entry else 0
        count = int(entry.value) if entry else 0
        while True:
            count += 1
            value = str(count).encode()
            if revision:
                revision = await store.update(f"/w/{n}", value, revision=revision)
            else:
                revision = await store.create(f"/w/{n}", value)
            print(n, count, revision, flush=True)
            if count % 50 == 0:
                await store.compact(max(store.current - 200, 0))
    await asyncio.gather(*(write(n) for n in range(8)))

asyncio.run(main())
"""


def run_and_kill(folder: Path, *, after: int) -> list[tuple[int, int, int]]:
    """Let a process write until it has acknowledged some, kill it, and return all that it acknowledged."""
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(folder)], stdout=subprocess.PIPE, env=env)
    assert process.stdout is not None
    try:
        lines = [process.stdout.readline() for _ in range(after)]
    finally:
        process.kill()
    lines += process.stdout.read().splitlines(keepends=True)
    process.wait()
    process.stdout.close()
    acknowledged = []
    for line in lines:
        if line.endswith(b"\n"):
            n, count, revision = map(int, line.split())
            acknowledged.append((n, count, revision))
    return acknowledged


async def check(folder: Path, acknowledged: list[tuple[int, int, int]], floor: int) -> int:
    latest: dict[int, tuple[int, int]] = {}
    for n, count, revision in acknowledged:
        assert revision > floor, "a revision was used twice"
        latest[n] = (count, revision)
    store = await SqliteStore.open(folder)
    for n, (count, revision) in latest.items():
        entry = await store.get(f"/w/{n}")
        assert entry is not None
        assert int(entry.value) >= count
        assert entry.revision >= revision
    current = store.current
    await store.close()
    assert current >= max(revision for _, _, revision in acknowledged)
    return current


@pytest.mark.parametrize("after", [1, 7, 100, 400])
async def test_a_kill_at_some_moment(tmp_path: Path, after: int) -> None:
    acknowledged = run_and_kill(tmp_path / "store", after=after)
    assert len(acknowledged) >= after
    assert await check(tmp_path / "store", acknowledged, 0) > 0


async def test_kill_after_kill_in_one_folder(tmp_path: Path) -> None:
    floor = 0
    for after in (50, 3, 120, 20, 1):
        acknowledged = run_and_kill(tmp_path / "store", after=after)
        floor = await check(tmp_path / "store", acknowledged, floor)
    assert floor > 190


async def test_a_watch_resumes_over_a_kill_without_gap_or_repeat(tmp_path: Path) -> None:
    first = run_and_kill(tmp_path / "store", after=60)
    store = await SqliteStore.open(tmp_path / "store")
    oldest = min(revision for _, _, revision in first)
    mark = max(oldest - 1, store.current - 100)
    async with store.watch("/w/", after=mark) as batches:
        seen: list[Change] = await collect(batches, store.current - mark)
    await store.close()
    assert [change.revision for change in seen] == list(range(mark + 1, mark + 1 + len(seen)))
    counts: dict[str, int] = {}
    for change in seen:
        assert change.value is not None
        assert counts.get(change.key, int(change.value) - 1) == int(change.value) - 1
        counts[change.key] = int(change.value)


async def test_a_torn_end_of_the_write_ahead_log_is_passed_over(tmp_path: Path) -> None:
    acknowledged = run_and_kill(tmp_path / "store", after=100)
    with (tmp_path / "store" / "store.db-wal").open("ab") as wal:
        # A frame that was being written when the power went: a header's worth of noise and half a page.
        wal.write(os.urandom(24 + 2000))
    assert await check(tmp_path / "store", acknowledged, 0) > 0


async def test_a_write_cut_off_inside_its_last_frame_is_lost_alone(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "store")
    kept = [await store.create(f"/a/{n}", b"x" * 500) for n in range(20)]
    wal = tmp_path / "store" / "store.db-wal"
    whole = wal.stat().st_size
    await store.create("/a/torn", b"y" * 500)
    torn = wal.stat().st_size - (wal.stat().st_size - whole) // 2
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in (tmp_path / "store").iterdir():
        if file.name in ("store.db", "store.db-wal", "format"):
            (copy / file.name).write_bytes(file.read_bytes())
    await store.close()
    with (copy / "store.db-wal").open("r+b") as half:
        half.truncate(torn)
    again = await SqliteStore.open(copy)
    standing = {entry.key: entry.revision for entry in (await again.list("/a/")).entries}
    standing.pop("/a/torn", None)
    assert standing == {f"/a/{n}": revision for n, revision in enumerate(kept)}
    await again.close()
