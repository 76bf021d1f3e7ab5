"""What ``pilothouse updates serve`` answers."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
import trustme
from tests.kit.publisher import Publisher
from tests.updates.conftest import CLOCK, Cluster
from yarl import URL

from pilothouse.updates.channel_client import NoOffer, ask_index, ask_legacy
from pilothouse.updates.cluster_facts import ClusterFacts
from pilothouse.updates.cluster_registry import MOST_CLUSTERS, ClusterRegistry
from pilothouse.updates.http_fetch import open_session
from pilothouse.updates.update_server import UpdateServer, serving_updates

VERSION = "v1.2.3+k0s.0"
PAYLOAD = "/stable/v1.2.3%2Bk0s.0/linux-amd64/program"
FACTS = ClusterFacts(cluster="u-1", version="v1.2.2", controllers=3, systems={"linux": 4, "windows": 1})


@pytest.fixture
def publisher(tmp_path: Path) -> Publisher:
    publisher = Publisher(tmp_path)
    publisher.publish(VERSION)
    return publisher


@asynccontextmanager
async def serving(folder: Path, token: str = "") -> AsyncIterator[tuple[UpdateServer, str]]:
    server = UpdateServer(folder, CLOCK, token=token)
    async with serving_updates(server, "127.0.0.1", 0) as port:
        yield server, f"http://127.0.0.1:{port}"


async def get(url: str, method: str = "GET", **headers: str) -> tuple[int, bytes, dict[str, str]]:
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, URL(url, encoded=True), headers=headers) as response,
    ):
        return response.status, await response.read(), dict(response.headers)


async def test_both_forms_of_a_channel_are_served(publisher: Publisher) -> None:
    async with serving(publisher.folder) as (_, url), open_session() as session:
        index = await ask_index(session, url, "stable", FACTS, "")
        older = await ask_legacy(session, url, "stable", FACTS, "", "Completed")
    assert index.version == older.version == VERSION
    for offer in (index, older):
        (download,) = offer.downloads
        assert download.k0s is not None
        assert download.k0s.url == f"{url}{PAYLOAD}"


async def test_payloads_and_signatures_are_served_with_ranges(publisher: Publisher) -> None:
    content = publisher.payload(VERSION).read_bytes()
    async with serving(publisher.folder) as (_, url):
        assert (await get(f"{url}{PAYLOAD}"))[:2] == (200, content)
        status, part, headers = await get(f"{url}{PAYLOAD}", Range="bytes=5-9")
        assert (status, part) == (206, content[5:10])
        assert headers["Content-Range"] == f"bytes 5-9/{len(content)}"
        assert (await get(f"{url}{PAYLOAD}", Range="bytes=99999-"))[0] == 416
        status, body, headers = await get(f"{url}{PAYLOAD}", "HEAD")
        assert (status, body, headers["Content-Length"]) == (200, b"", str(len(content)))
        assert b"trusted comment: version:v1.2.3+k0s.0" in (await get(f"{url}{PAYLOAD}.minisig"))[1]
        assert (await get(f"{url}/stable/metadata/timestamp.json"))[0] == 200


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/none",
        "/stable/",
        "/stable/v1.2.3%2Bk0s.0",
        "/stable/.lock",
        "/../keys/root.pem",
        "/%2e%2e/keys/root.pem",
        "/stable/..%2f..%2fkeys%2froot.pem",
        "/stable/%00",
        "/link",
        "/clusters",
        "//etc/passwd",
    ],
)
async def test_nothing_else_is_served(publisher: Publisher, path: str) -> None:
    (publisher.folder / "link").symlink_to(publisher.keys.folder / "root.pem")
    async with serving(publisher.folder) as (_, url):
        status, body, _ = await get(f"{url}{path}")
    assert status in (400, 404)
    assert b"PRIVATE" not in body


async def test_files_that_others_may_not_read_are_not_served(publisher: Publisher) -> None:
    key = publisher.folder / "keys" / "release.key"
    key.parent.mkdir()
    key.write_text("PRIVATE")
    async with serving(publisher.folder) as (_, url):
        for mode, status in ((0o600, 404), (0o640, 404), (0o644, 200)):
            key.chmod(mode)
            assert (await get(f"{url}/keys/release.key"))[0] == status
        (publisher.folder / "stable" / "index.yaml").chmod(0o600)
        assert (await get(f"{url}/stable"))[0] == 404


@pytest.mark.parametrize("suffix", ["gz", "br"])
async def test_no_file_is_served_in_the_place_of_another(publisher: Publisher, suffix: str) -> None:
    notes = publisher.folder / "notes"
    notes.write_text("PUBLIC")
    notes.chmod(0o644)
    key = publisher.folder / f"notes.{suffix}"
    key.write_text("PRIVATE")
    key.chmod(0o600)
    async with serving(publisher.folder) as (_, url):
        given = {"Accept-Encoding": "gzip, br", "Range": "bytes=3-5"}
        _, body, headers = await get(f"{url}/notes", **given)
    assert body == b"LIC"
    assert "Content-Encoding" not in headers


async def test_nothing_can_be_written(publisher: Publisher) -> None:
    async with serving(publisher.folder) as (_, url):
        for method in ("PUT", "POST", "DELETE"):
            assert (await get(f"{url}/stable/index.yaml", method))[0] == 405
    assert (publisher.folder / "stable" / "index.yaml").exists()


async def test_with_a_token_every_request_needs_it(publisher: Publisher) -> None:
    async with serving(publisher.folder, "s3cret") as (_, url):
        for path in ("/stable/index.yaml", "/stable", PAYLOAD, "/clusters", "/none"):
            for given in ("", "Bearer", "Bearer wrong", "Basic s3cret", "Bearer s3cret2"):
                status, body, headers = await get(f"{url}{path}", Authorization=given)
                assert (status, headers["WWW-Authenticate"]) == (401, "Bearer")
                assert b"s3cret" not in body
        for path in ("/stable/index.yaml", "/stable", PAYLOAD, "/clusters"):
            assert (await get(f"{url}{path}", Authorization="Bearer s3cret"))[0] == 200


async def test_it_says_which_clusters_run_what(
    publisher: Publisher, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with serving(publisher.folder, "s3cret") as (_, url), open_session() as session:
        await ask_index(session, url, "stable", FACTS, "s3cret")
        await ask_index(session, url, "stable", FACTS, "s3cret")
        other = ClusterFacts(cluster="u-0", version="v1.2.3")
        await ask_legacy(session, url, "stable", other, "s3cret", "")
        _, body, _ = await get(f"{url}/clusters", Authorization="Bearer s3cret")
    first, second = json.loads(body)["clusters"]
    assert (first["cluster"], first["version"], first["workers"]) == ("u-0", "v1.2.3", 0)
    assert (second["cluster"], second["version"], second["channel"]) == ("u-1", "v1.2.2", "stable")
    assert (second["controllers"], second["workers"]) == (3, 5)
    said = [record.message for record in caplog.records if "u-1" in record.message]
    assert said == ["cluster u-1 follows stable and runs v1.2.2: 3 controllers, 5 workers"]


def test_what_clusters_say_is_taken_with_care() -> None:
    log = ClusterRegistry(CLOCK)
    log.note("stable", {"K0S_ClusterID": "kube-system:x\ny" + "z" * 999, "K0S_WorkerData": "!!"}, {})
    log.note("stable", {"K0S_ClusterID": "kube-system:"}, {})
    log.note("stable", {}, {})
    (report,) = log.clusters()
    assert len(report.cluster) < 101
    assert report.cluster.startswith("x?y")
    for number in range(MOST_CLUSTERS + 5):
        log.note("stable", {}, {"clusterID": f"c{number}", "currentVersion": "v1"})
    assert len(log.clusters()) == MOST_CLUSTERS


@asynccontextmanager
async def serving_https(publisher: Publisher, folder: Path) -> AsyncIterator[int]:
    """The port; the CA is in the file ``ca`` of a folder."""
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    certificate.cert_chain_pems[0].write_to_path(folder / "crt")
    certificate.private_key_pem.write_to_path(folder / "key")
    authority.cert_pem.write_to_path(folder / "ca")
    ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ours.load_cert_chain(folder / "crt", folder / "key")
    async with serving_updates(UpdateServer(publisher.folder, CLOCK), "127.0.0.1", 0, ours) as port:
        yield port


async def test_it_serves_https(publisher: Publisher, tmp_path: Path) -> None:
    async with (
        serving_https(publisher, tmp_path) as port,
        open_session({f"127.0.0.1:{port}": tmp_path / "ca"}) as session,
    ):
        offer = await ask_index(session, f"https://127.0.0.1:{port}", "stable", FACTS, "")
        assert offer.version == VERSION


async def test_the_authority_of_one_host_is_not_that_of_another(publisher: Publisher, tmp_path: Path) -> None:
    async with (
        serving_https(publisher, tmp_path) as port,
        open_session({"localhost": tmp_path / "ca"}) as session,
    ):
        with pytest.raises(NoOffer, match="certificate verify failed"):
            await ask_index(session, f"https://127.0.0.1:{port}", "stable", FACTS, "")


@pytest.mark.parametrize(
    ("content", "said"),
    [("no certificate", "the certificates can't be used"), (None, "ca can't be read: No such file")],
)
async def test_an_authority_that_is_none_is_reported(
    publisher: Publisher, tmp_path: Path, content: str | None, said: str
) -> None:
    async with (
        serving_https(publisher, tmp_path) as port,
        open_session({"127.0.0.1": tmp_path / "ca"}) as session,
    ):
        (tmp_path / "ca").unlink()
        if content is not None:
            (tmp_path / "ca").write_text(content)
        with pytest.raises(NoOffer, match=said):
            await ask_index(session, f"https://127.0.0.1:{port}", "stable", FACTS, "")


async def test_a_cluster_follows_a_trusted_channel_of_it(publisher: Publisher, cluster: Cluster) -> None:
    async with serving(publisher.folder) as (server, url):
        await cluster.follow(url, trustedRoot=publisher.root)
        answer = await cluster.answer(1)
    assert (answer.get("message", ""), answer["version"]) == ("", VERSION)
    assert [report.channel for report in server.clusters.clusters()] == ["stable"]
