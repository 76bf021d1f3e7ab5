"""A write like an earlier one is read without the parser, and in every respect as the parser would have read it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http_parser import HttpRequestParser
from tests.apiserver.audit.scenes import lines_of
from tests.apiserver.server.behind_an_edge import MAP, MAPS, TOKENS, Server
from tests.apiserver.server.wire import Dial, Reply, Wire
from tests.kit.rbac_objects import bind, cluster_role, place, rule

from pilothouse.apiserver.authentication.authenticator import Authenticator, read_tokens
from pilothouse.apiserver.server.fast_path import FastPath, FastRequest
from pilothouse.apiserver.server.response_heads import ResponseHeads

HEADERS = ("Authorization: Bearer t-admin", "Content-Type: application/merge-patch+json")
BODY = b'{"data":{"k":"2"}}'


def request(
    first: str = f"PATCH {MAP} HTTP/1.1", *headers: str, body: bytes = BODY, length: int = 0
) -> bytes:
    lines = [
        first,
        "Host: localhost",
        *(headers or HEADERS),
        f"Content-Length: {length or len(body)}",
        "",
        "",
    ]
    return "\r\n".join(lines).encode() + body


def parsed(data: bytes) -> Any:
    loop = asyncio.get_running_loop()
    parser = HttpRequestParser(BaseProtocol(loop), loop, 2**16)
    ((message, _),) = parser.feed_data(data)[0]
    return message


@pytest.fixture
async def fast_path(server: Server) -> FastPath:
    """One that has read a write."""
    found = FastPath(
        server.core.prompt(server.requests), Authenticator(read_tokens(TOKENS, "")), ResponseHeads(), None
    )
    found.learn(request(), parsed(request()))
    return found


async def test_what_is_read_is_what_came(fast_path: FastPath) -> None:
    for target in (MAP, f"{MAP}/status", f"{MAPS}/b.c:d-e?fieldManager=x&force=true"):
        data = request(f"PUT {target} HTTP/1.1", body=BODY.replace(b"2", b"7"))
        message = parsed(data)
        opened = fast_path.open(data)
        assert opened == FastRequest("PUT", target, message.headers, BODY.replace(b"2", b"7"))
        assert (opened.method, opened.target) == (message.method, message.path)


async def test_any_other_is_left_to_the_parser(fast_path: FastPath) -> None:
    assert fast_path.open(request()) is not None
    for first in (
        f"PATCH {MAP} HTTP/1.0",
        f"PATCH  {MAP} HTTP/1.1",
        f"PATCH {MAP}%2e HTTP/1.1",
        f"PATCH {MAP}#x HTTP/1.1",
        f"PATCH http://localhost{MAP} HTTP/1.1",
        f"PATCH {MAP} HTTP/1.1\r",
        f"PATCH {MAP}?x={'y' * 4096} HTTP/1.1",
        f"GET {MAP} HTTP/1.1",
        f"patch {MAP} HTTP/1.1",
    ):
        assert fast_path.open(request(first)) is None, first
    for data in (
        request()[:-1],
        request() + b"x",
        request() + request(),
        request(body=BODY + b" "),
        request(f"PATCH {MAP} HTTP/1.1", *HEADERS, "X: y"),
        request().replace(b"\r\n", b"\n"),
        request()[1:],
        b"",
    ):
        assert fast_path.open(data) is None, data


@pytest.mark.parametrize(
    "header",
    [
        "Expect: 100-continue",
        "Connection: close",
        "Content-Encoding: gzip",
        "Audit-ID: mine",
        "Upgrade: x",
        "X-Name: \u00e9",
    ],
)
async def test_what_asks_for_more_is_never_known(fast_path: FastPath, header: str) -> None:
    data = request(f"PATCH {MAP} HTTP/1.1", *HEADERS, header)
    fast_path.learn(data, parsed(data))
    assert fast_path.open(data) is None


async def patch(wire: Wire, value: str, *, who: str = "admin") -> Reply:
    headers = (f"Authorization: Bearer t-{who}", HEADERS[1])
    return await wire.ask(request(f"PATCH {MAP} HTTP/1.1", *headers, body=BODY.replace(b"2", value.encode())))


async def test_every_write_is_carried_out(server: Server, dial: Dial) -> None:
    wire = await dial(server.place)
    for value in "3456":
        assert (await patch(wire, value)).json()["data"] == {"k": value}
    assert server.asked == [MAP] * 4


async def test_what_comes_with_it_or_in_pieces_is_read_in_order(server: Server, dial: Dial) -> None:
    wire = await dial(server.place)
    for value in "34":
        await patch(wire, value)
    wire.writer.write(request() + request(body=BODY.replace(b"2", b"9")))
    assert [(await wire.reply()).json()["data"]["k"] for _ in range(2)] == ["2", "9"]
    other = await dial(server.place)
    data = request(body=BODY.replace(b"2", b"5"))
    other.writer.write(data[:-3])
    await other.writer.drain()
    assert (await patch(wire, "8")).status == 200
    other.writer.write(data[-3:])
    assert (await other.reply()).json()["data"] == {"k": "5"}


async def test_a_body_that_looks_like_a_request_is_a_body(server: Server, dial: Dial) -> None:
    wire = await dial(server.place)
    for _ in range(3):
        assert (await wire.ask(request(body=request()))).status == 400
    assert (await patch(wire, "4")).json()["data"] == {"k": "4"}


async def test_a_right_that_is_revoked_is_gone_with_the_next_write(server: Server, dial: Dial) -> None:
    given = cluster_role("writer", rule("patch", "configmaps"))
    binding = bind("", "writers", "ClusterRole/writer", "User/alice")
    for each in (given, binding):
        await server.send("POST", place(each), each)
    wire = await dial(server.place)
    for who, status in [("alice", 200), ("bob", 403), ("nobody", 401)] * 2:
        assert (await patch(wire, "3", who=who)).status == status
    await server.send("DELETE", f"{place(binding)}/writers")
    assert (await patch(wire, "4", who="alice")).status == 403


async def test_all_are_recorded_alike(server: Server, dial: Dial) -> None:
    wire = await dial(server.place)
    for value in "345":
        await patch(wire, value)
    await server.trail.flushed(10)
    records = lines_of(server.trail.file.path)
    assert len({record.pop("auditID") for record in records}) == 3
    for record in records:
        for moment in ("requestReceivedTimestamp", "stageTimestamp"):
            assert record.pop(moment)
    assert records[0] == records[1] == records[2]
    assert json.dumps(records[0]).count("PATCH") + json.dumps(records[0]).count("patch") >= 1


async def test_a_server_that_is_about_to_stop_says_so_here_too(server: Server, dial: Dial) -> None:
    wire = await dial(server.place)
    for value in "34":
        assert (await patch(wire, value)).header("Connection") is None
    server.place.edge.leave()
    last = await patch(wire, "5")
    assert (last.status, last.header("Connection")) == (200, "close")
    assert await wire.rest() == b""
