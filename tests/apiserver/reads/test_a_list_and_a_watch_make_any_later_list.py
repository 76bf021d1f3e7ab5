"""Promise P4: a list at revision r and a watch from r give the same state as a list at any later revision.

Random writes meet watchers with all kinds of views, some of which do not drain their streams. What each client pieces
together from its list and its watch is compared with what the server lists, after every few writes.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.apiserver.reads.world import Stream, World, new_world

from pilothouse.aio.ring_buffer import Bounds

pytestmark = pytest.mark.looptime

QUERIES = (
    ("", ""),
    ("t", ""),
    ("t", "labelSelector=k%3Dv"),
    ("", "labelSelector=k"),
    ("t", "fieldSelector=spec.engine%3Dpg"),
    ("", "fieldSelector=spec.engine!%3Dpg,metadata.name!%3Da"),
    ("t", "fieldSelector=metadata.name%3Da"),
    ("", "fieldSelector=metadata.name%3Da"),
)
State = dict[tuple[str, str], Any]

_puts = st.tuples(
    st.just("put"),
    st.sampled_from("ab"),
    st.sampled_from(["t", "u"]),
    st.sampled_from([{}, {"k": "v"}, {"k": "z"}]),
    st.sampled_from(["pg", "mysql"]),
)
_drops = st.tuples(st.just("drop"), st.sampled_from("ab"), st.sampled_from(["t", "u"]))
_pauses = st.tuples(st.just("pause"))
_drains = st.tuples(st.just("drain"))
_compares = st.tuples(st.just("compare"))
_steps = st.lists(_puts | _drops | _pauses | _drains | _compares, min_size=5, max_size=40)


def state_of(listed: Any) -> State:
    return {(item["metadata"]["namespace"], item["metadata"]["name"]): item for item in listed["items"]}


@dataclass
class Client:
    """Keeps what an informer would keep."""

    namespace: str
    query: str
    stream: Stream
    state: State
    revision: int
    seen: int = 0
    mistakes: list[str] = field(default_factory=list)

    def catch_up(self) -> None:
        for event in self.stream.events[self.seen :]:
            self.seen += 1
            metadata = event["object"]["metadata"]
            revision = int(metadata["resourceVersion"])
            if revision <= self.revision:
                self.mistakes.append(f"revision {revision} after {self.revision}")
            self.revision = revision
            key = (metadata["namespace"], metadata["name"])
            known = key in self.state
            if known != (event["type"] != "ADDED"):
                self.mistakes.append(f"{event['type']} of {key}, known before: {known}")
            if event["type"] == "DELETED":
                self.state.pop(key, None)
            else:
                self.state[key] = event["object"]


async def compare(world: World, clients: list[Client]) -> None:
    assert await world.cache.fresh()
    for client in clients:
        # One that is behind is looked at every now and then, even if its stream is empty by now.
        await asyncio.sleep(0.2)
        while client.stream.buffered():
            client.stream.drain()
            await asyncio.sleep(0.2)
        client.catch_up()
        assert client.mistakes == []
        listed = await world.list(client.query, namespace=client.namespace)
        assert client.state == state_of(listed), (client.namespace, client.query)


async def run(steps: list[tuple[Any, ...]], blob: int) -> None:
    async with new_world(Bounds(count=10_000)) as world, asyncio.TaskGroup() as group:
        await world.put("a", labels={"k": "v"}, spec={"engine": "pg"})
        clients, tasks = [], []
        for index, (namespace, query) in enumerate(QUERIES):
            listed = await world.list(query, namespace=namespace)
            revision = int(listed["metadata"]["resourceVersion"])
            stream = Stream(slow=index % 2 == 1)
            if index == 3:
                # Some writes between the list and the watch: they must come from history.
                await world.put("b", labels={"k": "v"})
                await world.drop("b")
            request_query = f"{query}&resourceVersion={revision}"
            client = Client(namespace, query, stream, state_of(listed), revision)
            clients.append(client)
            tasks.append(group.create_task(follow(world, request_query, namespace, stream)))
        await asyncio.sleep(0)
        for count, (what, *rest) in enumerate(steps):
            match what:
                case "put":
                    name, namespace, labels, engine = rest
                    spec = {"engine": engine, "count": count, "blob": "x" * blob}
                    await world.put(name, namespace=namespace, labels=labels, spec=spec)
                case "drop":
                    name, namespace = rest
                    if await world.store.get(world.served().key(namespace, name)) is not None:
                        await world.drop(name, namespace=namespace)
                case "pause":
                    await asyncio.sleep(0.005)
                case "drain":
                    for client in clients:
                        client.stream.drain()
                case "compare":
                    await compare(world, clients)
        await compare(world, clients)
        for task in tasks:
            task.cancel()


async def follow(world: World, query: str, namespace: str, stream: Stream) -> None:
    async with world.watching(query, namespace=namespace, sink=stream) as (_, task):
        await task


@settings(max_examples=60, deadline=None)
@given(steps=_steps)
async def test_with_small_objects(steps: list[tuple[Any, ...]]) -> None:
    await run(steps, 10)


@settings(max_examples=60, deadline=None)
@given(steps=_steps)
async def test_with_objects_that_clog_slow_streams(steps: list[tuple[Any, ...]]) -> None:
    await run(steps, 150_000)
