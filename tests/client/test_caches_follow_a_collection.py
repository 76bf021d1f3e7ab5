from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest
from tests.kit.targets import Fleet
from tests.kit.waiting import eventually

from pilothouse.api.kind_names import ConfigMap, Secret
from pilothouse.base.clock import SystemClock
from pilothouse.client.api import Api
from pilothouse.client.http_transport import HttpTransport
from pilothouse.client.informer import Informer
from pilothouse.client.kubeconfig import load
from pilothouse.client.object_cache import OWNERS, CacheChange, by_label
from pilothouse.client.shared_informers import SharedInformers

PATIENCE = 30.0


def config_map(space: str, name: str, owner: str = "", **labels: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "namespace": space, "labels": labels}
    if owner:
        metadata["ownerReferences"] = [{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": owner}]
    return {"metadata": metadata, "data": {}}


@asynccontextmanager
async def running(informer: Informer) -> AsyncIterator[None]:
    task = asyncio.create_task(informer.run())
    try:
        async with asyncio.timeout(PATIENCE):
            await informer.synced()
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def seen(informer: Informer, revision: int) -> None:
    async with asyncio.timeout(PATIENCE):
        await informer.until(revision)


def names(informer: Informer) -> list[str]:
    return sorted(each.name for each in informer.cache.list())


@pytest.fixture(params=[True, False], ids=["streaming", "listing"])
def streaming(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


async def test_a_cache_has_what_was_there_and_what_comes(api: Api, space: str, streaming: bool) -> None:
    await api.create(ConfigMap, config_map(space, "a", mine="1"))
    informer = Informer(
        api, ConfigMap, Random(1), SystemClock(), namespace=space, labels="mine", streaming=streaming
    )
    told: list[tuple[str | None, str | None]] = []

    def tell(difference: CacheChange) -> None:
        old, new = difference.old, difference.new
        told.append((None if old is None else old.name, None if new is None else new.name))

    informer.subscribe(tell)
    async with running(informer):
        assert names(informer) == ["a"]
        created = await api.create(ConfigMap, config_map(space, "b", mine="1"))
        await seen(informer, created.revision)
        assert names(informer) == ["a", "b"]
        changed = await api.patch(ConfigMap, "b", space, {"data": {"x": "y"}})
        await seen(informer, changed.revision)
        found = informer.cache.get(space, "b")
        assert found is not None
        assert found.tree["data"] == {"x": "y"}
        assert "managedFields" not in found.tree["metadata"]
        assert found.tree["kind"] == "ConfigMap"
        left = await api.patch(ConfigMap, "a", space, {"metadata": {"labels": {"mine": None}}})
        await seen(informer, left.revision)
        assert names(informer) == ["b"]
    assert told == [(None, "a"), (None, "b"), ("b", "b"), ("a", None)]


async def test_what_is_deleted_goes(api: Api, space: str, streaming: bool) -> None:
    await api.create(ConfigMap, config_map(space, "a", mine="1"))
    informer = Informer(
        api, ConfigMap, Random(1), SystemClock(), namespace=space, labels="mine", streaming=streaming
    )
    async with running(informer):
        await api.delete(ConfigMap, "a", space)
        last = await api.create(ConfigMap, config_map(space, "b", mine="1"))
        await seen(informer, last.revision)
        assert names(informer) == ["b"]
        assert informer.cache.get(space, "a") is None


async def test_indexes_find_by_namespace_owner_label_and_anything(api: Api, space: str) -> None:
    indexes = {"color": by_label("color"), "letter": lambda each: [each.name[0]]}
    informer = Informer(
        api, ConfigMap, Random(1), SystemClock(), namespace=space, labels="color", indexes=indexes
    )
    await api.create(ConfigMap, config_map(space, "a1", "uid-1", color="red"))
    await api.create(ConfigMap, config_map(space, "a2", "uid-2", color="red"))
    async with running(informer):
        last = await api.create(ConfigMap, config_map(space, "b1", "uid-1", color="blue"))
        await seen(informer, last.revision)

        def found(index: str, value: str) -> list[str]:
            return sorted(each.name for each in informer.cache.by(index, value))

        assert found(OWNERS, "uid-1") == ["a1", "b1"]
        assert found("color", "red") == ["a1", "a2"]
        assert found("letter", "b") == ["b1"]
        assert sorted(each.name for each in informer.cache.list(space)) == ["a1", "a2", "b1"]
        assert informer.cache.list("another") == []
        moved = await api.patch(ConfigMap, "a1", space, {"metadata": {"labels": {"color": "blue"}}})
        await seen(informer, moved.revision)
        assert (found("color", "red"), found("color", "blue")) == (["a2"], ["a1", "b1"])


async def test_many_pages_become_one_beginning(api: Api, space: str) -> None:
    for n in range(25):
        await api.create(ConfigMap, config_map(space, f"m{n}", mine="1"))
    informers = SharedInformers(api, Random(1), SystemClock(), streaming=False)
    async with informers.running():
        informer = informers.get(ConfigMap, space, labels="mine")
        assert informers.get(ConfigMap, space, labels="mine") is informer
        assert informers.get(Secret, space) is not informer
        async with asyncio.timeout(PATIENCE):
            await informers.synced()
        assert len(informer.cache) == 25
    assert informers.problem == ""


@pytest.mark.parametrize("name", ["sqlite", pytest.param("kube", marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "forgotten",
    [
        pytest.param(False, id="resumed"),
        pytest.param(True, id="forgotten", marks=pytest.mark.long),
    ],
)
async def test_a_cache_survives_its_server(fleet: Fleet, name: str, forgotten: bool) -> None:
    """The server restarts; with ``forgotten`` it no longer knows the revision at which the watch stopped."""
    server = fleet.get(name)
    space = "default"
    access = load(server.target.kubeconfig)
    async with HttpTransport.open(access, SystemClock(), agent="pilothouse-test") as transport:
        api = Api(transport, Random(1), manager="test")
        await api.delete_collection(ConfigMap, space, labels="survivor")
        await api.create(ConfigMap, config_map(space, "a", survivor="1"))
        informer = Informer(api, ConfigMap, Random(1), SystemClock(), namespace=space, labels="survivor")
        async with running(informer):
            if forgotten:
                # What the watch does not show moves the store on without it.
                version = informer.revision
                await api.create(ConfigMap, config_map(space, "b"))
                await api.delete(ConfigMap, "b", space)
                server.forget_history(ConfigMap.path(space), str(version))
            server.restart()
            await api.version()  # Connections to the old process are found to be dead by something harmless.
            last = await api.create(ConfigMap, config_map(space, "later", survivor="1"))
            async with asyncio.timeout(120):
                await informer.until(last.revision)
            assert names(informer) == ["a", "later"]

            async def well() -> bool:
                return not informer.problem

            await eventually(well)
