from __future__ import annotations

import asyncio
import gzip
import json
import random
from collections.abc import Mapping
from typing import Any

import pytest
from tests.apiserver.reads.world import World

from pilothouse.apiserver.endpoints.compressed_bodies import COMPRESS_FROM
from pilothouse.apiserver.storage.compressed_objects import CompressedObjects, CompressedVersion
from pilothouse.meta.kind import Kind, Object

GZIP = {"accept_encoding": "gzip"}


def large(mark: str) -> dict[str, Any]:
    return {"engine": "pg", "mark": mark, "pad": "x" * 2 * COMPRESS_FROM}


async def packed(world: World, name: str = "a", *, version: str = "v1") -> bytes:
    response = await world.get(name, version=version, **GZIP)
    assert dict(response.headers) == {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
    return bytes(response.body)


def read(body: bytes) -> Mapping[str, Any]:
    seen: Mapping[str, Any] = json.loads(gzip.decompress(body))
    return seen


async def test_readers_of_one_version_share_one_stream(world: World) -> None:
    await world.put("a", spec=large("first"))
    at_once = await asyncio.gather(*[world.get("a", **GZIP) for _ in range(20)])
    later = await world.get("a", **GZIP)
    assert {id(response.body) for response in (*at_once, later)} == {id(later.body)}
    assert gzip.decompress(bytes(later.body)) == (await world.get("a")).body


async def test_no_read_after_a_write_is_of_an_earlier_version(world: World) -> None:
    for count in range(10):
        revision = await world.put("a", spec=large(f"write {count}"))
        for _ in range(2):
            seen = read(await packed(world))
            assert seen["spec"]["mark"] == f"write {count}"
            assert seen["metadata"]["resourceVersion"] == str(revision)


async def test_a_write_while_the_stream_is_made_is_seen_by_whoever_asks_after_it(world: World) -> None:
    await world.put("a", spec=large("before"))
    early = asyncio.create_task(packed(world))
    await asyncio.sleep(0)
    await world.put("a", spec=large("after"))
    late = await packed(world)
    assert read(await early)["spec"]["mark"] in ("before", "after")
    assert read(late)["spec"]["mark"] == "after"
    assert read(await packed(world))["spec"]["mark"] == "after"


async def test_an_object_that_was_removed_and_made_again_is_the_other_one(world: World) -> None:
    await world.put("a", spec=large("first"))
    await packed(world)
    await world.drop("a")
    await world.put("a", spec=large("second"))
    assert read(await packed(world))["spec"]["mark"] == "second"


async def test_each_version_of_the_api_has_its_own(world: World) -> None:
    await world.put("a", spec=large("same"))
    for _ in range(2):
        for version in ("v1", "v1alpha1"):
            assert read(await packed(world, version=version))["apiVersion"] == f"nav.example.io/{version}"


async def test_a_definition_that_changes_the_objects_changes_the_stream(world: World) -> None:
    def derive(obj: Object, kind: Kind) -> Object:
        return {**obj, "spec": {**obj["spec"], "tier": "gold"}}

    await world.put("a", spec=large("same"))
    assert "tier" not in read(await packed(world))["spec"]
    world.cache.reshape(world.served().resource.path, derive)
    assert read(await packed(world))["spec"]["tier"] == "gold"


async def test_other_readers_get_the_form_that_they_ask_for(world: World) -> None:
    await world.put("a", spec=large("same"))
    await packed(world)
    plain = await world.get("a")
    assert not plain.headers
    assert json.loads(bytes(plain.body))["spec"]["mark"] == "same"
    yaml = await world.get("a", accept="application/yaml", **GZIP)
    assert yaml.content_type == "application/yaml"
    assert gzip.decompress(bytes(yaml.body)).startswith(b"apiVersion: nav.example.io/v1\n")


async def test_a_small_object_is_not_compressed(world: World) -> None:
    await world.put("a")
    assert not (await world.get("a", **GZIP)).headers


async def test_a_reader_that_goes_away_leaves_the_stream_to_the_others(world: World) -> None:
    await world.put("a", spec=large("same"))
    first = asyncio.create_task(packed(world))
    await asyncio.sleep(0)
    second = asyncio.create_task(packed(world))
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert read(await second)["spec"]["mark"] == "same"


async def test_memory_has_a_limit() -> None:
    rng = random.Random(1)
    bodies = [rng.randbytes(1000) for _ in range(50)]
    kept = CompressedObjects(budget=10_000)

    async def stream(number: int, revision: int) -> bytes:
        return await kept.gzipped(CompressedVersion(f"/{number}", "v1", revision, 0), lambda: bodies[number])

    for revision in range(3):
        for number, body in enumerate(bodies):
            assert gzip.decompress(await stream(number, revision)) == body
            assert 0 < kept.weight <= 10_000
    assert await stream(49, 2) is await stream(49, 2)
    assert gzip.decompress(await stream(0, 2)) == bodies[0]


async def test_a_stream_that_no_reader_waits_for_counts_too() -> None:
    kept = CompressedObjects()
    body = random.Random(1).randbytes(100_000)
    version = CompressedVersion("/a", "v1", 1, 0)
    reader = asyncio.create_task(kept.gzipped(version, lambda: body))
    await asyncio.sleep(0)
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader
    stream = await kept.gzipped(version, lambda: body)
    assert kept.weight == len(stream)


async def test_a_stream_beyond_the_budget_is_served_and_not_kept() -> None:
    kept = CompressedObjects(budget=100)
    body = random.Random(1).randbytes(1000)
    version = CompressedVersion("/a", "v1", 1, 0)
    assert gzip.decompress(await kept.gzipped(version, lambda: body)) == body
    assert kept.weight == 0
