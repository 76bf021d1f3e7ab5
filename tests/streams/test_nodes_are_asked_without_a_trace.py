"""What a node answers is passed on as it is, and calls to nodes leave no open connection behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.kit.http import Http
from tests.kit.stream_node import NAME, Plane, StreamNode

PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture
async def http(plane: Plane) -> AsyncIterator[Http]:
    async with Http.to(plane.server.target) as client:
        yield client


async def test_a_page_that_a_node_has_not_is_not_found(http: Http, node: StreamNode) -> None:
    answer = await http.get(f"/api/v1/nodes/{NAME}/proxy/nowhere")
    assert (answer.status, answer.reason) == (404, "NotFound")
    assert (await http.get(f"/api/v1/nodes/{NAME}/proxy/healthz")).text == "ok"


async def test_no_connection_to_a_node_is_left_open(plane: Plane, http: Http, node: StreamNode) -> None:
    await node.start("web", "yes")
    await http.get(f"/api/v1/nodes/{NAME}/proxy/nowhere")
    await http.get(f"{PODS}/web/log", previous="true")
    for _ in range(3):
        # A client that goes away in the middle.
        async with http.watch(f"{PODS}/web/log", follow="true") as stream:
            assert stream.status == 200
    async with http.websocket(f"{PODS}/web/log", follow="true") as socket:
        await socket.receive(timeout=10)
    # The server has noticed once it has nothing more to say of an earlier request than of a later one.
    for _ in range(20):
        await http.get("/version")
        await asyncio.sleep(0)
    assert "Unclosed" not in plane.server.process.output()
