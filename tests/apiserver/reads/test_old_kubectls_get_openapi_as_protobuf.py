from __future__ import annotations

import asyncio
import gzip
import json
from typing import Any

import pytest
from tests.meta.schema.wire import Wire, read

from pilothouse.api.registry import resources
from pilothouse.apiserver.discovery.catalog import KindCatalog
from pilothouse.apiserver.discovery.openapi import PROTOBUF, OpenAPIDocuments
from pilothouse.apiserver.server.messages import JSON, Request, Response

ASKED = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"


@pytest.fixture
def catalog() -> KindCatalog:
    return KindCatalog(resources())


@pytest.fixture
def openapi(catalog: KindCatalog) -> OpenAPIDocuments:
    return OpenAPIDocuments(catalog)


async def ask(openapi: OpenAPIDocuments, accept: str, **headers: str) -> Response:
    named = {name.replace("_", "-").title(): value for name, value in headers.items()}
    response = await openapi.answer(Request("GET", "/openapi/v2", headers={"Accept": accept, **named}))
    assert response is not None
    return response


def definitions(response: Response) -> dict[str, Wire]:
    return read(bytes(response.body)).one(9).named(1)


async def test_both_forms_hold_the_same(openapi: OpenAPIDocuments) -> None:
    packed = await ask(openapi, ASKED)
    plain = json.loads(bytes((await ask(openapi, JSON)).body))

    assert packed.content_type == PROTOBUF
    assert set(definitions(packed)) == set(plain["definitions"])
    assert set(read(bytes(packed.body)).one(8).named(2)) == set(plain["paths"])


@pytest.mark.parametrize(
    ("accept", "media"),
    [
        (ASKED, PROTOBUF),
        (PROTOBUF, PROTOBUF),
        (f"{ASKED}, {JSON}", PROTOBUF),
        (f"{ASKED};q=0.5, {JSON}", JSON),
        ("*/*", JSON),
        ("", JSON),
    ],
)
async def test_the_client_chooses_the_form(openapi: OpenAPIDocuments, accept: str, media: str) -> None:
    assert (await ask(openapi, accept)).content_type == media


async def test_each_form_has_a_tag_to_come_back_with(openapi: OpenAPIDocuments) -> None:
    tags = {accept: dict((await ask(openapi, accept)).headers)["ETag"] for accept in (ASKED, JSON)}

    assert len(set(tags.values())) == 2
    assert (await ask(openapi, ASKED, if_none_match=tags[ASKED])).status == 304
    assert (await ask(openapi, ASKED, if_none_match=tags[JSON])).status == 200


async def test_gzip_for_those_who_take_it(openapi: OpenAPIDocuments) -> None:
    packed = await ask(openapi, ASKED, accept_encoding="gzip")

    assert dict(packed.headers)["Content-Encoding"] == "gzip"
    assert gzip.decompress(bytes(packed.body)) == (await ask(openapi, ASKED)).body


async def test_it_follows_the_catalogue_even_while_it_is_made(
    openapi: OpenAPIDocuments, catalog: KindCatalog
) -> None:
    pods = "io.k8s.api.core.v1.Pod"
    first = asyncio.create_task(ask(openapi, ASKED))
    await asyncio.sleep(0)
    catalog.remove("", "pods")
    second = asyncio.create_task(ask(openapi, ASKED))

    assert pods in definitions(await first)
    assert pods not in definitions(await second)


async def test_who_asks_while_it_is_made_gets_the_same(openapi: OpenAPIDocuments) -> None:
    first, second = await asyncio.gather(ask(openapi, ASKED), ask(openapi, ASKED))

    assert first.body is second.body


async def test_every_definition_is_one_that_kubectl_can_read(openapi: OpenAPIDocuments) -> None:
    """kubectl refuses the whole document for one of these."""
    document = json.loads(bytes((await ask(openapi, JSON)).body))

    def check(schema: dict[str, Any], at: str) -> None:
        if "$ref" in schema:
            assert not {"type", "properties"} & set(schema), at
            assert schema["$ref"].removeprefix("#/definitions/") in document["definitions"], at
        if schema.get("type") == "array":
            assert isinstance(schema.get("items"), dict), at
        if "type" not in schema:
            assert "properties" not in schema, at
        for name, each in schema.get("properties", {}).items():
            check(each, f"{at}.{name}")
        for key in ("items", "additionalProperties"):
            if isinstance(schema.get(key), dict):
                check(schema[key], f"{at}[]")

    for name, schema in document["definitions"].items():
        check(schema, name)
