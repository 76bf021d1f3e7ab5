from __future__ import annotations

import base64
import json
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.apiserver.reads.world import TABLE, World, names, new_world

from pilothouse.apiserver.storage.continue_token import ContinueToken
from pilothouse.meta.errors import StatusError


async def five(world: World) -> None:
    for index in range(5):
        await world.put(f"p{index}", spec={"replicas": index})


async def test_case_46_later_pages_show_the_first_pages_moment(world: World) -> None:
    await five(world)
    first = await world.list("limit=2")
    assert names(first) == ["p0", "p1"]
    assert first["metadata"]["remainingItemCount"] == 3
    await world.put("p4", spec={"replicas": 99})
    await world.drop("p3")
    await world.put("p1-new")
    second = await world.list(f"limit=2&continue={first['metadata']['continue']}")
    assert names(second) == ["p2", "p3"]
    assert second["metadata"]["remainingItemCount"] == 1
    third = await world.list(f"limit=2&continue={second['metadata']['continue']}")
    assert names(third) == ["p4"]
    assert third["items"][0]["spec"]["replicas"] == 4
    assert "remainingItemCount" not in third["metadata"]
    assert third["metadata"]["continue"] == ""
    revisions = {page["metadata"]["resourceVersion"] for page in (first, second, third)}
    assert len(revisions) == 1


async def test_pages_of_an_unchanged_collection_need_no_history(world: World) -> None:
    await five(world)
    first = await world.list("limit=2")
    last = await world.put("r", plural="regions")
    await world.store.compact(last)
    second = await world.list(f"limit=2&continue={first['metadata']['continue']}")
    assert names(second) == ["p2", "p3"]
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


async def test_case_47_with_a_selector_nobody_counts_the_rest(world: World) -> None:
    for index in range(6):
        await world.put(f"p{index}", labels={"even": str(index % 2 == 0).lower()})
    first = await world.list("limit=2&labelSelector=even%3Dtrue")
    assert names(first) == ["p0", "p2"]
    assert "remainingItemCount" not in first["metadata"]
    await world.put("p4-b", labels={"even": "true"})
    second = await world.list(f"limit=2&labelSelector=even%3Dtrue&continue={first['metadata']['continue']}")
    assert names(second) == ["p4"]


async def test_case_48_an_expired_token_comes_with_one_that_goes_on(world: World) -> None:
    await five(world)
    token = (await world.list("limit=2"))["metadata"]["continue"]
    await world.put("p3", spec={"replicas": 30})
    last = await world.put("p5")
    await world.store.compact(last)
    with pytest.raises(StatusError) as caught:
        await world.list(f"limit=2&continue={token}")
    assert (caught.value.code, caught.value.reason) == (410, "Expired")
    onward = caught.value.to_dict()["metadata"]["continue"]
    rest = await world.list(f"limit=2&continue={onward}")
    assert names(rest) == ["p2", "p3"]
    assert rest["items"][1]["spec"]["replicas"] == 30
    assert names(await world.list(f"continue={rest['metadata']['continue']}")) == ["p4", "p5"]


async def test_a_table_is_paged_alike(world: World) -> None:
    await five(world)
    first = await world.list("limit=2", accept=TABLE)
    assert [row["cells"][0] for row in first["rows"]] == ["p0", "p1"]
    second = await world.list(f"limit=3&continue={first['metadata']['continue']}", accept=TABLE)
    assert [row["cells"][0] for row in second["rows"]] == ["p2", "p3", "p4"]


async def test_pages_across_namespaces(world: World) -> None:
    for namespace in ("a", "b"):
        for name in ("x", "y"):
            await world.put(name, namespace=namespace)
    seen, query = [], "limit=1"
    while True:
        page = await world.list(query, namespace="")
        seen += [(item["metadata"]["namespace"], item["metadata"]["name"]) for item in page["items"]]
        if not page["metadata"]["continue"]:
            break
        query = f"limit=1&continue={page['metadata']['continue']}"
    assert seen == [("a", "x"), ("a", "y"), ("b", "x"), ("b", "y")]


@given(
    revision=st.integers(1, 2**63 - 1),
    after=st.from_regex(r"[a-z0-9-]{1,20}(/[a-z0-9.-]{1,20})?", fullmatch=True),
)
def test_a_token_says_what_it_was_made_of(revision: int, after: str) -> None:
    if any(part in (".", "..") for part in after.split("/")):
        return
    assert ContinueToken.parse(ContinueToken(revision, after).encode()) == ContinueToken(revision, after)


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.dictionaries(st.text(), inner) | st.lists(inner),
)
_forged = st.builds(
    lambda v, rv, start: {"v": v, "rv": rv, "start": start},
    st.sampled_from(["meta.k8s.io/v1", "v9"]) | st.text(),
    st.integers() | st.text(),
    st.text() | st.sampled_from(["../../x\0", "p1\0", "a/b/c\0", "/\0", "\0", "\ud800\0"]),
)


@given(text=st.text() | st.binary().map(lambda raw: raw.decode("latin-1")))
def test_garbage_is_a_400(text: str) -> None:
    with pytest.raises(StatusError) as caught:
        ContinueToken.parse(text)
    assert caught.value.code == 400


@settings(max_examples=60, deadline=None)
@given(content=_json | _forged)
async def test_no_token_makes_the_server_fail(content: object) -> None:
    token = base64.urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=").decode()
    async with new_world() as world:
        await five(world)
        assert await _code(world, f"limit=2&continue={quote(token)}") in (200, 400, 410)


async def _code(world: World, query: str) -> int:
    try:
        return (await world.list_response(query)).status
    except StatusError as problem:
        return problem.code
