from __future__ import annotations

import asyncio
import gzip
import json
import subprocess
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.apiserver.reads.world import PARTIAL_LIST, TABLE, World, names, new_world

from pilothouse.apiserver.server.compression import Deflated, combine, deflate, gzip_of, join, store, wanted

PAD = "x" * 1000


@given(parts=st.lists(st.binary(max_size=300), max_size=8), stored=st.booleans())
def test_any_parts_make_one_valid_stream(parts: list[bytes], stored: bool) -> None:
    packed = [store(part) if stored else deflate(part) for part in parts]
    stream = gzip_of([join(packed[:3]), *packed[3:]])
    assert gzip.decompress(stream) == b"".join(parts)
    decoder = zlib.decompressobj(16 + zlib.MAX_WBITS)
    assert decoder.decompress(stream) == b"".join(parts)
    assert decoder.eof
    assert decoder.unused_data == b""


@given(first=st.binary(max_size=2000), second=st.binary(max_size=2000))
def test_checksums_of_parts_make_the_checksum_of_the_whole(first: bytes, second: bytes) -> None:
    assert combine(zlib.crc32(first), zlib.crc32(second), len(second)) == zlib.crc32(first + second)


def test_more_than_a_stored_block_holds() -> None:
    data = bytes(range(256)) * 1000
    assert gzip.decompress(gzip_of([store(data)])) == data
    assert isinstance(store(data), Deflated)


def test_another_implementation_reads_it(tmp_path: Path) -> None:
    data = json.dumps([{"name": f"db-{index}"} for index in range(1000)]).encode()
    path = tmp_path / "list.gz"
    path.write_bytes(gzip_of([store(b"["), deflate(data), store(b","), deflate(data), store(b"]")]))
    unpacked = subprocess.run(["gzip", "-dc", str(path)], capture_output=True, check=True, timeout=30)
    assert unpacked.stdout == b"[" + data + b"," + data + b"]"


@pytest.mark.parametrize(
    ("header", "answer"),
    [
        ("", False),
        ("gzip", True),
        ("gzip, deflate, br", True),
        ("br;q=1.0, gzip;q=0.8", True),
        ("gzip;q=0", False),
        ("gzip; q=0.0", False),
        ("gzip;q=1", True),
        ("x-gzip-like", False),
    ],
)
def test_who_wants_it(header: str, answer: bool) -> None:
    assert wanted(header) is answer


async def fill(world: World, count: int) -> None:
    for index in range(count):
        await world.put(f"db-{index:04}", spec={"index": index, "pad": PAD})


async def both(world: World, query: str = "", **headers: str) -> tuple[bytes, bytes]:
    """The same list plain and unpacked."""
    plain = await world.list_response(query, **headers)
    packed = await world.list_response(query, accept_encoding="gzip", **headers)
    assert dict(packed.headers) == {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
    assert len(bytes(packed.body)) < len(bytes(plain.body)) / 2
    return bytes(plain.body), gzip.decompress(bytes(packed.body))


async def test_a_large_list_is_the_same_bytes_either_way(world: World) -> None:
    await fill(world, 300)
    for _ in range(2):
        plain, unpacked = await both(world)
        assert plain == unpacked
    assert len(json.loads(plain)["items"]) == 300


async def test_small_lists_and_unwilling_clients_get_it_plain(world: World) -> None:
    await fill(world, 10)
    assert (await world.list_response("", accept_encoding="gzip")).headers == ()
    await fill(world, 300)
    assert (await world.list_response("", accept_encoding="br, deflate")).headers == ()


async def test_pages_tables_and_metadata_are_compressed_too(world: World) -> None:
    await fill(world, 300)
    plain, unpacked = await both(world, "limit=200")
    assert plain == unpacked
    plain, unpacked = await both(world, "includeObject=Object", accept=TABLE)
    assert plain == unpacked
    partial = await world.list_response("", accept=PARTIAL_LIST, accept_encoding="gzip")
    assert len(json.loads(gzip.decompress(bytes(partial.body)))["items"]) == 300


async def test_a_large_object_is_compressed(world: World) -> None:
    await world.put("a", spec={"pad": PAD * 200})
    response = await world.get("a", accept_encoding="gzip")
    assert dict(response.headers)["Content-Encoding"] == "gzip"
    assert json.loads(gzip.decompress(bytes(response.body)))["metadata"]["name"] == "a"


_changes = st.lists(
    st.tuples(st.sampled_from(["put", "drop", "new", "other"]), st.integers(0, 199)), min_size=1, max_size=12
)


@settings(max_examples=15, deadline=None)
@given(changes=_changes)
async def test_whatever_changes_in_between_both_ways_agree(changes: list[tuple[str, int]]) -> None:
    async with new_world() as world:
        await fill(world, 200)
        await both(world)
        for what, index in changes:
            name = f"db-{index:04}"
            match what:
                case "put":
                    await world.put(name, spec={"index": -index, "pad": PAD})
                case "drop":
                    if await world.store.get(world.served().key("t", name)) is not None:
                        await world.drop(name)
                case "new":
                    await world.put(f"{name}-b", spec={"pad": PAD})
                case "other":
                    await world.put("r", plural="regions", spec={"index": index})
            plain, unpacked = await both(world)
            assert plain == unpacked
            keys = [
                key.rpartition("/")[2] for key in world.cache.collection(world.served().resource.path).items
            ]
            assert names(json.loads(plain)) == sorted(keys)


async def test_writes_during_compression_do_not_leak_into_what_is_kept(world: World) -> None:
    await fill(world, 300)

    async def lists() -> None:
        for _ in range(30):
            packed = await world.list_response("", accept_encoding="gzip")
            listed = json.loads(gzip.decompress(bytes(packed.body)))
            newest = max(int(item["metadata"]["resourceVersion"]) for item in listed["items"])
            assert newest <= int(listed["metadata"]["resourceVersion"])

    async def writes() -> None:
        for index in range(200):
            await world.put(f"db-{index:04}", spec={"again": index, "pad": PAD})
            await asyncio.sleep(0)

    await asyncio.gather(lists(), lists(), writes())
    plain, unpacked = await both(world)
    assert plain == unpacked


@pytest.mark.parametrize("accept_encoding", ["", "gzip"])
async def test_a_changed_schema_shows_at_once(world: World, accept_encoding: str) -> None:
    await fill(world, 300)
    await world.list_response("", accept_encoding=accept_encoding)
    world.cache.reshape(
        world.served().resource.path, lambda obj, kind: {**obj, "spec": {**obj["spec"], "tier": "small"}}
    )
    body = bytes((await world.list_response("", accept_encoding=accept_encoding)).body)
    listed = json.loads(gzip.decompress(body) if accept_encoding else body)
    assert {item["spec"]["tier"] for item in listed["items"]} == {"small"}
