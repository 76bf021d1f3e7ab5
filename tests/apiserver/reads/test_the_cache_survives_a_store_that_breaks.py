from __future__ import annotations

import asyncio
import json

import pytest
from tests.apiserver.reads.faults import FaultyStore
from tests.apiserver.reads.world import REGIONS, World, ask, names, world_over

from pilothouse.apiserver.endpoints.call import ResourceRequest
from pilothouse.apiserver.storage.collection import CacheEvent, Collection
from pilothouse.apiserver.storage.consistency_check import ConsistencyChecker, audit
from pilothouse.meta.errors import StatusError
from pilothouse.meta.kind import Kind, Object
from pilothouse.store.memory import MemoryStore

pytestmark = pytest.mark.looptime


async def test_after_a_lost_connection_watches_go_on_without_gap_or_repeat() -> None:
    store = FaultyStore()
    async with world_over(store) as world, world.watching() as (stream, _):
        await world.put("a")
        await stream.count(1)
        await store.cut()
        await world.put("b")
        await world.put("c")
        await stream.count(3)
        assert store.watches == 2
        assert stream.brief == [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "c")]


async def test_a_store_that_is_away_for_a_while_is_asked_again() -> None:
    store = FaultyStore()
    async with world_over(store) as world, world.watching() as (stream, _):
        store.away = True
        await store.cut()
        await asyncio.sleep(60)
        await world.put("a")
        assert stream.events == []
        store.away = False
        await stream.count(1)


async def test_the_cache_says_when_it_does_not_follow_the_store_and_when_it_does_again() -> None:
    store = FaultyStore()
    async with world_over(store) as world, world.watching() as (stream, _):
        assert await world.cache.problem() == ""
        store.away = True
        await store.cut()
        await world.put("a")
        await asyncio.sleep(1)
        assert await world.cache.problem() == "the store's changes are not being followed"
        assert world.cache.ready
        store.away = False
        await stream.count(1)
        assert await world.cache.problem() == ""


async def test_a_cache_that_lags_behind_says_so() -> None:
    store = FaultyStore(shared=True)
    async with world_over(store) as world:
        store.away = True  # its watch goes on, but how far the store has come is not known
        assert await world.cache.problem() == "changes in the store are not here yet"
        store.away = False
        assert await world.cache.problem() == ""


async def test_when_the_history_is_lost_watchers_are_told_and_the_cache_is_right_again() -> None:
    store = FaultyStore()
    async with world_over(store) as world, world.watching() as (stream, task):
        await world.put("a")
        await world.put("b")
        await stream.count(2)
        store.away = True
        await store.cut()
        await world.drop("a")
        last = await world.put("c")
        await store.compact(last)
        store.away = False
        await task
        assert stream.events[-1]["type"] == "ERROR"
        assert stream.events[-1]["object"]["code"] == 410
        assert names(await world.list()) == ["b", "c"]
        async with world.watching() as (again, _):
            await again.count(2)
            await world.put("d")
            await again.count(3)


async def test_with_other_writers_a_burst_of_reads_asks_the_store_once_or_twice() -> None:
    store = FaultyStore(shared=True)
    async with world_over(store) as world:
        await world.put("a")
        before = store.revision_calls
        responses = await asyncio.gather(*(world.get("a") for _ in range(50)))
        assert {response.status for response in responses} == {200}
        assert store.revision_calls - before <= 2


async def test_a_write_outside_the_root_does_not_hold_reads_up() -> None:
    store = FaultyStore(shared=True)
    async with world_over(store) as world:
        await world.put("a")
        await store.create("/elsewhere/x", b"1")
        start = asyncio.get_running_loop().time()
        assert (await world.get("a")).status == 200
        assert asyncio.get_running_loop().time() - start < 1


async def test_a_cache_that_lags_is_read_past() -> None:
    store = FaultyStore()
    async with world_over(store) as world:
        await world.put("a")
        await world.cache.fresh()
        store.away = True
        await store.cut()
        await asyncio.sleep(1)
        await world.put("b")
        assert json.loads(bytes((await world.get("b")).body))["metadata"]["name"] == "b"
        with pytest.raises(StatusError) as caught:
            await world.list()
        assert caught.value.code == 503
        assert names(await world.list("resourceVersion=0")) == ["a"]


