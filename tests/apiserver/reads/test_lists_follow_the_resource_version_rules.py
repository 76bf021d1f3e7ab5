from __future__ import annotations

import pytest
from tests.apiserver.reads.world import World, names

from pilothouse.meta.errors import StatusError


async def refused(world: World, query: str) -> StatusError:
    with pytest.raises(StatusError) as caught:
        await world.list(query)
    return caught.value


async def test_items_are_ordered_by_namespace_then_name(world: World) -> None:
    for namespace, name in (("t", "b"), ("a", "z"), ("t", "a"), ("t-2", "c"), ("t", "a-1")):
        await world.put(name, namespace=namespace)
    everywhere = await world.list(namespace="")
    found = [(item["metadata"]["namespace"], item["metadata"]["name"]) for item in everywhere["items"]]
    assert found == [("a", "z"), ("t-2", "c"), ("t", "a"), ("t", "a-1"), ("t", "b")]
    assert names(await world.list(namespace="t")) == ["a", "a-1", "b"]


async def test_an_empty_list_has_items(world: World) -> None:
    listed = await world.list()
    assert listed["kind"] == "DatabaseList"
    assert listed["apiVersion"] == "nav.example.io/v1"
    assert listed["items"] == []
    assert listed["metadata"]["continue"] == ""


async def test_the_revision_of_a_list_is_the_stores_not_its_items(world: World) -> None:
    own = await world.put("a")
    other = await world.put("r", plural="regions")
    listed = await world.list()
    assert listed["items"][0]["metadata"]["resourceVersion"] == str(own)
    assert int(listed["metadata"]["resourceVersion"]) >= other


async def test_a_list_shows_every_acknowledged_write(world: World) -> None:
    for count in range(30):
        await world.put(f"db-{count:02}")
        assert len((await world.list())["items"]) == count + 1


async def test_not_older_than_a_revision(world: World) -> None:
    first = await world.put("a")
    await world.put("b")
    for query in (f"resourceVersion={first}", f"resourceVersion={first}&resourceVersionMatch=NotOlderThan"):
        assert names(await world.list(query)) == ["a", "b"]


async def test_exactly_a_revision_in_the_past(world: World) -> None:
    first = await world.put("a", spec={"replicas": 1})
    await world.put("a", spec={"replicas": 2})
    await world.put("b")
    listed = await world.list(f"resourceVersion={first}&resourceVersionMatch=Exact")
    assert names(listed) == ["a"]
    assert listed["items"][0]["spec"]["replicas"] == 1
    assert listed["metadata"]["resourceVersion"] == str(first)


async def test_a_limit_with_a_revision_means_exactly_that_revision(world: World) -> None:
    first = await world.put("a")
    await world.put("b")
    assert names(await world.list(f"resourceVersion={first}&limit=10")) == ["a"]
    assert names(await world.list(f"resourceVersion={first}&limit=10&resourceVersionMatch=NotOlderThan")) == [
        "a",
        "b",
    ]


async def test_whatever_is_at_hand_ignores_the_limit(world: World) -> None:
    for name in "abc":
        await world.put(name)
    await world.cache.fresh()
    listed = await world.list("resourceVersion=0&limit=2")
    assert names(listed) == ["a", "b", "c"]
    assert listed["metadata"]["continue"] == ""


async def test_a_compacted_revision_is_expired(world: World) -> None:
    first = await world.put("a")
    await world.put("a", spec={"replicas": 2})
    last = await world.put("b")
    await world.store.compact(last)
    problem = await refused(world, f"resourceVersion={first}&resourceVersionMatch=Exact")
    assert (problem.code, problem.reason) == (410, "Expired")


@pytest.mark.parametrize(
    ("query", "code", "text"),
    [
        ("resourceVersionMatch=Exact&resourceVersion=0", 422, "forbidden for resourceVersion"),
        ("resourceVersionMatch=NotOlderThan", 422, "unless resourceVersion is provided"),
        ("resourceVersionMatch=Bogus&resourceVersion=1", 422, "supported values"),
        ("resourceVersion=abc", 400, "invalid resource version"),
        ("resourceVersion=-1", 400, "invalid resource version"),
        ("resourceVersion=99999999999999999999999", 400, "invalid resource version"),
        ("continue=garbage", 400, "invalid continue token"),
        ("sendInitialEvents=true", 422, "forbidden for list"),
        ("limit=abc", 400, "invalid limit"),
        ("labelSelector=a===", 400, "label selector"),
        ("fieldSelector=spec.replicas%3D1", 400, "field label not supported: spec.replicas"),
    ],
)
async def test_case_49_what_makes_no_sense_is_refused(world: World, query: str, code: int, text: str) -> None:
    await world.put("a")
    problem = await refused(world, query)
    assert problem.code == code
    assert text in problem.message


async def test_case_49_a_token_with_a_revision_or_a_match_is_refused(world: World) -> None:
    for name in "abc":
        await world.put(name)
    token = (await world.list("limit=1"))["metadata"]["continue"]
    assert (await refused(world, f"continue={token}&resourceVersion=5")).code == 400
    assert (
        await refused(world, f"continue={token}&resourceVersionMatch=Exact&resourceVersion=5")
    ).code == 422
    assert names(await world.list(f"continue={token}&resourceVersion=0")) == ["b", "c"]


@pytest.mark.looptime
async def test_case_49_the_future_is_a_504(world: World) -> None:
    await world.put("a")
    problem = await refused(world, "resourceVersion=99999999")
    assert problem.code == 504
    assert problem.causes[0].reason == "ResourceVersionTooLarge"
    assert "Too large resource version: 99999999" in problem.message


async def test_a_negative_limit_is_none(world: World) -> None:
    for name in "abc":
        await world.put(name)
    assert names(await world.list("limit=-1")) == ["a", "b", "c"]


async def test_case_50_selectors(world: World) -> None:
    for index in range(4):
        engine = "pg" if index % 2 else "mysql"
        await world.put(f"db-{index}", labels={"i": str(index)}, spec={"engine": engine})

    async def by(query: str) -> list[str]:
        return names(await world.list(query))

    assert await by("labelSelector=i%20in%20(1,2)") == ["db-1", "db-2"]
    assert await by("labelSelector=!z,i!%3D0") == ["db-1", "db-2", "db-3"]
    assert await by("labelSelector=i%3E2") == ["db-3"]
    assert await by("fieldSelector=spec.engine%3Dpg") == ["db-1", "db-3"]
    assert await by("fieldSelector=spec.engine!%3Dpg,metadata.name!%3Ddb-0") == ["db-2"]
    assert await by("fieldSelector=metadata.name%3Ddb-2") == ["db-2"]
    assert await by("fieldSelector=metadata.name%3Ddb-2,spec.engine%3Dpg") == []
    assert await by("fieldSelector=metadata.namespace%3Dother") == []
    assert names(await world.list("fieldSelector=metadata.namespace%3Dt", namespace="")) == [
        f"db-{index}" for index in range(4)
    ]
    assert names(await world.list("fieldSelector=metadata.name%3Ddb-1", namespace="")) == ["db-1"]


async def test_kubernetes_own_kinds_and_other_versions_list_too(world: World) -> None:
    await world.put("settings", plural="configmaps", data={"a": "b"})
    await world.put("a")
    listed = await world.list(plural="configmaps")
    assert listed["kind"] == "ConfigMapList"
    assert listed["items"][0]["data"] == {"a": "b"}
    old = await world.list(version="v1alpha1")
    assert old["apiVersion"] == "nav.example.io/v1alpha1"
    assert old["items"][0]["apiVersion"] == "nav.example.io/v1alpha1"
