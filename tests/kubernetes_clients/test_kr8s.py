"""Case 70: kr8s, its objects, its watch and its selectors."""

from __future__ import annotations

import asyncio
from typing import Any

import kr8s.asyncio
import pytest
from kr8s.asyncio.objects import ConfigMap, Namespace, new_class
from tests.kit.databases import database
from tests.kit.servers import Target

pytestmark = [pytest.mark.conformance, pytest.mark.clients]

Database = new_class(
    "Database", version="nav.example.io/v1", namespaced=True, plural="databases", scalable=True
)


@pytest.fixture
async def api(target: Target, kinds: None) -> Any:
    return await kr8s.asyncio.api(kubeconfig=str(target.kubeconfig))


async def test_case_70_kr8s_creates_reads_patches_scales_and_deletes(api: Any, ns: str) -> None:
    item = await Database(database("a", metadata={"namespace": ns}), api=api)
    await item.create()
    assert await item.exists()
    assert item.spec.replicas == 1

    await item.patch({"metadata": {"labels": {"k": "v"}}})
    await item.scale(3)
    await item.refresh()
    assert (item.labels["k"], item.replicas) == ("v", 3)
    found = [found async for found in api.get("databases.nav.example.io", namespace=ns, label_selector="k=v")]
    assert [each.name for each in found] == ["a"]

    await item.delete()
    await item.wait("delete", timeout=30)
    assert not await item.exists()


async def test_case_70_kr8s_watches(api: Any, ns: str) -> None:
    seen: list[tuple[str, str]] = []
    begun = asyncio.Event()

    async def watch() -> None:
        async for kind, item in api.watch("databases.nav.example.io", namespace=ns):
            seen.append((kind, item.name))
            begun.set()
            if kind == "DELETED":
                return

    await (await Database(database("a", metadata={"namespace": ns}), api=api)).create()
    watching = asyncio.create_task(watch())
    await asyncio.wait_for(begun.wait(), 30)
    other = await Database(database("b", metadata={"namespace": ns}), api=api)
    await other.create()
    await other.patch({"spec": {"replicas": 2}})
    await other.delete()
    await asyncio.wait_for(watching, 30)

    assert seen == [("ADDED", "a"), ("ADDED", "b"), ("MODIFIED", "b"), ("DELETED", "b")]


async def test_case_70_kr8s_pages_through_many(api: Any, ns: str) -> None:
    async def create(n: int) -> None:
        body = {"metadata": {"name": f"cm-{n:03}", "namespace": ns}, "data": {"n": str(n)}}
        await (await ConfigMap(body, api=api)).create()

    for first in range(0, 120, 20):
        await asyncio.gather(*(create(n) for n in range(first, first + 20)))

    assert len([cm async for cm in api.get("configmaps", namespace=ns)]) == 120
    assert (await Namespace.get(ns, api=api)).name == ns


async def test_case_70_kr8s_knows_the_server(api: Any) -> None:
    assert (await api.version())["major"] == "1"
    assert {"databases", "regions"} <= {resource["name"] for resource in await api.api_resources()}
    assert await api.whoami()
