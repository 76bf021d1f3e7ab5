"""One member that goes away and comes back: calls wait or end, watches resume."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.kit.etcd import EtcdServer
from tests.kit.processes import free_port
from tests.kit.waiting import eventually
from tests.store.etcd.relay import Relay
from tests.store.following import PATIENCE, brief, collect, until

from pilothouse.store.etcd import EtcdStore
from pilothouse.store.interface import Batch, Compacted, StoreError, Unavailable

pytestmark = pytest.mark.etcd


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EtcdServer]:
    made = EtcdServer.start(tmp_path / "etcd")
    yield made
    made.stop()


def restart(server: EtcdServer) -> None:
    server.begin()
    server.wait_until_healthy()


async def test_a_watch_resumes_after_a_restart(server: EtcdServer) -> None:
    store = await EtcdStore.open([server.endpoint], progress_every=0.2)
    start = await store.revision()
    async with store.watch("/a/", after=start) as batches:
        await store.create("/a/1", b"1")
        assert brief(await collect(batches, 1)) == [("/a/1", b"1")]
        server.kill()
        await asyncio.to_thread(restart, server)
        last = await store.create("/a/2", b"2")
        assert brief(await until(batches, last)) == [("/a/2", b"2")]
    await store.close()


async def test_a_watch_that_resumes_below_a_compaction_says_so(server: EtcdServer) -> None:
    writer = await EtcdStore.open([server.endpoint])
    async with Relay.to(server.endpoint) as relay:
        reader = await EtcdStore.open([relay.endpoint], progress_every=60)
        async with reader.watch("/a/", after=await writer.revision()) as batches:
            await writer.create("/a/1", b"1")
            await collect(batches, 1)
            await relay.cut()
            await writer.create("/a/2", b"2")
            await writer.compact(await writer.create("/a/3", b"3"))
            await relay.mend()
            with pytest.raises(Compacted):
                await collect(batches, 1)
        await reader.close()
    await writer.close()


async def test_a_watch_that_is_cut_off_over_and_over_has_no_gap_and_no_repeat(server: EtcdServer) -> None:
    writer = await EtcdStore.open([server.endpoint])
    async with Relay.to(server.endpoint) as relay:
        reader = await EtcdStore.open([relay.endpoint], progress_every=0.05)
        written: list[int] = []
        async with reader.watch("/a/", after=await writer.revision()) as batches:
            seen: list[int] = []
            for cut in range(6):
                for n in range(30):
                    written.append(await writer.create(f"/a/{cut}.{n}", b"x" * 1000))
                    if n == 15:
                        await relay.cut()
                await relay.mend()
                seen += [change.revision for change in await collect(batches, 5)]
            seen += [change.revision for change in await until(batches, written[-1])]
        await reader.close()
    await writer.close()
    assert seen == written


async def test_a_write_that_was_cut_off_is_unavailable_and_may_have_happened(server: EtcdServer) -> None:
    async with Relay.to(server.endpoint) as relay:
        store = await EtcdStore.open([relay.endpoint], timeout=2)
        revision = await store.create("/a", b"1")
        writing = asyncio.create_task(store.update("/a", b"2", revision=revision))
        await asyncio.sleep(0)
        await relay.cut()
        with pytest.raises(Unavailable):
            await writing
        await relay.mend()
        entry = await store.get("/a")
        assert entry is not None
        assert entry.value in (b"1", b"2")
        await store.close()


async def test_reads_wait_for_a_member_that_comes_back_in_time(server: EtcdServer) -> None:
    store = await EtcdStore.open([server.endpoint], timeout=20)
    revision = await store.create("/a", b"1")
    server.kill()
    reading = asyncio.create_task(store.get("/a"))
    await asyncio.to_thread(restart, server)
    entry = await reading
    assert entry is not None
    assert entry.revision == revision
    await store.close()


async def test_calls_end_with_unavailable_when_nobody_answers_in_time(server: EtcdServer) -> None:
    store = await EtcdStore.open([server.endpoint], timeout=1)
    await store.create("/a", b"1")
    server.kill()
    with pytest.raises(Unavailable):
        await store.get("/a")
    with pytest.raises(Unavailable):
        await store.create("/b", b"1")
    await store.close()


async def test_a_watch_gives_up_when_nobody_answers_for_long(server: EtcdServer) -> None:
    store = await EtcdStore.open([server.endpoint], timeout=1, watch_patience=0.5)
    async with store.watch("/a/", after=await store.revision()) as batches:
        server.kill()
        with pytest.raises(Unavailable):
            await asyncio.wait_for(_exhaust(batches), PATIENCE)
    await store.close()


async def _exhaust(batches: AsyncIterator[Batch]) -> None:
    async for _ in batches:
        pass


async def test_an_endpoint_that_is_down_is_passed_over(server: EtcdServer) -> None:
    nobody = f"http://127.0.0.1:{free_port()}"
    store = await EtcdStore.open([nobody, server.endpoint], timeout=5)
    revision = await store.create("/a", b"1")
    entry = await store.get("/a")
    assert entry is not None
    assert entry.revision == revision
    async with store.watch("/a", after=revision - 1) as batches:
        assert brief(await collect(batches, 1)) == [("/a", b"1")]
    await store.close()


async def test_opening_fails_with_the_endpoint_when_nobody_is_there() -> None:
    nobody = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(Unavailable, match=nobody):
        await EtcdStore.open([nobody], timeout=0.5)


@pytest.mark.parametrize("endpoint", ["ftp://127.0.0.1:2379", "http://", ""])
async def test_an_endpoint_that_is_none_is_named(endpoint: str) -> None:
    with pytest.raises(StoreError, match="not an etcd endpoint"):
        await EtcdStore.open([endpoint])


async def test_no_endpoint_at_all_is_refused_with_an_example() -> None:
    with pytest.raises(StoreError, match="2379"):
        await EtcdStore.open([])


async def _is_stopped(pid: int) -> bool:
    """Whether none of its threads runs any more; until then it may still answer."""
    states = [
        (thread / "stat").read_text().rpartition(")")[2].split()[0]
        for thread in Path(f"/proc/{pid}/task").iterdir()  # noqa: ASYNC240
    ]
    return set(states) <= {"T"}


async def test_a_stopped_member_that_hangs_does_not_hang_its_callers(
    tmp_path: Path, server: EtcdServer
) -> None:
    store = await EtcdStore.open([server.endpoint], timeout=1)
    revision = await store.create("/a", b"1")
    os.kill(server.pid, signal.SIGSTOP)
    await eventually(lambda: _is_stopped(server.pid))
    try:
        with pytest.raises(Unavailable):
            await store.update("/a", b"2", revision=revision)
    finally:
        os.kill(server.pid, signal.SIGCONT)
    entry = await store.get("/a")
    assert entry is not None
    # The write was in doubt, and etcd may well have carried it out when it woke up.
    assert entry.value in (b"1", b"2")
    await store.close()
