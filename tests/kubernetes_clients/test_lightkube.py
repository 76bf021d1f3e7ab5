"""Case 70: lightkube: typed models, generic resources, watch and server-side apply."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from lightkube import ApiError, AsyncClient, KubeConfig
from lightkube.generic_resource import create_namespaced_resource
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import ConfigMap, Namespace
from lightkube.types import CascadeType, PatchType
from tests.kit.databases import GROUP, V1, database
from tests.kit.servers import Target

pytestmark = [pytest.mark.conformance, pytest.mark.clients]

Database = create_namespaced_resource(GROUP, "v1", "Database", "databases")


@pytest.fixture
async def client(target: Target, kinds: None, ns: str) -> AsyncIterator[AsyncClient]:
    config = KubeConfig.from_file(str(target.kubeconfig))
    async with AsyncClient(config=config, namespace=ns, field_manager="m1", trust_env=False) as opened:
        yield opened


async def test_case_70_lightkube_creates_reads_patches_replaces_and_deletes(client: Any, ns: str) -> None:
    body = ConfigMap(metadata=ObjectMeta(name="cm", namespace=ns), data={"k": "v"})
    created = await client.create(body)
    assert created.metadata.uid
    patched = await client.patch(ConfigMap, "cm", {"data": {"l": "w"}})
    assert patched.data == {"k": "v", "l": "w"}
    merged = await client.patch(ConfigMap, "cm", {"data": {"k": None}}, patch_type=PatchType.MERGE)
    assert merged.data == {"l": "w"}
    merged.data = {"m": "x"}
    assert (await client.replace(merged)).data == {"m": "x"}
    assert [cm.metadata.name async for cm in client.list(ConfigMap)] == ["cm"]
    await client.delete(ConfigMap, "cm", cascade=CascadeType.BACKGROUND)
    with pytest.raises(ApiError) as missing:
        await client.get(ConfigMap, "cm")
    assert missing.value.status.code == 404
    assert (await client.get(Namespace, ns)).status.phase == "Active"


async def test_case_70_lightkube_applies_with_managers(client: Any, ns: str) -> None:
    body = Database(database("a", replicas=2, metadata={"namespace": ns}))
    body["apiVersion"], body["kind"] = V1, "Database"
    assert (await client.apply(body)).spec["replicas"] == 2
    body["spec"]["replicas"] = 3
    with pytest.raises(ApiError) as conflict:
        await client.apply(body, field_manager="m2")
    assert conflict.value.status.reason == "Conflict"
    assert (await client.apply(body, field_manager="m2", force=True)).spec["replicas"] == 3
    assert [item.metadata.name async for item in client.list(Database, fields={"spec.engine": "pg"})] == ["a"]


async def test_case_70_lightkube_watches(client: Any, ns: str) -> None:
    start = (await client.get(Namespace, ns)).metadata.resourceVersion

    async def change() -> None:
        await client.create(Database(database("a", metadata={"namespace": ns})))
        await client.patch(Database, "a", {"spec": {"replicas": 2}}, patch_type=PatchType.MERGE)
        await client.delete(Database, "a")

    seen = []
    changing = asyncio.create_task(change())
    async with asyncio.timeout(30):
        async for kind, item in client.watch(Database, resource_version=start):
            seen.append((kind, item.metadata.name))
            if kind == "DELETED":
                break
    await changing
    assert seen == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]
