"""A list that is made while it is sent is, in each form, what it would have been in one go."""

from __future__ import annotations

import gzip
import json
import zlib
from itertools import count, islice

import msgspec
import pytest
import yaml
from tests.apiserver.reads.world import World

from pilothouse.apiserver.server import yaml_encoding
from pilothouse.apiserver.server.compression import TURN
from pilothouse.apiserver.server.messages import ChunkedBody, Response
from pilothouse.apiserver.storage.large_lists import PIECE

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
YAML = "application/yaml"
COUNT = 90


async def fill(world: World, pad: str = "x") -> None:
    """Some six megabytes: small objects and large ones, with text that is hard to lay out."""
    for index in range(COUNT):
        size = 3 * PIECE if index % 10 == 3 else PIECE // 3
        text = f'{index}: "quoted"\\n\n  - y: no\t{pad}é ' + pad * size
        await world.put(f"db-{index:04}", spec={"index": index, "pad": text, "empty": [], "none": {}})


async def whole(world: World, query: str = "", **headers: str) -> tuple[Response, bytes]:
    response = await world.list_response(query, **headers)
    assert isinstance(response.body, ChunkedBody)
    made = bytes(response.body)
    assert made == bytes(response.body)
    return response, made


async def names(world: World, query: str = "") -> list[str]:
    _, body = await whole(world, query)
    return [item["metadata"]["name"] for item in json.loads(body)["items"]]


async def test_a_whole_list(world: World) -> None:
    await fill(world)
    assert await names(world) == [f"db-{index:04}" for index in range(COUNT)]
    _, body = await whole(world)
    # As it would have been written in one go: the same members in the same order, with nothing between them.
    assert body == msgspec.json.encode(msgspec.json.decode(body))


async def test_it_shows_the_moment_it_was_asked_for(world: World) -> None:
    await fill(world)
    response = await world.list_response("")
    assert isinstance(response.body, ChunkedBody)
    pieces = response.body.read()
    first = next(pieces)
    await world.put("db-0001", spec={"index": -1})
    await world.put("zz-late", spec={})
    items = json.loads(b"".join((first, *pieces)))["items"]
    assert [item["spec"]["index"] for item in items] == list(range(COUNT))


async def test_pages(world: World) -> None:
    await fill(world)
    _, body = await whole(world, "limit=50")
    page = json.loads(body)
    assert len(page["items"]) == 50
    assert page["metadata"]["remainingItemCount"] == COUNT - 50


@pytest.mark.parametrize("query", ["", "limit=60"])
@pytest.mark.parametrize("accept", ["application/json", PARTIAL, TABLE, YAML])
async def test_compressed_it_is_the_same(world: World, query: str, accept: str) -> None:
    await fill(world)
    query = "&".join(filter(None, [query, "includeObject=Object"]))
    plain, body = await whole(world, query, accept=accept)
    packed, deflated = await whole(world, query, accept=accept, accept_encoding="gzip")
    assert gzip.decompress(deflated) == body
    assert packed.content_type == plain.content_type
    assert ("Content-Encoding", "gzip") in packed.headers


async def test_what_was_deflated_is_used_again(world: World) -> None:
    await fill(world)
    _, first = await whole(world, accept_encoding="gzip")
    await world.put("db-0050", spec={"index": -1})
    _, second = await whole(world, accept_encoding="gzip")
    before, after = json.loads(gzip.decompress(first)), json.loads(gzip.decompress(second))
    changed = [
        old["metadata"]["name"]
        for old, new in zip(before["items"], after["items"], strict=True)
        if old != new
    ]
    assert changed == ["db-0050"]


@pytest.mark.parametrize("query", ["", "labelSelector=!none"], ids=["kept", "not kept"])
async def test_compressing_takes_turns_with_others_whatever_the_names_are(world: World, query: str) -> None:
    """A block of the gzip stream ends by a hash of the key, which whoever writes objects can choose."""
    chosen = (
        f"db-{index}"
        for index in count()
        if zlib.crc32(world.served().key("t", f"db-{index}").encode()) & 0x0F
    )
    for number, name in enumerate(islice(chosen, 40)):
        text = "".join(f"{number * 7919 + index:x}" for index in range(PIECE // 6))
        await world.put(name, spec={"text": text if number else text * 20})
    response = await world.list_response(query, accept_encoding="gzip")
    assert isinstance(response.body, ChunkedBody)
    pieces = list(response.body.read())
    assert len(pieces) >= response.body.size / TURN
    assert max(map(len, pieces)) < response.body.size / 3
    plain = await world.list_response(query)
    assert gzip.decompress(b"".join(pieces)) == bytes(plain.body)


async def test_readers_of_one_list_at_different_paces(world: World) -> None:
    await fill(world)
    slow = await world.list_response("", accept_encoding="gzip")
    assert isinstance(slow.body, ChunkedBody)
    reading = slow.body.read()
    begun = [next(reading) for _ in range(5)]
    await world.put("db-0000", spec={"index": -1})
    await world.put("db-0003", spec={"index": -3})
    _, quick = await whole(world, accept_encoding="gzip")
    assert json.loads(gzip.decompress(quick))["items"][0]["spec"]["index"] == -1
    items = json.loads(gzip.decompress(b"".join((*begun, *reading))))["items"]
    assert [item["spec"]["index"] for item in items] == list(range(COUNT))


@pytest.mark.parametrize("accept", ["application/json", TABLE])
async def test_for_people_it_is_laid_out_as_any_other(world: World, accept: str) -> None:
    await fill(world)
    query = "includeObject=Object" if accept == TABLE else ""
    _, bare = await whole(world, query, accept=accept)
    _, pretty = await whole(world, f"pretty=1&{query}", accept=accept)
    assert pretty == msgspec.json.format(bare, indent=2) + b"\n"


async def test_in_yaml_it_is_what_any_other_is(world: World) -> None:
    await fill(world, pad="é")
    _, bare = await whole(world)
    response, body = await whole(world, accept=YAML)
    assert response.content_type == YAML
    assert body == yaml_encoding.write(bare)
    assert len(yaml.load(body, Loader=yaml.CSafeLoader)["items"]) == COUNT
