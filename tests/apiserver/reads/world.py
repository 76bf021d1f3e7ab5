"""A read side over a store in memory, without HTTP: what the tests of reading start from."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from pilothouse.aio.ring_buffer import Bounds
from pilothouse.apiserver.discovery.catalog import KindCatalog, ServedVersion
from pilothouse.apiserver.endpoints.call import ResourceRequest
from pilothouse.apiserver.endpoints.get import GetEndpoint
from pilothouse.apiserver.endpoints.list import ListEndpoint
from pilothouse.apiserver.endpoints.watch import WatchEndpoint
from pilothouse.apiserver.server.messages import Request, Response, StreamChunk
from pilothouse.apiserver.storage import codec
from pilothouse.apiserver.storage.watch_cache import WatchCache
from pilothouse.base.clock import ManualClock
from pilothouse.meta.kind import Column, Kind, Object, Resource, ScalePaths, relabel
from pilothouse.meta.schema.model import Schema
from pilothouse.store.interface import Store
from pilothouse.store.memory import MemoryStore

NOW = 1_700_000_000.0
CREATED = "2023-11-14T22:13:14Z"
"""Six seconds before ``NOW``."""
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"
_SCHEMA = Schema(type="object", preserve_unknown=True)
_COLUMNS = (
    Column(name="Engine", path=".spec.engine"),
    Column(name="Replicas", type="integer", path=".spec.replicas"),
    Column(name="Phase", path=".status.phase", priority=1),
    Column(name="Age", type="date", path=".metadata.creationTimestamp"),
)


def database(version: str, **more: Any) -> Kind:
    return Kind(
        group="nav.example.io",
        version=version,
        name="Database",
        plural="databases",
        singular="database",
        short_names=("db",),
        categories=("all",),
        schema=_SCHEMA,
        status=True,
        scale=ScalePaths(),
        columns=_COLUMNS,
        selectable={"spec.engine": ".spec.engine"},
        **more,
    )


DATABASES = Resource(
    kinds=(
        database("v1"),
        database("v1alpha1", deprecation="nav.example.io/v1alpha1 Database is deprecated"),
    ),
    storage="v1",
    convert=relabel("nav.example.io"),
)
REGIONS = Resource(
    kinds=(
        Kind(
            group="nav.example.io",
            version="v1",
            name="Region",
            plural="regions",
            singular="region",
            namespaced=False,
            schema=_SCHEMA,
        ),
    ),
    storage="v1",
)
CONFIG_MAPS = Resource(
    kinds=(Kind(group="", version="v1", name="ConfigMap", plural="configmaps", native=True, schema=_SCHEMA),),
    storage="v1",
)


class Stream:
    """A sink that keeps what it is given; ``drained`` says how much of it the peer has taken."""

    def __init__(self, *, slow: bool = False) -> None:
        self.chunks: list[bytes] = []
        self.slow = slow
        self.taken = 0
        self.size = 0
        self.closed = False
        self._written = asyncio.Event()

    def write(self, chunk: StreamChunk) -> None:
        self.chunks.append(chunk.data)
        self.size += len(chunk.data)
        self._written.set()

    def buffered(self) -> int:
        return self.size - self.taken if self.slow else 0

    def drain(self) -> None:
        self.taken = self.size

    @property
    def lines(self) -> list[bytes]:
        return b"".join(self.chunks).splitlines()

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines]

    @property
    def brief(self) -> list[tuple[str, str]]:
        """Type and name of each event."""
        return [(event["type"], event["object"]["metadata"].get("name", "")) for event in self.events]

    async def until(self, enough: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
        """Wait for events."""
        async with asyncio.timeout(60):
            while not enough(self.events):
                self._written.clear()
                await self._written.wait()
        return self.events

    async def count(self, number: int) -> list[dict[str, Any]]:
        return await self.until(lambda events: len(events) >= number)


class World:
    """A store, a cache and a reader."""

    def __init__(self, store: Store, bounds: Bounds | None = None) -> None:
        self.store = store
        self.clock = ManualClock(NOW)
        self.catalog = KindCatalog([DATABASES, REGIONS, CONFIG_MAPS])
        self.cache = WatchCache(store, self.catalog, self.clock, random.Random(1), bounds=bounds)
        self.getter = GetEndpoint(self.cache, self.clock)
        self.lister = ListEndpoint(self.cache, self.clock)
        self.watches = WatchEndpoint(self.catalog, self.cache, self.clock, random.Random(1))

    def served(self, plural: str = "databases", version: str = "v1") -> ServedVersion:
        group = "" if plural == "configmaps" else "nav.example.io"
        found = self.catalog.find(group, version, plural)
        assert found is not None
        return found

    async def put(
        self,
        name: str,
        *,
        namespace: str = "t",
        plural: str = "databases",
        labels: Mapping[str, str] | None = None,
        **rest: Any,
    ) -> int:
        """Create or replace an object; its revision."""
        served = self.served(plural)
        metadata: Object = {"name": name, "creationTimestamp": CREATED, "uid": f"uid-{name}"}
        if served.kind.namespaced:
            metadata["namespace"] = namespace
        if labels:
            metadata["labels"] = dict(labels)
        rest = rest or {"spec": {"engine": "pg"}}
        kind = served.kind
        value = codec.encode(
            {"apiVersion": kind.api_version, "kind": kind.name, "metadata": metadata, **rest}
        )
        key = served.key(namespace, name)
        present = await self.store.get(key)
        if present is None:
            return await self.store.create(key, value)
        return await self.store.update(key, value, revision=present.revision)

    async def drop(self, name: str, *, namespace: str = "t", plural: str = "databases") -> int:
        key = self.served(plural).key(namespace, name)
        present = await self.store.get(key)
        assert present is not None
        return await self.store.delete(key, revision=present.revision)

    async def get(self, name: str, query: str = "", *, version: str = "v1", **headers: str) -> Response:
        return await self.getter.handle(
            ResourceRequest(ask(query, **headers), self.served(version=version), "get", "t", name)
        )

    async def list(
        self,
        query: str = "",
        *,
        namespace: str = "t",
        plural: str = "databases",
        version: str = "v1",
        **headers: str,
    ) -> Any:
        """The decoded list."""
        response = await self.list_response(
            query, namespace=namespace, plural=plural, version=version, **headers
        )
        return json.loads(bytes(response.body))

    async def list_response(
        self,
        query: str,
        *,
        namespace: str = "t",
        plural: str = "databases",
        version: str = "v1",
        **headers: str,
    ) -> Response:
        return await self.lister.handle(
            ResourceRequest(ask(query, **headers), self.served(plural, version), "list", namespace)
        )

    @asynccontextmanager
    async def watching(
        self,
        query: str = "",
        *,
        namespace: str = "t",
        plural: str = "databases",
        version: str = "v1",
        sink: Stream | None = None,
        **headers: str,
    ) -> AsyncIterator[tuple[Stream, asyncio.Task[None]]]:
        """An open watch: its sink, and the task that ends with it."""
        request = ask(query, **headers)
        streaming = await self.watches.handle(
            ResourceRequest(request, self.served(plural, version), "watch", namespace)
        )
        stream = sink or Stream()
        task = asyncio.ensure_future(streaming.run(stream))
        try:
            await asyncio.sleep(0)
            yield stream, task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def ask(query: str = "", **headers: str) -> Request:
    """A GET; header names are written with underscores."""
    named = {name.replace("_", "-").title(): value for name, value in headers.items()}
    return Request("GET", "/", query=query, headers=named)


def names(listed: Any) -> list[str]:
    return [item["metadata"]["name"] for item in listed["items"]]


@asynccontextmanager
async def world_over(store: Store, bounds: Bounds | None = None) -> AsyncIterator[World]:
    """A world whose cache follows a store."""
    world = World(store, bounds)
    task = asyncio.create_task(world.cache.run())
    try:
        assert await world.cache.fresh()
        yield world
    finally:
        world.watches.end_all()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def new_world(bounds: Bounds | None = None) -> AsyncIterator[World]:
    """A world over an empty store in memory."""
    store = MemoryStore()
    async with world_over(store, bounds) as world:
        yield world
    await store.close()
