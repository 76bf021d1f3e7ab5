"""Before 3.5.8 and 3.4.25 a progress mark that was asked for could overtake events."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kit.etcd import EtcdServer, distributed_binary
from tests.store.following import next_batch, until

from pilothouse.store.etcd import EtcdStore
from pilothouse.store.etcd.etcd_watch import marks_come_in_order


@pytest.mark.parametrize("version", ["3.4.25", "3.4.40", "3.5.8", "3.5.21", "3.6.0", "3.6.0-rc.1", "4.0.0"])
def test_later_versions_are_trusted(version: str) -> None:
    assert marks_come_in_order(version)


@pytest.mark.parametrize(
    "version", ["3.3.27", "3.4.24", "3.5.0", "3.5.1", "3.5.7", "", "nonsense", "3.5", "2.3.8"]
)
def test_earlier_and_unknown_versions_are_not(version: str) -> None:
    assert not marks_come_in_order(version)


@pytest.fixture
def old_server(tmp_path: Path) -> Iterator[EtcdServer]:
    (binary,) = distributed_binary()
    made = EtcdServer.start(tmp_path / "etcd", binary=binary)
    yield made
    made.stop()


@pytest.mark.etcd
async def test_an_old_servers_own_marks_still_come(old_server: EtcdServer) -> None:
    store = await EtcdStore.open([old_server.endpoint])
    async with store.watch("/quiet/", after=await store.revision()) as batches:
        revision = await store.create("/loud/1", b"x")
        assert await until(batches, revision) == []
    await store.close()


@pytest.mark.etcd
async def test_on_an_old_server_no_change_comes_after_a_mark_above_it(old_server: EtcdServer) -> None:
    store = await EtcdStore.open([old_server.endpoint], progress_every=0.01)

    async def write(n: int) -> None:
        for i in range(100):
            await store.create(f"/a/{n}/{i}", b"x" * 500)
            await store.progress()

    async with store.watch("/a/", after=await store.revision()) as batches:
        writing = asyncio.gather(*(write(n) for n in range(8)))
        mark, seen = 0, 0
        while seen < 800:
            batch = await next_batch(batches)
            assert all(change.revision > mark for change in batch.changes)
            seen += len(batch.changes)
            mark = batch.revision
        await writing
    await store.close()
