"""Cases 46–51: lists, pages, consistency and selectors."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kit.databases import Databases
from tests.kit.http import Http, Json
from tests.kit.servers import Server

pytestmark = pytest.mark.conformance


@pytest.fixture
async def five(dbs: Databases) -> Databases:
    """Databases p0 … p4, labelled with their number; the odd ones run mysql."""
    for n in range(5):
        await dbs.create(f"p{n}", metadata={"labels": {"i": str(n)}}, engine="mysql" if n % 2 else "pg")
    return dbs


def names(listed: Json) -> list[str]:
    return [item["metadata"]["name"] for item in listed["items"]]


async def test_case_46_pages_are_of_one_snapshot(five: Databases, http: Http) -> None:
    first = (await http.get(five.path(), limit=2)).expect(200)
    (await http.patch(five.at("p4"), {"metadata": {"labels": {"changed": "yes"}}})).expect(200)
    (await http.delete(five.at("p3"))).expect(200)
    second = (await http.get(five.path(), limit=2, **{"continue": first["metadata"]["continue"]})).expect(200)
    third = (await http.get(five.path(), limit=2, **{"continue": second["metadata"]["continue"]})).expect(200)

    assert [names(page) for page in (first, second, third)] == [["p0", "p1"], ["p2", "p3"], ["p4"]]
    remaining = [page["metadata"].get("remainingItemCount") for page in (first, second, third)]
    assert remaining == [3, 1, None]
    assert len({page["metadata"]["resourceVersion"] for page in (first, second, third)}) == 1
    assert "changed" not in third["items"][0]["metadata"]["labels"]
    assert not third["metadata"].get("continue")


async def test_case_47_a_selector_leaves_the_remainder_uncounted(five: Databases, http: Http) -> None:
    listed = (await http.get(five.path(), limit=2, labelSelector="i")).expect(200)

    assert names(listed) == ["p0", "p1"]
    assert listed["metadata"]["continue"]
    assert "remainingItemCount" not in listed["metadata"]


async def test_case_48_an_expired_token_comes_with_a_fresh_one(
    five: Databases, http: Http, lasting: Server
) -> None:
    first = (await http.get(five.path(), limit=2)).expect(200)
    (await http.delete(five.at("p3"))).expect(200)
    lasting.forget_history(five.path(), first["metadata"]["resourceVersion"])

    expired = await http.get(five.path(), limit=2, **{"continue": first["metadata"]["continue"]})
    assert (expired.status, expired.reason) == (410, "Expired")
    fresh = expired.json["metadata"]["continue"]
    rest = (await http.get(five.path(), limit=5, **{"continue": fresh})).expect(200)
    assert names(rest) == ["p2", "p4"]


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ({"resourceVersionMatch": "Exact", "resourceVersion": "0"}, 422),
        ({"resourceVersionMatch": "NotOlderThan"}, 422),
        ({"resourceVersionMatch": "Exact"}, 422),
        ({"resourceVersionMatch": "Bogus", "resourceVersion": "1"}, 422),
        ({"resourceVersion": "abc"}, 400),
        ({"continue": "garbage"}, 400),
        ({"limit": "abc"}, 400),
        ({"sendInitialEvents": "true"}, 422),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else str(value),
)
async def test_case_49_meaningless_options_are_refused(
    five: Databases, http: Http, query: dict[str, Any], status: int
) -> None:
    answer = await http.get(five.path(), **query)

    assert answer.status == status, answer.body
    assert answer.json["kind"] == "Status"


async def test_case_49_a_token_excludes_another_version(five: Databases, http: Http) -> None:
    first = (await http.get(five.path(), limit=2)).expect(200)["metadata"]

    both = {"continue": first["continue"], "resourceVersion": first["resourceVersion"]}
    assert (await http.get(five.path(), limit=2, **both)).status == 400


async def test_case_49_a_version_of_the_future_is_a_timeout(five: Databases, http: Http) -> None:
    answer = await http.get(five.path(), resourceVersion="99999999")

    assert (answer.status, answer.reason) == (504, "Timeout")
    assert answer.causes[0].reason == "ResourceVersionTooLarge"
    assert answer.headers["Retry-After"] == "1"
    assert answer.json["details"]["retryAfterSeconds"] == 1


async def test_case_49_a_version_may_be_exact_or_not_older(five: Databases, http: Http) -> None:
    before = (await http.get(five.path())).expect(200)["metadata"]["resourceVersion"]
    await five.create("p5")

    exact = {"resourceVersion": before, "resourceVersionMatch": "Exact"}
    old = (await http.get(five.path(), **exact)).expect(200)
    assert names(old) == ["p0", "p1", "p2", "p3", "p4"]
    assert old["metadata"]["resourceVersion"] == before
    newer = {"resourceVersion": before, "resourceVersionMatch": "NotOlderThan"}
    assert int((await http.get(five.path(), **newer)).expect(200)["metadata"]["resourceVersion"]) >= int(
        before
    )
    legacy = (await http.get(five.path(), resourceVersion=before, limit=10)).expect(200)
    assert legacy["metadata"]["resourceVersion"] == before
    assert names((await http.get(five.path())).expect(200))[-1] == "p5"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"fieldSelector": "metadata.name=p1"}, ["p1"]),
        ({"fieldSelector": "spec.engine=mysql"}, ["p1", "p3"]),
        ({"fieldSelector": "spec.engine!=mysql"}, ["p0", "p2", "p4"]),
        ({"labelSelector": "i in (1,2)"}, ["p1", "p2"]),
        ({"labelSelector": "i notin (1,2)"}, ["p0", "p3", "p4"]),
        ({"labelSelector": "!z"}, ["p0", "p1", "p2", "p3", "p4"]),
        ({"labelSelector": "i>2"}, ["p3", "p4"]),
        ({"labelSelector": "i<2"}, ["p0", "p1"]),
        ({"labelSelector": "i!=1,i"}, ["p0", "p2", "p3", "p4"]),
        ({"labelSelector": "i=1", "fieldSelector": "spec.engine=pg"}, []),
    ],
    ids=lambda value: "".join(value.values()) if isinstance(value, dict) else "",
)
async def test_case_50_selectors_choose(five: Databases, query: dict[str, str], expected: list[str]) -> None:
    assert await five.names(**query) == expected


async def test_case_50_a_selector_that_cannot_be_honoured_is_refused(five: Databases, http: Http) -> None:
    answer = await http.get(five.path(), fieldSelector="spec.replicas=1")
    assert (answer.status, answer.reason) == (400, "BadRequest")
    assert "field label not supported" in answer.message
    assert (await http.get(five.path(), labelSelector="a===")).status == 400


async def test_case_51_a_collection_is_deleted_by_selector(five: Databases, http: Http) -> None:
    deleted = (await http.delete(five.path(), labelSelector="i in (1,2)")).expect(200)

    assert deleted["kind"] == "DatabaseList"
    assert names(deleted) == ["p1", "p2"]
    assert await five.names() == ["p0", "p3", "p4"]
