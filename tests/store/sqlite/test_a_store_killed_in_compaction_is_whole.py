"""kill -9 while history is being swept away: nothing of the present is lost, the file is whole, and the sweep goes on from there.

Two kills here, sixty when PILOTHOUSE_SOAK=1.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import apsw
from tests.kit.run_report import Tell
from tests.kit.waiting import eventually

from pilothouse.store.revision_log import RevisionLog, Row
from pilothouse.store.sqlite import SqliteStore

KILLS = 60 if os.environ.get("PILOTHOUSE_SOAK") == "1" else 2
KEYS = 50
ROWS = 6_000

COMPACTING = """
import asyncio, sys
from pathlib import Path
from pilothouse.store.sqlite import SqliteStore

async def main() -> None:
    store = await SqliteStore.open(Path(sys.argv[1]))
    await store.compact(await store.revision())
    print("sweeping", flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


def overwrite(file: Path, first: int) -> int:
    """Many writes to few keys; the last revision."""
    log = RevisionLog(file)
    latest = {row.key: row for row in log.latest()}
    revision = max(first, log.revision)
    for start in range(0, ROWS, 500):
        rows = []
        for number in range(start, start + 500):
            revision += 1
            key = f"/k/{number % KEYS:02}"
            old = latest.get(key)
            row = Row(
                revision,
                key,
                f"{key} {revision}".encode() * 20,
                old.created if old else revision,
                old.revision if old else 0,
                None,
            )
            latest[key] = row
            rows.append(row)
        log.append(rows)
    log.close()
    return revision


def strike(folder: Path, moment: float) -> None:
    """Kill a process so many seconds after it has begun to sweep."""
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(
        [sys.executable, "-c", COMPACTING, str(folder)], stdout=subprocess.PIPE, env=env
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"sweeping\n"
        time.sleep(moment)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def marks(file: Path) -> dict[str, int]:
    connection = apsw.Connection(str(file))
    try:
        assert connection.execute("PRAGMA integrity_check").get == "ok"
        return dict(connection.execute("SELECT name, value FROM mark"))
    finally:
        connection.close()


async def test_nothing_of_the_present_is_lost(tmp_path: Path, tell: Tell) -> None:
    folder = tmp_path / "store"
    await (await SqliteStore.open(folder)).close()
    file, moments, revision, amid = folder / "store.db", random.Random(1), 0, 0
    for _ in range(KILLS):
        revision = overwrite(file, revision)
        strike(folder, moments.uniform(0, 0.04))
        found = marks(file)
        assert found["compacted"] == revision
        amid += found.get("swept", 0) < revision
        store = await SqliteStore.open(folder)
        try:
            entries = (await store.list("/k/")).entries
            assert len(entries) == KEYS
            for entry in entries:
                assert entry.revision > revision - KEYS
                assert entry.value == f"{entry.key} {entry.revision}".encode() * 20
            assert await store.revision() == revision

            async def swept(upto: int = revision) -> bool:
                return marks(file)["swept"] == upto

            await eventually(swept, seconds=60)
            # Nothing is left but the present.
            connection = apsw.Connection(str(file))
            assert connection.execute("SELECT count(*) FROM log").get == KEYS
            connection.close()
        finally:
            await store.close()
    tell(f"killed {KILLS} times, {amid} of them amid a sweep over {ROWS} rows")