async def test_objects_of_a_kind_not_served_wait_for_it() -> None:
    store = MemoryStore()
    async with world_over(store) as world:
        await world.put("eu", plural="regions")
        world.catalog.remove("nav.example.io", "regions")
        value = await store.get("/registry/nav.example.io/regions/eu")
        assert value is not None
        await store.create("/registry/nav.example.io/regions/us", value.value.replace(b"eu", b"us"))
        await world.cache.fresh()
        world.catalog.add(REGIONS)
        assert names(await world.list(plural="regions", namespace="")) == ["eu", "us"]
    await store.close()


async def test_a_changed_schema_shows_in_what_was_stored_before() -> None:
    def with_tier(obj: Object, kind: Kind) -> Object:
        obj["spec"].setdefault("tier", "small")
        return obj

    store = MemoryStore()
    async with world_over(store) as world:
        await world.put("a", spec={"engine": "pg"})
        await world.put("b", spec={"engine": "pg", "tier": "large"})
        path = world.served().resource.path
        plain = await world.list()
        world.cache.reshape(path, with_tier)
        listed = await world.list()
        assert [item["spec"]["tier"] for item in listed["items"]] == ["small", "large"]
        assert json.loads(bytes((await world.get("a")).body))["spec"]["tier"] == "small"
        async with world.watching() as (stream, _):
            (first, _) = await stream.count(2)
            assert first["object"]["spec"]["tier"] == "small"
        world.cache.reshape(path, None)
        assert (await world.list())["items"] == plain["items"]
    await store.close()


async def test_the_audit_finds_nothing_in_a_cache_that_is_right() -> None:
    store = MemoryStore()
    async with world_over(store) as world:
        await world.put("a")
        await world.put("r", plural="regions")
        await world.cache.fresh()
        assert await audit(world.cache) == []
    await store.close()


async def test_the_audit_finds_what_is_wrong_and_a_rebuild_mends_it() -> None:
    store = MemoryStore()
    async with world_over(store) as world, world.watching() as (stream, task):
        await world.put("a")
        await world.put("b")
        await stream.count(2)
        collection = world.cache.collection(world.served().resource.path)
        collection.apply("/registry/nav.example.io/databases/t/a", world.cache.revision, None, 0)
        problems = await audit(world.cache)
        assert problems == ["/registry/nav.example.io/databases/t/a is in the store and not in the cache"]
        world.cache.rebuild()
        await task
        assert stream.events[-1]["object"]["code"] == 410
        assert names(await world.list()) == ["a", "b"]
        assert await audit(world.cache) == []
    await store.close()


async def test_the_auditor_looks_again_and_again() -> None:
    store = MemoryStore()
    async with world_over(store) as world:
        await world.put("a")
        auditor = asyncio.create_task(ConsistencyChecker(world.cache, interval=10).run())
        await asyncio.sleep(11)
        world.cache.collection(world.served().resource.path).items.clear()
        await asyncio.sleep(11)
        assert names(await world.list()) == ["a"]
        auditor.cancel()
    await store.close()


async def test_one_listeners_fault_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    class Clumsy:
        def happened(self, collection: Collection, event: CacheEvent) -> None:
            raise RuntimeError("tripped")

        def advanced(self) -> None:
            """Nothing."""

        def broken(self) -> None:
            """Nothing."""

    store = MemoryStore()
    async with world_over(store) as world:
        world.cache.listen(Clumsy())
        async with world.watching() as (stream, _):
            await world.put("a")
            await stream.count(1)
        assert "tripped" in caplog.text
    await store.close()


async def test_a_read_before_the_cache_is_filled_is_told_to_come_again() -> None:
    store = FaultyStore()
    store.away = True
    world = World(store)
    task = asyncio.create_task(world.cache.run())
    await asyncio.sleep(1)
    with pytest.raises(StatusError) as caught:
        await world.getter.handle(ResourceRequest(ask(), world.served(), "get", "t", "a"))
    assert caught.value.code == 429
    store.away = False
    await world.cache.filled()
    with pytest.raises(StatusError) as caught:
        await world.get("a")
    assert caught.value.code == 404
    task.cancel()
