"""What a node answers is passed on as it is, and calls to nodes leave no open connection behind."""

from __future__ import annotations

import asyncio
import gc
import ssl
from collections.abc import AsyncIterator

import pytest
import trustme
from tests.kit.http import Http
from tests.kit.stream_node import NAME, Plane, StreamNode

from pilothouse.apiserver.registry.node_addresses import NodeEndpoint
from pilothouse.apiserver.registry.node_client import HTTPSNodeClient
from pilothouse.apiserver.server.messages import StreamingResponse
from pilothouse.meta.errors import StatusError
from pilothouse.pki.signers import serving_name


@pytest.fixture
async def http(plane: Plane) -> AsyncIterator[Http]:
    async with Http.to(plane.server.target) as client:
        yield client


async def test_a_page_that_a_node_has_not_is_not_found(http: Http, node: StreamNode) -> None:
    answer = await http.get(f"/api/v1/nodes/{NAME}/proxy/nowhere")
    assert (answer.status, answer.text[:3]) == (404, "404"), "in the node's own words"
    assert (await http.get(f"/api/v1/nodes/{NAME}/proxy/healthz")).text == "ok"


@pytest.fixture
async def endless() -> AsyncIterator[tuple[HTTPSNodeClient, NodeEndpoint]]:
    """A node whose answers have no end, and how it is asked."""
    issuer = trustme.CA()
    serving, asking = (
        ssl.create_default_context(purpose) for purpose in (ssl.Purpose.CLIENT_AUTH, ssl.Purpose.SERVER_AUTH)
    )
    issuer.issue_cert(serving_name("n")).configure_cert(serving)
    issuer.configure_trust(asking)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = await reader.readuntil(b"\r\n\r\n")
        status = b"200 OK" if b"/good" in asked else b"500 Broken"
        writer.write(b"HTTP/1.1 %b\r\nTransfer-Encoding: chunked\r\n\r\n" % status)
        writer.write(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")
        await reader.read()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=serving)
    port = server.sockets[0].getsockname()[1]
    try:
        yield HTTPSNodeClient(lambda: asking), NodeEndpoint("n", "127.0.0.1", port)
    finally:
        server.close()
        await server.wait_closed()


@pytest.mark.parametrize("path", ["/good", "/bad"])
async def test_no_connection_to_a_node_is_left_open(
    endless: tuple[HTTPSNodeClient, NodeEndpoint], path: str
) -> None:
    calls, endpoint = endless
    complaints: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context["message"]))

    async def ask() -> None:
        # What is kept in a circle, as by the traceback of an exception, is not let go in any order.
        circle: list[object] = []
        circle.append(circle)
        try:
            answer = await calls.read(endpoint, path, [], ends=False)
            circle.append(answer)
            assert isinstance(answer, StreamingResponse)
            await answer.close()
        except StatusError as problem:
            circle.append(problem)

    await asyncio.wait_for(ask(), 30)
    gc.collect()
    await asyncio.sleep(0)
    assert complaints == []
