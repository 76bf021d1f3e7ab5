"""Several API servers on one etcd: one sequence, one truth; and prefixes that keep strangers apart."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator

import pytest
from tests.kit.etcd import EtcdServer
from tests.store.following import brief, collect

from pilothouse.store.etcd import EtcdStore
from pilothouse.store.etcd import messages as wire
from pilothouse.store.etcd.cluster_connection import RANGE, ClusterConnection
from pilothouse.store.interface import Conflict
from pilothouse.store.keys import end_of

pytestmark = pytest.mark.etcd


@pytest.fixture
async def pair(etcd_server: EtcdServer) -> AsyncIterator[tuple[EtcdStore, EtcdStore]]:
    prefix = f"/{uuid.uuid4().hex}"
    one = await EtcdStore.open([etcd_server.endpoint], prefix=prefix)
    two = await EtcdStore.open([etcd_server.endpoint], prefix=prefix)
    yield one, two
    await one.close()
    await two.close()


async def test_what_one_writes_the_other_reads_at_once(pair: tuple[EtcdStore, EtcdStore]) -> None:
    one, two = pair
    for n in range(20):
        revision = await one.create(f"/a/{n}", b"x")
        entry = await two.get(f"/a/{n}")
        assert entry is not None
        assert entry.revision == revision


async def test_one_watches_what_the_other_writes(pair: tuple[EtcdStore, EtcdStore]) -> None:
    one, two = pair
    async with one.watch("/a/", after=await one.revision()) as batches:
        await two.create("/a/1", b"x")
        assert brief(await collect(batches, 1)) == [("/a/1", b"x")]


async def test_they_conflict_with_each_other(pair: tuple[EtcdStore, EtcdStore]) -> None:
    one, two = pair
    results = await asyncio.gather(one.create("/a", b"1"), two.create("/a", b"2"), return_exceptions=True)
    assert sorted(isinstance(result, Conflict) for result in results) == [False, True]


async def test_they_draw_from_one_sequence(pair: tuple[EtcdStore, EtcdStore]) -> None:
    one, two = pair
    revisions = []
    for n in range(10):
        revisions.append(await (one, two)[n % 2].create(f"/a/{n}", b"x"))
    assert revisions == list(range(revisions[0], revisions[0] + 10))


async def test_another_prefix_sees_nothing_of_it(etcd_server: EtcdServer) -> None:
    base = f"/{uuid.uuid4().hex}"
    mine = await EtcdStore.open([etcd_server.endpoint], prefix=base + "/x")
    other = await EtcdStore.open([etcd_server.endpoint], prefix=base + "/y")
    start = await mine.revision()
    await mine.create("/a", b"mine")
    await other.create("/a", b"other")
    assert [entry.value for entry in (await mine.list("")).entries] == [b"mine"]
    assert [entry.value for entry in (await other.list("")).entries] == [b"other"]
    async with other.watch("", after=start) as batches:
        assert brief(await collect(batches, 1)) == [("/a", b"other")]
    await mine.close()
    await other.close()


async def test_the_prefix_is_what_lies_in_etcd(etcd_server: EtcdServer) -> None:
    base = f"/{uuid.uuid4().hex}"
    mine = await EtcdStore.open([etcd_server.endpoint], prefix=base)
    bare = await EtcdStore.open([etcd_server.endpoint])
    await mine.create("/a", b"1")
    assert [entry.key for entry in (await bare.list(base)).entries] == [base + "/a"]
    await mine.close()
    await bare.close()


async def test_many_short_lived_keys_share_a_lease(etcd_server: EtcdServer) -> None:
    prefix = f"/{uuid.uuid4().hex}"
    store = await EtcdStore.open([etcd_server.endpoint], prefix=prefix)
    await asyncio.gather(*(store.create(f"/e/{n}", b"x", ttl=600) for n in range(60)))
    assert len(await _leases(etcd_server, prefix)) == 1
    await store.close()


async def test_a_lease_takes_no_more_than_a_thousand_keys(etcd_server: EtcdServer) -> None:
    prefix = f"/{uuid.uuid4().hex}"
    store = await EtcdStore.open([etcd_server.endpoint], prefix=prefix)
    for i in range(0, 1500, 250):
        await asyncio.gather(*(store.create(f"/e/{n}", b"x", ttl=600) for n in range(i, i + 250)))
    assert len(await _leases(etcd_server, prefix)) == 2
    await store.close()


async def test_different_times_to_live_have_different_leases(etcd_server: EtcdServer) -> None:
    prefix = f"/{uuid.uuid4().hex}"
    store = await EtcdStore.open([etcd_server.endpoint], prefix=prefix)
    await store.create("/e/long", b"x", ttl=600)
    await store.create("/e/longer", b"x", ttl=1200)
    await store.create("/e/lasting", b"x")
    leases = await _leases(etcd_server, prefix)
    assert len(leases) == 3
    assert 0 in leases
    await store.close()


async def _leases(server: EtcdServer, prefix: str) -> set[int]:
    """The leases of the keys below a prefix, asked of etcd: the store's interface does not show them."""
    connection = ClusterConnection([server.endpoint])
    request = wire.RangeRequest(key=prefix.encode(), range_end=end_of(prefix).encode()).SerializeToString()
    answer = await connection.call(RANGE, request, repeatable=True)
    await connection.close()
    return {kv.lease for kv in answer.kvs}
