"""TLS with client certificates, and etcd's own users."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
import uvloop
from tests.kit.etcd import EtcdServer
from tests.store.following import brief, collect

from pilothouse.store.etcd import EtcdStore, Tls
from pilothouse.store.factory import EtcdOptions, StoreOptions, opened
from pilothouse.store.interface import StoreError, Unavailable

pytestmark = pytest.mark.etcd


class Papers:
    """A CA, and PEM files signed by it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        authority = trustme.CA()
        server = authority.issue_cert("127.0.0.1", "localhost")
        client = authority.issue_cert("client@pilothouse")
        self.ca = folder / "ca.pem"
        self.server_cert, self.server_key = folder / "server.pem", folder / "server.key"
        self.client_cert, self.client_key = folder / "client.pem", folder / "client.key"
        authority.cert_pem.write_to_path(self.ca)
        for issued, cert, key in (
            (server, self.server_cert, self.server_key),
            (client, self.client_cert, self.client_key),
        ):
            issued.cert_chain_pems[0].write_to_path(cert)
            issued.private_key_pem.write_to_path(key)

    def tls(self) -> Tls:
        return Tls(
            ca=self.ca.read_bytes(), cert=self.client_cert.read_bytes(), key=self.client_key.read_bytes()
        )


@pytest.fixture
def papers(tmp_path: Path) -> Papers:
    return Papers(tmp_path / "papers")


@pytest.fixture
def server(tmp_path: Path, papers: Papers) -> Iterator[EtcdServer]:
    options = {
        "cert-file": str(papers.server_cert),
        "key-file": str(papers.server_key),
        "trusted-ca-file": str(papers.ca),
        "client-cert-auth": "true",
    }
    made = EtcdServer.start(tmp_path / "etcd", options=options, tls=True)
    yield made
    made.stop()


async def test_a_client_with_a_certificate_is_let_in(server: EtcdServer, papers: Papers) -> None:
    store = await EtcdStore.open([server.endpoint], tls=papers.tls())
    revision = await store.create("/a", b"1")
    async with store.watch("/a", after=revision - 1) as batches:
        assert brief(await collect(batches, 1)) == [("/a", b"1")]
    await store.close()


async def test_the_options_name_the_files(server: EtcdServer, papers: Papers) -> None:
    options = StoreOptions(
        kind="etcd",
        etcd=EtcdOptions(
            servers=(server.endpoint,),
            ca_file=papers.ca,
            cert_file=papers.client_cert,
            key_file=papers.client_key,
        ),
    )
    async with opened(options) as store:
        await store.create("/a", b"1")
        assert await store.get("/a") is not None


def test_it_is_the_same_on_the_loop_that_the_api_server_runs_on(server: EtcdServer, papers: Papers) -> None:
    """uvloop's transports and its TLS are not asyncio's."""

    async def write_and_watch() -> tuple[list[bytes | None], list[bytes]]:
        store = await EtcdStore.open([server.endpoint], tls=papers.tls())
        start = await store.revision()
        values = [bytes([65 + n]) * 300_000 for n in range(8)]
        async with store.watch("/a/", after=start) as batches:
            for n, value in enumerate(values):
                await store.create(f"/a/{n}", value)
            seen = [value for _, value in brief(await collect(batches, len(values)))]
        stored = [entry.value for entry in (await store.list("/a/")).entries]
        await store.close()
        return seen, stored

    seen, stored = uvloop.run(write_and_watch())
    assert seen == stored == [bytes([65 + n]) * 300_000 for n in range(8)]


async def test_a_client_without_a_certificate_is_kept_out(server: EtcdServer, papers: Papers) -> None:
    with pytest.raises(Unavailable):
        await EtcdStore.open([server.endpoint], tls=Tls(ca=papers.ca.read_bytes()), timeout=1)


async def test_a_server_of_another_authority_is_not_trusted(server: EtcdServer, tmp_path: Path) -> None:
    stranger = Papers(tmp_path / "stranger")
    with pytest.raises(Unavailable):
        await EtcdStore.open([server.endpoint], tls=stranger.tls(), timeout=1)


async def test_half_a_certificate_is_refused(papers: Papers) -> None:
    options = StoreOptions(
        kind="etcd", etcd=EtcdOptions(servers=("https://127.0.0.1:1",), cert_file=papers.client_cert)
    )
    with pytest.raises(StoreError, match="key file"):
        async with opened(options):
            pass


async def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    options = StoreOptions(
        kind="etcd", etcd=EtcdOptions(servers=("https://127.0.0.1:1",), ca_file=tmp_path / "no.pem")
    )
    with pytest.raises(StoreError, match=r"no\.pem"):
        async with opened(options):
            pass
