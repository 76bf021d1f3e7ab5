"""Cases 7–9: one object, several forms."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.kit.databases import Databases
from tests.kit.http import PARTIAL, PARTIAL_LIST, PROTOBUF, TABLE, Http

pytestmark = pytest.mark.conformance


async def test_case_07_a_form_nobody_serves_is_406_and_a_second_choice_is_taken(
    dbs: Databases, http: Http
) -> None:
    await dbs.create("a")

    refused = await http.get(dbs.at("a"), accept="application/xml")
    assert (refused.status, refused.reason) == (406, "NotAcceptable")
    second = await http.get(dbs.at("a"), accept=f"{PROTOBUF},application/json")
    assert (second.status, second.type) == (200, "application/json")
    assert second.json["metadata"]["name"] == "a"


async def test_case_08_a_table_has_the_declared_columns(dbs: Databases, http: Http) -> None:
    for name in ("a", "b", "c"):
        await dbs.create(name, replicas=3)

    table = (await http.get(dbs.path(), accept=TABLE, limit=2)).expect(200)

    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    columns = [(column["name"], column["priority"]) for column in table["columnDefinitions"]]
    assert columns == [("Name", 0), ("Engine", 0), ("Replicas", 0), ("Phase", 1), ("Age", 0)]
    assert table["columnDefinitions"][0]["format"] == "name"
    assert table["metadata"]["continue"]
    assert len(table["rows"]) == 2
    row = table["rows"][0]
    assert row["cells"][:4] == ["a", "pg", 3, None]
    assert re.fullmatch(r"\d+s", row["cells"][4])
    assert row["object"]["kind"] == "PartialObjectMetadata"
    assert row["object"]["metadata"]["name"] == "a"
    assert "spec" not in row["object"]


async def test_case_08_a_table_includes_what_is_asked_for(dbs: Databases, http: Http) -> None:
    await dbs.create("a")

    none = (await http.get(dbs.path(), accept=TABLE, includeObject="None")).expect(200)
    assert none["rows"][0].get("object") is None
    whole = (await http.get(dbs.path(), accept=TABLE, includeObject="Object")).expect(200)
    assert whole["rows"][0]["object"]["spec"]["engine"] == "pg"
    one = (await http.get(dbs.at("a"), accept=TABLE)).expect(200)
    assert [row["cells"][0] for row in one["rows"]] == ["a"]
    assert (await http.get(dbs.path(), accept=TABLE, includeObject="Zip")).status == 400


async def test_case_09_partial_metadata_has_nothing_else(dbs: Databases, http: Http) -> None:
    await dbs.create("a")

    partial = (await http.get(dbs.path(), accept=PARTIAL_LIST)).expect(200)
    assert partial["kind"] == "PartialObjectMetadataList"
    assert [set(item) for item in partial["items"]] == [{"kind", "apiVersion", "metadata"}]
    assert partial["items"][0]["kind"] == "PartialObjectMetadata"
    one = (await http.get(dbs.at("a"), accept=PARTIAL)).expect(200)
    assert (one["kind"], set(one)) == ("PartialObjectMetadata", {"kind", "apiVersion", "metadata"})
    assert (await http.get(dbs.path(), accept=PARTIAL)).status == 406


@pytest.mark.parametrize(
    ("group", "kind", "spec"),
    [
        (
            "authorization.k8s.io",
            "SelfSubjectAccessReview",
            {"resourceAttributes": {"verb": "get", "resource": "pods"}},
        ),
        ("authentication.k8s.io", "SelfSubjectReview", None),
    ],
)
async def test_a_review_is_no_table(http: Http, group: str, kind: str, spec: dict[str, Any] | None) -> None:
    path = f"/apis/{group}/v1/{kind.lower()}s"
    review = {"apiVersion": f"{group}/v1", "kind": kind, **({"spec": spec} if spec else {})}

    table = await http.send("POST", path, review, accept=TABLE)
    assert (table.status, table.reason) == (406, "NotAcceptable")
    either = await http.send("POST", path, review, accept=f"{TABLE},application/json")
    assert (either.status, either.json["kind"]) == (201, kind)
    partial = await http.send("POST", path, review, accept=PARTIAL)
    assert (partial.status, partial.json["kind"]) == (201, "PartialObjectMetadata")


@pytest.mark.parametrize("asked", ["invalid", "10"])
async def test_a_timeout_that_is_none_is_refused(http: Http, asked: str) -> None:
    for path in ("/api/v1/namespaces", "/api/v1/namespaces/default", "/version"):
        assert (await http.get(path, timeout=asked)).status == 400
    assert (await http.post("/api/v1/namespaces", {"metadata": {"name": "n"}}, timeout=asked)).status == 400


async def test_a_timeout_is_taken(http: Http) -> None:
    for asked in ("10s", "0s", "100h", "1m30s"):
        assert (await http.get("/api/v1/namespaces", timeout=asked)).status == 200
    # A watch has a parameter of its own for that, and ignores this one.
    watched = await http.get("/api/v1/namespaces", watch="1", timeoutSeconds="1", timeout="invalid")
    assert watched.status == 200
