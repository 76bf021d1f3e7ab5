"""Programs and logs over a WebSocket, in every subprotocol that Kubernetes has for them; and who may open one."""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from multidict import CIMultiDict
from tests.kit.http import PATIENCE, Http
from tests.kit.rbac_objects import bind, place
from tests.kit.stream_node import Plane, StreamNode
from tests.kit.waiting import eventually
from yarl import URL

from pilothouse.apiserver.server.websockets import take_token

PODS = "/api/v1/namespaces/default/pods"
PREFIX = "base64url.bearer.authorization.k8s.io."
BASE64 = ("base64.channel.k8s.io", "v4.base64.channel.k8s.io")
BINARY = ("channel.k8s.io", "v4.channel.k8s.io", "v5.channel.k8s.io")


@pytest.fixture
async def http(plane: Plane) -> AsyncIterator[Http]:
    async with Http.to(plane.server.target) as client:
        yield client


async def messages(socket: aiohttp.ClientWebSocketResponse) -> list[Any]:
    """What is said until the server closes."""
    found = []
    while (message := await socket.receive(timeout=PATIENCE)).type in (
        aiohttp.WSMsgType.TEXT,
        aiohttp.WSMsgType.BINARY,
    ):
        found.append(message.data)
    return found


def streams(said: list[Any], protocol: str) -> dict[int, bytes]:
    """What was said on each channel."""
    found: dict[int, bytes] = {}
    for each in said:
        if protocol in BASE64:
            assert isinstance(each, str)
            channel, data = int(each[0]), base64.b64decode(each[1:], validate=True)
        else:
            assert isinstance(each, bytes)
            channel, data = each[0], each[1:]
        found[channel] = found.get(channel, b"") + data
    return found


async def run(http: Http, protocol: str, *command: str, typed: bytes = b"") -> dict[int, bytes]:
    query = "&".join(f"command={each}" for each in command)
    path = f"{PODS}/web/exec?{query}&stdin=true&stdout=true&stderr=true"
    protocols = (protocol,) if protocol else ()
    async with http.websocket(path, protocols=protocols) as socket:
        assert (socket.protocol or "") == protocol
        if typed and protocol in BASE64:
            await socket.send_str("0" + base64.b64encode(typed).decode())
        elif typed:
            await socket.send_bytes(b"\0" + typed)
        return streams(await messages(socket), protocol)


@pytest.mark.parametrize("protocol", ["", *BINARY, *BASE64])
async def test_a_program_is_talked_to(http: Http, node: StreamNode, protocol: str) -> None:
    await node.start("web", "sleep 1000")

    said = await run(http, protocol, "head", "-n1", typed=b"hello\n")
    assert said[1] == b"hello\n"
    failed = await run(http, protocol, "cat", "/nothing")
    assert b"/nothing" in failed[2]

    if protocol.startswith("v"):
        assert json.loads(said[3])["status"] == "Success"
        assert json.loads(failed[3])["reason"] == "NonZeroExitCode"
    else:
        assert 3 not in said
        assert failed[3] == b"command terminated with non-zero exit code: exit status 1"


async def test_what_is_no_base64_is_refused(http: Http, node: StreamNode) -> None:
    await node.start("web", "sleep 1000")
    path = f"{PODS}/web/exec?command=cat&stdin=true&stdout=true"
    async with http.websocket(path, protocols=("v4.base64.channel.k8s.io",)) as socket:
        await socket.send_str("0*not base64*")
        said = streams(await messages(socket), "v4.base64.channel.k8s.io")
    assert json.loads(said[3])["code"] == 400


@pytest.mark.parametrize("protocol", ["", "binary.k8s.io", "base64.binary.k8s.io"])
async def test_a_log_is_read(http: Http, node: StreamNode, protocol: str) -> None:
    container = await node.start("web", "echo one; echo two")
    await container.exited()
    protocols = (protocol,) if protocol else ()
    async with http.websocket(f"{PODS}/web/log", protocols=protocols) as socket:
        said = await messages(socket)
    assert not said[0]
    text = b"".join(base64.b64decode(each) if isinstance(each, str) else each for each in said)
    assert text == b"one\ntwo\n"
    assert all(isinstance(each, str) is protocol.startswith("base64") for each in said)


