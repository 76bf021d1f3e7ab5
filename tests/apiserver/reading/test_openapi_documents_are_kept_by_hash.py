from __future__ import annotations

import gzip
import json

import pytest
from tests.apiserver.reading.world import CONFIG_MAPS, DATABASES, REGIONS

from pilothouse.apiserver.catalog import Catalog
from pilothouse.apiserver.exchange import Request, Response
from pilothouse.apiserver.openapi_documents import OpenApi
from pilothouse.base.clock import ManualClock
from pilothouse.meta.errors import StatusError


@pytest.fixture
def catalog() -> Catalog:
    return Catalog([DATABASES, REGIONS, CONFIG_MAPS])


@pytest.fixture
def openapi(catalog: Catalog) -> OpenApi:
    return OpenApi(catalog, ManualClock(0))


def ask(openapi: OpenApi, target: str, **headers: str) -> Response:
    path, _, query = target.partition("?")
    named = {name.replace("_", "-").title(): value for name, value in headers.items()}
    response = openapi.answer(Request("GET", path, query=query, headers=named))
    assert response is not None
    return response


def urls(openapi: OpenApi) -> dict[str, str]:
    paths = json.loads(ask(openapi, "/openapi/v3").body)["paths"]
    return {place: entry["serverRelativeURL"] for place, entry in paths.items()}


def test_the_index_leads_to_documents_that_may_be_kept(openapi: OpenApi) -> None:
    found = urls(openapi)
    assert set(found) == {"api/v1", "apis/nav.example.io/v1", "apis/nav.example.io/v1alpha1"}
    response = ask(openapi, found["apis/nav.example.io/v1"] + "&timeout=32s")
    assert response.status == 200
    headers = dict(response.headers)
    assert headers["Cache-Control"] == "public, immutable"
    assert headers["Expires"] == "Fri, 01 Jan 1971 00:00:00 GMT"
    document = json.loads(response.body)
    assert document["openapi"].startswith("3.0")
    assert any("databases" in path for path in document["paths"])


def test_an_old_hash_is_sent_on(openapi: OpenApi) -> None:
    response = ask(openapi, "/openapi/v3/api/v1?hash=OLD")
    assert response.status == 301
    assert dict(response.headers)["Location"] == urls(openapi)["api/v1"]


def test_only_what_changed_gets_another_hash(openapi: OpenApi, catalog: Catalog) -> None:
    before = urls(openapi)
    catalog.remove("nav.example.io", "regions")
    after = urls(openapi)
    assert after["api/v1"] == before["api/v1"]
    assert after["apis/nav.example.io/v1"] != before["apis/nav.example.io/v1"]


def test_a_client_that_has_it_gets_304(openapi: OpenApi) -> None:
    for target in ("/openapi/v3", "/openapi/v3/api/v1", "/openapi/v2"):
        tag = dict(ask(openapi, target).headers)["ETag"]
        assert ask(openapi, target, if_none_match=tag).status == 304


def test_gzip_for_those_who_take_it(openapi: OpenApi) -> None:
    plain = ask(openapi, "/openapi/v3/api/v1")
    packed = ask(openapi, "/openapi/v3/api/v1", accept_encoding="gzip")
    assert dict(packed.headers)["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed.body) == plain.body


def test_one_document_of_everything_in_the_old_form(openapi: OpenApi) -> None:
    document = json.loads(ask(openapi, "/openapi/v2").body)
    assert document["swagger"] == "2.0"
    assert "/api/v1/namespaces/{namespace}/configmaps" in document["paths"]


def test_protobuf_alone_is_a_406_and_kubectl_goes_on(openapi: OpenApi) -> None:
    with pytest.raises(StatusError) as caught:
        ask(openapi, "/openapi/v2", accept="application/com.github.proto-openapi.spec.v2@v1.0+protobuf")
    assert caught.value.code == 406


@pytest.mark.parametrize("path", ["/openapi/v3/apis/nope/v1", "/openapi/v4", "/openapi", "/apis"])
def test_other_paths_are_someone_elses(openapi: OpenApi, path: str) -> None:
    assert openapi.answer(Request("GET", path)) is None
