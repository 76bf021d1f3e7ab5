from __future__ import annotations

import json

import pytest
from tests.apiserver.reads.world import PARTIAL, TABLE, World, ask

from pilothouse.apiserver.endpoints.call import ResourceRequest
from pilothouse.meta.errors import StatusError
from pilothouse.store.memory import MemoryStore


async def test_the_body_is_the_stored_value_with_its_revision(world: World) -> None:
    revision = await world.put("a", spec={"engine": "pg", "replicas": 3})
    response = await world.get("a")
    stored = await world.store.get("/registry/nav.example.io/databases/t/a")
    assert stored is not None
    assert response.status == 200
    assert response.content_type == "application/json"
    spliced = f'"metadata":{{"resourceVersion":"{revision}",'.encode()
    assert response.body == stored.value.replace(b'"metadata":{', spliced, 1)


async def test_a_write_is_seen_by_the_next_read(world: World) -> None:
    for count in range(20):
        revision = await world.put("a", spec={"replicas": count})
        seen = json.loads(bytes((await world.get("a")).body))
        assert seen["spec"]["replicas"] == count
        assert seen["metadata"]["resourceVersion"] == str(revision)


async def test_what_is_missing_is_a_404_about_the_plural(world: World) -> None:
    with pytest.raises(StatusError) as caught:
        await world.get("nope")
    assert caught.value.code == 404
    assert caught.value.message == 'databases.nav.example.io "nope" not found'
    assert caught.value.kind == "databases"


async def test_another_version_is_converted(world: World) -> None:
    await world.put("a")
    seen = json.loads(bytes((await world.get("a", version="v1alpha1")).body))
    assert seen["apiVersion"] == "nav.example.io/v1alpha1"
    assert (
        seen["metadata"]["resourceVersion"]
        == json.loads(bytes((await world.get("a")).body))["metadata"]["resourceVersion"]
    )


async def test_cluster_scoped_and_core_kinds_have_their_own_keys(world: World) -> None:
    await world.put("eu", plural="regions")
    await world.put("settings", plural="configmaps", data={"a": "b"})
    region = await world.getter.handle(ResourceRequest(ask(), world.served("regions"), "get", "", "eu"))
    settings = await world.getter.handle(
        ResourceRequest(ask(), world.served("configmaps"), "get", "t", "settings")
    )
    assert json.loads(bytes(region.body))["kind"] == "Region"
    assert json.loads(bytes(settings.body))["data"] == {"a": "b"}


async def test_a_revision_asked_for_is_waited_for(world: World) -> None:
    revision = await world.put("a")
    assert (await world.get("a", f"resourceVersion={revision}")).status == 200
    assert (await world.get("a", "resourceVersion=0")).status == 200


async def test_a_revision_that_is_not_a_number_is_a_400(world: World) -> None:
    await world.put("a")
    with pytest.raises(StatusError) as caught:
        await world.get("a", "resourceVersion=abc")
    assert caught.value.code == 400


@pytest.mark.looptime
async def test_a_revision_in_the_future_is_a_504_that_says_so(world: World) -> None:
    await world.put("a")
    with pytest.raises(StatusError) as caught:
        await world.get("a", "resourceVersion=99999999")
    assert caught.value.code == 504
    assert caught.value.causes[0].reason == "ResourceVersionTooLarge"
    assert caught.value.retry_after == 1


async def test_before_the_first_listing_reads_are_told_to_come_again() -> None:
    fresh = World(MemoryStore())
    for call in (
        fresh.get("a"),
        fresh.list(),
        fresh.watches.handle(ResourceRequest(ask(), fresh.served(), "watch", "t")),
    ):
        with pytest.raises(StatusError) as caught:
            await call
        assert caught.value.code == 429
        assert "(re)initializing" in caught.value.message


async def test_a_table_of_one_object(world: World) -> None:
    revision = await world.put("a", spec={"engine": "pg", "replicas": 2})
    table = json.loads(bytes((await world.get("a", accept=TABLE)).body))
    assert table["kind"] == "Table"
    assert table["metadata"]["resourceVersion"] == str(revision)
    assert [column["name"] for column in table["columnDefinitions"]] == [
        "Name",
        "Engine",
        "Replicas",
        "Phase",
        "Age",
    ]
    assert table["rows"][0]["cells"] == ["a", "pg", 2, None, "6s"]
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"


async def test_metadata_alone(world: World) -> None:
    revision = await world.put("a")
    seen = json.loads(bytes((await world.get("a", accept=PARTIAL)).body))
    assert seen["kind"] == "PartialObjectMetadata"
    assert seen["metadata"]["resourceVersion"] == str(revision)
    assert "spec" not in seen


async def test_people_get_it_laid_out(world: World) -> None:
    await world.put("a")
    for query, agent in (("pretty=true", "kubectl"), ("", "curl/8.0"), ("", "Mozilla/5.0 (X11)")):
        body = bytes((await world.get("a", query, user_agent=agent)).body)
        assert body.startswith(b'{\n  "apiVersion"')
    assert b"\n" not in bytes((await world.get("a", "pretty=false", user_agent="curl/8.0")).body)


async def test_yaml_for_those_who_ask(world: World) -> None:
    await world.put("a")
    response = await world.get("a", accept="application/yaml")
    assert response.content_type == "application/yaml"
    assert bytes(response.body).startswith(b"apiVersion: nav.example.io/v1\n")


async def test_a_type_we_do_not_have_is_a_406(world: World) -> None:
    await world.put("a")
    with pytest.raises(StatusError) as caught:
        await world.get("a", accept="application/xml")
    assert caught.value.code == 406
    fallback = await world.get("a", accept="application/vnd.kubernetes.protobuf,application/json")
    assert fallback.content_type == "application/json"
