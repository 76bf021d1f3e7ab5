"""A pilot and its node where security is asked for: encrypted, with the password of the Secret; and refused where there is none to be had."""

from __future__ import annotations

import asyncio
import base64
import datetime
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pilothouse.pilot.driver import DesiredState, HookFailed, InstanceEnvironment
from pilothouse.pilot.drivers.elasticsearch.elasticsearch_driver import Elasticsearch
from pilothouse.pilot.drivers.elasticsearch.node_client import ElasticsearchClient, NodeRequestFailed
from pilothouse.pilot.drivers.elasticsearch.tls_and_users import MountedSecrets, ssl_settings
from pilothouse.pki.authority import Authority

PASSWORD = "sesame"


def mounted(folder: Path, *, password: str = PASSWORD) -> MountedSecrets:
    """What a pod is given."""
    now = datetime.datetime.now(datetime.UTC)
    authority = Authority.make("the authority", now)
    own = authority.peer("node", ["es-demo.default.svc"], now)
    files = {"ca.crt": authority.certificate, "tls.crt": own.certificate, "tls.key": own.key}
    secrets = MountedSecrets(folder / "certificates", folder / "users")
    for path, content in ((secrets.certificates, files), (secrets.users, {"elastic": password.encode()})):
        path.mkdir(parents=True)
        for name, data in content.items():
            (path / name).write_bytes(data)
    return secrets


@asynccontextmanager
async def a_node(secrets: MountedSecrets) -> AsyncIterator[int]:
    """One that answers whoever knows the password; its port."""
    known = base64.b64encode(f"elastic:{PASSWORD}".encode())

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        line, body = (b"200 OK", b'{"name":"it"}') if known in head else (b"401 Unauthorized", b"{}")
        writer.write(
            b"HTTP/1.1 %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (line, len(body), body)
        )
        await writer.drain()
        writer.close()

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(secrets.certificates / "tls.crt", secrets.certificates / "tls.key")
    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def test_it_is_asked_with_the_password_and_trusted_by_its_authority(tmp_path: Path) -> None:
    secrets = mounted(tmp_path)
    async with a_node(secrets) as port:
        assert await ElasticsearchClient("127.0.0.1", port, secrets=secrets).get("/") == {"name": "it"}


async def test_a_password_that_is_not_taken_is_told_with_what_to_do(tmp_path: Path) -> None:
    secrets = mounted(tmp_path)
    async with a_node(secrets) as port:
        (secrets.users / "elastic").write_text("another")
        node = ElasticsearchClient("127.0.0.1", port, secrets=secrets)
        with pytest.raises(NodeRequestFailed, match="rejects the password of elastic") as refused:
            await node.get("/")
        assert refused.value.code == 401
        (secrets.users / "elastic").write_text(f"{PASSWORD}\n")
        assert await node.get("/") == {"name": "it"}, "what the Secret says by then counts"


async def test_a_node_of_another_authority_is_told_nothing(tmp_path: Path) -> None:
    async with a_node(mounted(tmp_path / "theirs")) as port:
        node = ElasticsearchClient("127.0.0.1", port, secrets=mounted(tmp_path / "ours"))
        with pytest.raises(NodeRequestFailed, match="certificate verify failed"):
            await node.get("/")


def test_certificates_are_copied_where_the_node_reads_them_for_nobody_else(tmp_path: Path) -> None:
    configuration = tmp_path / "config"
    configuration.mkdir()
    secrets = mounted(tmp_path)
    secrets.take_up(configuration)
    secrets.take_up(configuration)
    for setting, value in ssl_settings().items():
        if setting.endswith((".key", ".certificate")):
            assert (configuration / value).stat().st_mode & 0o777 == 0o600
    (secrets.certificates / "tls.key").unlink()
    with pytest.raises(HookFailed, match=r"tls\.key"):
        secrets.take_up(configuration)


async def test_a_distribution_without_security_is_not_started_open(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "lib").mkdir(parents=True)
    (home / "lib" / "elasticsearch-8.17.0.jar").touch()
    driver = Elasticsearch(
        InstanceEnvironment("a", "b", "127.0.0.1", tmp_path / "data", {"ES_HOME": str(home)})
    )
    desired = DesiredState(1, "h", {"configuration": {"settings": {"xpack.security.enabled": True}}})
    preflight = driver.hooks("PreStart", desired)[0]
    with pytest.raises(HookFailed, match="has none") as refused:
        await preflight.run()
    assert refused.value.status == {"security": "Absent"}
