from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.client.scripted import Reply, Scripted, scripted

from pilothouse.base.clock import ManualClock
from pilothouse.client.access import Access, AccessError, Impersonation, Login
from pilothouse.client.http_transport import HttpTransport
from pilothouse.client.single_request import send_request
from pilothouse.client.transport import ClientRequest, NotSent, Transport

VERSION = ClientRequest("GET", "/version")


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Scripted]:
    async with scripted(tmp_path) as server:
        yield server


@asynccontextmanager
async def opened(access: Access, clock: ManualClock | None = None) -> AsyncIterator[Transport]:
    async with HttpTransport.open(access, clock or ManualClock(), agent="pilothouse-test/1") as transport:
        yield transport


def replace(file: Path, content: bytes) -> None:
    """As whoever rotates a file does: another file takes its name."""
    fresh = file.with_suffix(".fresh")
    fresh.write_bytes(content)
    fresh.rename(file)


async def test_a_token_file_that_changes_is_read_again(server: Scripted, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first\n")
    async with opened(server.access(token_file=file)) as transport:
        await transport.request(VERSION)
        replace(file, b"second\n")
        await transport.request(VERSION)
        file.unlink()
        await transport.request(VERSION)
    assert [asked.headers["Authorization"] for asked in server.asked] == [
        "Bearer first",
        "Bearer second",
        "Bearer second",
    ]
    assert server.asked[0].headers["User-Agent"] == "pilothouse-test/1"


async def test_a_certificate_that_is_rotated_is_shown_from_then_on(server: Scripted, tmp_path: Path) -> None:
    one, two = server.authority.client("one", group="g"), server.authority.client("two", group="g")
    cert, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    cert.write_bytes(one.cert.read_bytes())
    key.write_bytes(one.key.read_bytes())
    async with opened(server.access(certificate_file=cert, key_file=key)) as transport:
        await transport.request(VERSION)
        replace(cert, two.cert.read_bytes())
        await transport.request(VERSION)
        replace(key, two.key.read_bytes())
        await transport.request(VERSION)
    assert [asked.certified for asked in server.asked] == ["one", "one", "two"], (
        "a certificate whose key has not come yet is not used"
    )


def login(tmp_path: Path, *lifetimes: str) -> Login:
    """A program that gives a new token each time it is run."""
    program = tmp_path / "login.py"
    program.write_text(
        "import json, os, pathlib, sys\n"
        "here = pathlib.Path(sys.argv[0]).parent\n"
        "runs = here / 'runs'\n"
        "n = int(runs.read_text()) + 1 if runs.exists() else 1\n"
        "runs.write_text(str(n))\n"
        "(here / 'info').write_text(os.environ['KUBERNETES_EXEC_INFO'])\n"
        f"times = {lifetimes!r}\n"
        "status = {'token': f'{os.environ[\"PREFIX\"]}-{n}'}\n"
        "if times: status['expirationTimestamp'] = times[min(n, len(times)) - 1]\n"
        "print(json.dumps({'apiVersion': 'client.authentication.k8s.io/v1', 'kind': 'ExecCredential',"
        " 'status': status}))\n"
    )
    return Login(sys.executable, (str(program),), env={"PREFIX": "token"}, cluster_info=True)


async def test_a_login_is_kept_until_it_expires(server: Scripted, tmp_path: Path) -> None:
    clock = ManualClock()
    access = server.access(login=login(tmp_path, "1970-01-01T00:10:00Z", "1970-01-01T00:30:00Z"))
    async with opened(access, clock) as transport:
        for seconds in (0, 500, 95):
            clock.advance(seconds)
            await transport.request(VERSION)
    tokens = [asked.headers["Authorization"] for asked in server.asked]
    assert tokens == ["Bearer token-1", "Bearer token-1", "Bearer token-2"]
    info = json.loads((tmp_path / "info").read_text())
    assert info["kind"] == "ExecCredential"
    assert info["spec"]["interactive"] is False
    assert info["spec"]["cluster"]["server"] == server.url


async def test_a_login_that_the_server_refuses_is_made_anew_once(server: Scripted, tmp_path: Path) -> None:
    server.answers += [Reply(), Reply(401), Reply(), Reply(401), Reply(401)]
    async with opened(server.access(login=login(tmp_path))) as transport:
        assert [(await transport.request(VERSION)).status for _ in range(3)] == [200, 200, 401]
    tokens = [asked.headers["Authorization"] for asked in server.asked]
    assert tokens == [f"Bearer token-{n}" for n in (1, 1, 2, 2, 3)]


async def test_a_login_that_fails_says_why(server: Scripted, tmp_path: Path) -> None:
    failing = Login(sys.executable, ("-c", "import sys; sys.exit('no ticket')"))
    async with opened(server.access(login=failing)) as transport:
        with pytest.raises(AccessError, match="no ticket"):
            await transport.request(VERSION)
    missing = Login(str(tmp_path / "nothing"), hint="install it with: apt install nothing")
    async with opened(server.access(login=missing)) as transport:
        with pytest.raises(AccessError, match="apt install nothing"):
            await transport.request(VERSION)
    empty = Login(sys.executable, ("-c", "print('{}')"))
    async with opened(server.access(login=empty)) as transport:
        with pytest.raises(AccessError, match="no ExecCredential"):
            await transport.request(VERSION)


async def test_somebody_else_can_be_acted_as(server: Scripted) -> None:
    who = Impersonation("jane", groups=("dev", "ops"), extra={"example.io/team": ("a",)})
    async with opened(server.access(impersonation=who)) as transport:
        await transport.request(VERSION)
    (asked,) = server.asked
    assert asked.headers["Impersonate-User"] == "jane"
    assert asked.groups == ("dev", "ops")
    assert asked.headers["Impersonate-Extra-example.io%2Fteam"] == "a"


async def test_whom_the_authority_does_not_know_gets_nothing(server: Scripted) -> None:
    async with opened(Access(server.url, token="secret")) as transport:
        with pytest.raises(NotSent, match="certificate verify failed"):
            await transport.request(VERSION)
    assert server.asked == []
    async with opened(Access(server.url, insecure=True)) as transport:
        assert (await transport.request(VERSION)).status == 200


async def test_a_server_may_have_another_name_than_its_address(server: Scripted) -> None:
    async with opened(server.access(server_name="db.example.io")) as transport:
        with pytest.raises(NotSent, match=r"db\.example\.io"):
            await transport.request(VERSION)


async def test_a_command_logs_in_too(server: Scripted, tmp_path: Path) -> None:
    who = Impersonation("jane", groups=("dev", "ops"))
    access = server.access(login=login(tmp_path), impersonation=who, server_name="localhost")
    server.answers += [Reply(200, b"yes\n")]

    def question() -> list[bytes]:
        with send_request(access, "/page", {"a": "b"}, agent="test", patience=30) as answer:
            return list(answer)

    assert await asyncio.to_thread(question) == [b"yes\n"]
    (asked,) = server.asked
    assert (asked.path, asked.headers["Authorization"]) == ("/page?a=b", "Bearer token-1")
    assert asked.groups == ("dev", "ops")


@asynccontextmanager
async def proxy(*, refuses: bool = False) -> AsyncIterator[tuple[str, list[str]]]:
    """An HTTP proxy, and what it was asked to connect to."""
    asked: list[str] = []

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        _, where, _ = head.decode().split(" ", 2)
        asked.append(where)
        if refuses:
            writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
            writer.close()
            return
        host, _, port = where.rpartition(":")
        inner, outer = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await asyncio.gather(pump(reader, outer), pump(inner, writer), return_exceptions=True)

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with listening:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}", asked


async def test_a_proxy_is_gone_through(server: Scripted) -> None:
    async with proxy() as (url, asked):
        async with opened(server.access(proxy=url)) as transport:
            assert (await transport.request(VERSION)).status == 200

        def question() -> list[bytes]:
            with send_request(server.access(proxy=url), "/page", {}, agent="test", patience=30) as answer:
                return list(answer)

        assert await asyncio.to_thread(question) == [b"{}"]
        assert asked == [server.url.removeprefix("https://")] * 2


async def test_what_a_proxy_refuses_was_not_sent(server: Scripted) -> None:
    async with proxy(refuses=True) as (url, _), opened(server.access(proxy=url)) as transport:
        with pytest.raises(NotSent, match="403"):
            await transport.request(VERSION)