async def test_a_log_is_followed_until_the_client_goes(http: Http, node: StreamNode) -> None:
    await node.start("web", "echo one; sleep 1000")
    async with http.websocket(f"{PODS}/web/log", follow="true") as socket:
        assert (await socket.receive(timeout=PATIENCE)).data == b""
        assert (await socket.receive(timeout=PATIENCE)).data == b"one\n"


async def test_a_form_of_logs_that_there_is_not(http: Http, node: StreamNode) -> None:
    await node.start("web", "echo one")
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        async with http.websocket(f"{PODS}/web/log", protocols=("v4.channel.k8s.io",)):
            pass
    assert refused.value.status == 400


@pytest.mark.parametrize(
    "path",
    ["/api/v1/pods?watch=true", f"{PODS}/web/log", f"{PODS}/web/exec?command=true&stdout=true"],
    ids=["watch", "log", "exec"],
)
@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "https://127.0.0.1", "http://127.0.0.1:1"]
)
async def test_a_page_of_another_site_can_not_use_the_certificate_of_its_reader(
    http: Http, node: StreamNode, path: str, origin: str
) -> None:
    await node.start("web", "sleep 1000")
    # A made-up token beside it changes nothing: the certificate would count.
    token = PREFIX + base64.urlsafe_b64encode(b"made-up").decode().rstrip("=")
    for protocols in ((), (token, "v4.channel.k8s.io")):
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            async with http.websocket(path, origin=origin, protocols=protocols):
                pass
        assert refused.value.status == 403


async def test_a_client_that_sends_its_token_as_a_header_is_no_page(
    plane: Plane, http: Http, node: StreamNode
) -> None:
    await node.start("web", "sleep 1000")
    rights = bind("", "bob-rules", "ClusterRole/cluster-admin", "User/bob")
    (await http.post(place(rights), rights)).expect(201)
    access = plane.server.target.access
    trust = ssl.create_default_context(cafile=str(access.ca))
    async with aiohttp.ClientSession(headers={"Authorization": "Bearer bob-token"}) as session:
        await eventually(lambda: may_list(session, http.url(PODS, {}), trust))
        for path in (
            "/api/v1/pods?watch=true",
            f"{PODS}/web/log",
            f"{PODS}/web/exec?command=true&stdout=true",
        ):
            async with session.ws_connect(http.url(path, {}), origin="http://localhost", ssl=trust) as socket:
                assert not socket.closed
    (await http.delete(f"{place(rights)}/bob-rules")).expect(200)


async def may_list(session: aiohttp.ClientSession, url: URL, trust: ssl.SSLContext) -> bool:
    async with session.get(url, ssl=trust) as answer:
        return answer.status == 200


async def test_a_token_goes_neither_to_a_node_nor_into_a_log(
    plane: Plane, http: Http, node: StreamNode
) -> None:
    await node.start("web", "sleep 1000")
    token = PREFIX + base64.urlsafe_b64encode(b"alice-token").decode().rstrip("=")
    path = f"{PODS}/web/exec?command=true&stdout=true"
    async with http.websocket(path, protocols=(token, "v4.channel.k8s.io")) as socket:
        assert socket.protocol == "v4.channel.k8s.io"
        said = streams(await messages(socket), "v4.channel.k8s.io")
    assert json.loads(said[3])["status"] == "Success"
    assert token not in plane.server.process.output() + plane.server.audit_log.read_text()

    offered = CIMultiDict({"Sec-WebSocket-Protocol": f"{token}, v4.channel.k8s.io", "Origin": "o"})
    assert take_token(offered) == (
        "alice-token",
        {"Sec-WebSocket-Protocol": "v4.channel.k8s.io", "Origin": "o"},
    )
