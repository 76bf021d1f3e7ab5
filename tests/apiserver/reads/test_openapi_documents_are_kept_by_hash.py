from __future__ import annotations

import gzip
import json

import pytest
from tests.apiserver.reads.world import CONFIG_MAPS, DATABASES, REGIONS

from pilothouse.apiserver.discovery.catalog import KindCatalog
from pilothouse.apiserver.discovery.openapi import OpenAPIDocuments
from pilothouse.apiserver.server.messages import Request, Response
from pilothouse.base.clock import ManualClock
from pilothouse.meta.errors import StatusError


@pytest.fixture
def catalog() -> KindCatalog:
    return KindCatalog([DATABASES, REGIONS, CONFIG_MAPS])


@pytest.fixture
def openapi(catalog: KindCatalog) -> OpenAPIDocuments:
    return OpenAPIDocuments(catalog, ManualClock(0))


async def ask(openapi: OpenAPIDocuments, target: str, **headers: str) -> Response:
    path, _, query = target.partition("?")
    named = {name.replace("_", "-").title(): value for name, value in headers.items()}
    response = await openapi.answer(Request("GET", path, query=query, headers=named))
    assert response is not None
    return response


async def urls(openapi: OpenAPIDocuments) -> dict[str, str]:
    paths = json.loads(bytes((await ask(openapi, "/openapi/v3")).body))["paths"]
    return {place: entry["serverRelativeURL"] for place, entry in paths.items()}


async def test_the_index_leads_to_documents_that_may_be_kept(openapi: OpenAPIDocuments) -> None:
    found = await urls(openapi)
    assert set(found) == {"api/v1", "apis/nav.example.io/v1", "apis/nav.example.io/v1alpha1"}
    response = await ask(openapi, found["apis/nav.example.io/v1"] + "&timeout=32s")
    assert response.status == 200
    headers = dict(response.headers)
    assert headers["Cache-Control"] == "public, immutable"
    assert headers["Expires"] == "Fri, 01 Jan 1971 00:00:00 GMT"
    document = json.loads(bytes(response.body))
    assert document["openapi"].startswith("3.0")
    assert any("databases" in path for path in document["paths"])


async def test_an_old_hash_is_sent_on(openapi: OpenAPIDocuments) -> None:
    response = await ask(openapi, "/openapi/v3/api/v1?hash=OLD")
    assert response.status == 301
    assert dict(response.headers)["Location"] == (await urls(openapi))["api/v1"]


async def test_only_what_changed_gets_another_hash(openapi: OpenAPIDocuments, catalog: KindCatalog) -> None:
    before = await urls(openapi)
    catalog.remove("nav.example.io", "regions")
    after = await urls(openapi)
    assert after["api/v1"] == before["api/v1"]
    assert after["apis/nav.example.io/v1"] != before["apis/nav.example.io/v1"]


async def test_a_client_that_has_it_gets_304(openapi: OpenAPIDocuments) -> None:
    for target in ("/openapi/v3", "/openapi/v3/api/v1", "/openapi/v2"):
        tag = dict((await ask(openapi, target)).headers)["ETag"]
        assert (await ask(openapi, target, if_none_match=tag)).status == 304


async def test_gzip_for_those_who_take_it(openapi: OpenAPIDocuments) -> None:
    plain = await ask(openapi, "/openapi/v3/api/v1")
    packed = await ask(openapi, "/openapi/v3/api/v1", accept_encoding="gzip")
    assert dict(packed.headers)["Content-Encoding"] == "gzip"
    assert gzip.decompress(bytes(packed.body)) == plain.body


async def test_one_document_of_everything_in_the_old_form(openapi: OpenAPIDocuments) -> None:
    document = json.loads(bytes((await ask(openapi, "/openapi/v2")).body))
    assert document["swagger"] == "2.0"
    assert "/api/v1/namespaces/{namespace}/configmaps" in document["paths"]


async def test_protobuf_alone_is_a_406_where_there_is_none(openapi: OpenAPIDocuments) -> None:
    accept = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf"
    for path in ("/openapi/v2", "/openapi/v3", "/openapi/v3/api/v1"):
        with pytest.raises(StatusError) as caught:
            await ask(openapi, path, accept=accept)
        assert caught.value.code == 406


@pytest.mark.parametrize("path", ["/openapi/v3/apis/nope/v1", "/openapi/v4", "/openapi", "/apis"])
async def test_other_paths_are_someone_elses(openapi: OpenAPIDocuments, path: str) -> None:
    assert await openapi.answer(Request("GET", path)) is None
