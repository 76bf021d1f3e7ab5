"""Watches over a WebSocket, as browsers and fabric8 open them."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from tests.kit.databases import GROUP, Databases
from tests.kit.http import PATIENCE, TABLE, Event, Http
from tests.kit.rbac_objects import bind, place, role, rule
from tests.kit.waiting import eventually

pytestmark = pytest.mark.conformance

PREFIX = "base64url.bearer.authorization.k8s.io."


def bearer(token: str) -> str:
    """A token as a subprotocol."""
    return PREFIX + base64.urlsafe_b64encode(token.encode()).decode().rstrip("=")


async def next_event(socket: aiohttp.ClientWebSocketResponse) -> Event:
    message = await socket.receive(timeout=PATIENCE)
    assert message.type is aiohttp.WSMsgType.TEXT, message
    decoded = json.loads(message.data)
    return Event(decoded["type"], decoded["object"])


async def refusal(client: Http, path: str, **how: Any) -> int:
    """The status of what is answered instead of an upgrade."""
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        async with client.websocket(path, **how):
            pass
    return refused.value.status


@pytest.fixture
async def stranger(http: Http) -> AsyncIterator[Http]:
    """A client without credentials of its own."""
    access = dataclasses.replace(http.target.access, cert=None, key=None, token="")
    async with Http.to(dataclasses.replace(http.target, access=access)) as client:
        yield client


async def test_a_large_object_is_one_message(dbs: Databases, http: Http) -> None:
    path, blob = f"/api/v1/namespaces/{dbs.namespace}/configmaps", "x" * 900_000
    (await http.post(path, {"metadata": {"name": "large"}, "data": {"blob": blob}})).expect(201)
    async with http.websocket(path, watch="true", fieldSelector="metadata.name=large") as socket:
        first = await next_event(socket)
        change = {"data": {"more": "y"}}
        (await http.patch(f"{path}/large", change)).expect(200)
        second = await next_event(socket)
    assert [(event.type, event.object["data"]["blob"] == blob) for event in (first, second)] == [
        ("ADDED", True),
        ("MODIFIED", True),
    ]


async def test_every_event_is_a_frame_of_text(dbs: Databases, http: Http) -> None:
    await dbs.create("a")
    async with http.websocket(dbs.path(), watch="true") as socket:
        first = await next_event(socket)
        await asyncio.gather(dbs.create("b"), dbs.create("c"), dbs.create("d"))
        more = [await next_event(socket) for _ in range(3)]
        (await http.patch(dbs.at("a"), {"spec": {"replicas": 2}})).expect(200)
        (await http.delete(dbs.at("a"))).expect(200)
        last = [await next_event(socket) for _ in range(2)]

    assert (first.type, first.name) == ("ADDED", "a")
    assert sorted((event.type, event.name) for event in more) == [("ADDED", name) for name in "bcd"]
    assert [(event.type, event.name) for event in last] == [("MODIFIED", "a"), ("DELETED", "a")]


async def test_a_watch_goes_on_from_a_version(dbs: Databases, http: Http) -> None:
    created = await dbs.create("a")
    await dbs.create("b")
    query = {"watch": "1", "resourceVersion": created["metadata"]["resourceVersion"]}
    async with http.websocket(dbs.path(), **query, fieldSelector="metadata.name=b") as socket:
        event = await next_event(socket)
    assert (event.type, event.name) == ("ADDED", "b")


async def test_a_large_object_is_one_frame(dbs: Databases, http: Http) -> None:
    await dbs.create("a", extra={"text": "x" * 200_000})
    async with http.websocket(dbs.path(), watch="true") as socket:
        event = await next_event(socket)
    assert len(event.object["spec"]["extra"]["text"]) == 200_000


async def test_a_watch_whose_time_is_up_is_closed(dbs: Databases, http: Http) -> None:
    query = {"watch": "1", "resourceVersion": await dbs.revision(), "timeoutSeconds": "1"}
    async with http.websocket(dbs.path(), **query) as socket:
        message = await socket.receive(timeout=PATIENCE)
    assert message.type in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED)


async def test_a_client_may_ask_whether_anyone_is_there_and_leave(dbs: Databases, http: Http) -> None:
    async with http.websocket(dbs.path(), watch="true") as socket:
        await socket.ping(b"hello")
        await socket.send_str("nobody listens")
        await dbs.create("a")
        assert (await next_event(socket)).name == "a"
        assert await socket.close()


async def test_a_table_is_watched_too(dbs: Databases, http: Http) -> None:
    await dbs.create("a")
    session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=http.target.trust()))
    async with (
        session,
        session.ws_connect(
            http.url(dbs.path(), {"watch": "1"}), headers={"Accept": TABLE}, origin=http.target.url
        ) as socket,
    ):
        event = await next_event(socket)
    assert event.object["kind"] == "Table"
    assert [row["cells"][0] for row in event.object["rows"]] == ["a"]


async def test_what_is_no_watch_is_answered_as_ever(dbs: Databases, http: Http) -> None:
    assert await refusal(http, dbs.path()) == 200
    assert await refusal(http, f"{dbs.path()}x", watch="true") == 404


async def test_a_token_may_come_as_a_subprotocol(dbs: Databases, http: Http, stranger: Http) -> None:
    watcher = role(dbs.namespace, "watcher", rule("watch", "databases", GROUP))
    for each in (watcher, bind(dbs.namespace, "alice", "Role/watcher", "User/alice")):
        (await http.post(place(each), each)).expect(201)
    await dbs.create("a")
    protocols = (bearer("alice-token"), "binary.k8s.io")

    async def may() -> bool:
        async with stranger.watch(dbs.path(), headers={"Authorization": "Bearer alice-token"}) as watch:
            return watch.status == 200

    await eventually(may)
    async with stranger.websocket(dbs.path(), watch="true", protocols=protocols) as socket:
        event = await next_event(socket)
        assert socket.protocol == "binary.k8s.io"
    assert (event.type, event.name) == ("ADDED", "a")

    async def status(*offered: str) -> int:
        return await refusal(stranger, dbs.path(), watch="true", protocols=offered)

    assert await status("binary.k8s.io") == 403
    assert await status(bearer("bob-token"), "binary.k8s.io") == 403
    assert await status(bearer("made-up"), "binary.k8s.io") == 401
    assert await status(bearer("alice-token")) == 401
    assert await status(bearer("alice-token"), bearer("bob-token"), "binary.k8s.io") == 401
    assert await status(f"{PREFIX}not!base64", "binary.k8s.io") == 401
