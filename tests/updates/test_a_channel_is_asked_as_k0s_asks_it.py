"""The requests and answers of update channels, and what becomes of bad ones."""

from __future__ import annotations

import base64
import json
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.kit.channel_server import AMD64, SHA256, Answer, index, legacy, serving_channel

from pilothouse.updates.channel_client import NoOffer, ask_index, ask_legacy, authorization, channel_url
from pilothouse.updates.channel_index import LONGEST_INDEX, BadIndex, parse_offer
from pilothouse.updates.cluster_facts import ClusterFacts
from pilothouse.updates.http_fetch import FetchError, fetch, open_session

BASE = "https://updates.example.com/stable/index.yaml"
FACTS = ClusterFacts(
    cluster="u-1",
    version="v1.30.1+k0s.0",
    controllers=3,
    archs={"amd64": 2, "arm64": 1},
    systems={"linux": 3},
    runtimes={"containerd://1.7": 3},
    storage="etcd",
)


async def ask(server: str, *, channel: str = "stable", token: str = "") -> str:
    async with open_session() as session:
        return (await ask_index(session, server, channel, FACTS, token)).version


async def test_k0s_A38_the_index_is_asked_with_facts_about_the_cluster() -> None:
    with serving_channel({"/edge/v1.30/index.yaml": Answer(index("v1.30.2+k0s.0"))}) as server:
        assert await ask(f"{server.url}/", channel="edge/v1.30") == "v1.30.2+k0s.0"
    (asked,) = server.asked
    headers = asked.headers
    assert headers["K0S_ClusterID"] == "kube-system:u-1"
    assert headers["K0S_ControlPlaneNodesCount"] == "3"
    assert headers["K0S_Version"] == "v1.30.1+k0s.0"
    assert headers["K0S_StorageType"] == "etcd"
    assert headers["K0S_CNIProvider"] == "unknown"
    assert json.loads(base64.b64decode(headers["K0S_WorkerData"])) == {
        "Archs": {"amd64": 2, "arm64": 1},
        "OSes": {"linux": 3},
        "Runtimes": {"containerd://1.7": 3},
    }


async def test_k0s_A41_a_token_is_sent_if_there_is_one() -> None:
    with serving_channel({"/stable/index.yaml": Answer(index("v1.2.3"))}) as server:
        await ask(server.url, token="s3cret")
        await ask(server.url)
    assert [asked.headers["Authorization"] for asked in server.asked] == ["Bearer s3cret", None]


@pytest.mark.parametrize(
    ("status", "token", "said"),
    [
        (401, "", "wants a token: create Secret kube-system/update-server-token"),
        (401, "old", "is not accepted"),
        (500, "", "answered 500"),
        (404, "", "answered 404"),
        (204, "", "answered 204"),
    ],
)
async def test_k0s_A41_a_refusal_says_why(status: int, token: str, said: str) -> None:
    with (
        serving_channel({"/stable/index.yaml": Answer("", status)}) as server,
        pytest.raises(NoOffer, match=said),
    ):
        await ask(server.url, token=token)


async def test_a_server_that_is_not_there() -> None:
    with serving_channel() as server:
        url = server.url
    with pytest.raises(NoOffer, match="can't be reached: Connection refused"):
        await ask(url)


async def test_an_endless_answer_is_cut_off() -> None:
    body = b"x" * (LONGEST_INDEX + 1)
    with (
        serving_channel({"/stable/index.yaml": Answer(body)}) as server,
        pytest.raises(NoOffer, match=f"more than {LONGEST_INDEX} bytes"),
    ):
        await ask(server.url)


async def test_a_cut_off_answer_is_no_offer() -> None:
    answer = Answer(index("v1.2.3"), headers={"Content-Length": "100000", "Connection": "close"})
    with (
        serving_channel({"/stable/index.yaml": answer}) as server,
        pytest.raises(NoOffer, match="stable/index"),
    ):
        await ask(server.url)


async def test_a_redirect_is_followed_without_the_token_elsewhere() -> None:
    with serving_channel({"/stable/index.yaml": Answer(index("v1.2.3"))}) as other:
        away = Answer("", 302, {"Location": f"{other.url}/stable/index.yaml"})
        with serving_channel({"/stable/index.yaml": away}) as server:
            assert await ask(server.url, token="s3cret") == "v1.2.3"
    assert server.asked[0].headers["Authorization"] == "Bearer s3cret"
    assert other.asked[0].headers["Authorization"] is None
    assert other.asked[0].headers["K0S_ClusterID"] is None


async def test_a_redirect_in_a_circle_ends() -> None:
    with serving_channel({"/a": Answer("", 302, {"Location": "/a"})}) as server:
        async with open_session() as session:
            with pytest.raises(FetchError, match="more than 5 times"):
                await fetch(session, f"{server.url}/a", {})


async def test_a_redirect_to_a_file_is_refused() -> None:
    with serving_channel({"/a": Answer("", 302, {"Location": "file:///etc/passwd"})}) as server:
        async with open_session() as session:
            with pytest.raises(FetchError, match="weaker scheme"):
                await fetch(session, f"{server.url}/a", {})


def test_a_token_stays_off_plain_connections() -> None:
    with pytest.raises(NoOffer, match="use https"):
        authorization("http://updates.example.com/stable/index.yaml", "s3cret")
    assert authorization("http://updates.example.com/x", "") == {}
    for url in (
        "https://updates.example.com/x",
        "http://127.0.0.1:8080/x",
        "http://[::1]/x",
        "http://localhost/x",
    ):
        assert authorization(url, "s3cret") == {"Authorization": "Bearer s3cret"}


@pytest.mark.parametrize(
    ("server", "channel", "url"),
    [
        ("https://example.com", "foo", "https://example.com/foo/"),
        ("https://example.com/", "foo", "https://example.com/foo/"),
        ("https://example.com/a", "stable/v1.27", "https://example.com/a/stable/v1.27/"),
        ("example.com", "foo", "https://example.com/foo/"),
        ("example.com:8443", "foo", "https://example.com:8443/foo/"),
    ],
)
def test_addresses_of_channels(server: str, channel: str, url: str) -> None:
    assert channel_url(server, channel) == url


async def test_the_older_form_says_how_the_last_update_went() -> None:
    with serving_channel({"/stable": Answer(legacy("v1.2.3"))}) as server:
        async with open_session() as session:
            offer = await ask_legacy(session, f"{server.url}/path", "stable", FACTS, "t", "Completed")
    asked = urlsplit(server.asked[0].path)
    assert asked.path == "/stable"
    assert parse_qs(asked.query) == {
        "clusterID": ["u-1"],
        "lastUpdateStatus": ["Completed"],
        "currentVersion": ["v1.30.1+k0s.0"],
    }
    assert server.asked[0].headers["Authorization"] == "Bearer t"
    (download,) = offer.downloads
    assert download.k0s is not None
    assert download.airgap is not None
    assert (download.platform, download.k0s.url, download.k0s.sha256) == (
        AMD64,
        "https://dl.example.com/k0s",
        None,
    )
    assert download.airgap.url == "https://dl.example.com/k0s.tar"


def test_every_platform_is_listed_with_its_hashes() -> None:
    text = index("v1.2.3", "linux-arm64", AMD64, airgap="https://dl.example.com/bundle")
    offer = parse_offer(text.encode(), BASE)
    assert [download.platform for download in offer.downloads] == [AMD64, "linux-arm64"]
    first = offer.downloads[0]
    assert first.k0s is not None
    assert first.airgap is not None
    assert (first.k0s.url, first.k0s.sha256) == ("https://dl.example.com/k0s-v1.2.3-amd64", SHA256)
    assert (first.airgap.url, first.airgap.sha256) == ("https://dl.example.com/bundle-amd64", SHA256)


def test_keys_are_matched_in_any_case_and_versions_stay_text() -> None:
    text = "VERSION: 1.30\ndownloadurls:\n- {OS: linux, Arch: amd64, K0S: 'https://x/y'}\n"
    offer = parse_offer(text.encode(), BASE)
    assert offer.version == "1.30"
    assert offer.downloads[0].platform == AMD64


def test_addresses_may_be_relative_to_the_index() -> None:
    text = "version: v1\ndownloadURLs:\n- {os: linux, arch: amd64, k0s: v1/k0s%2B1, k0sSha256: ''}\n"
    download = parse_offer(text.encode(), BASE).downloads[0]
    assert download.k0s is not None
    assert download.k0s.url == "https://updates.example.com/stable/v1/k0s%2B1"


GOOD = "{os: linux, arch: amd64, k0s: 'https://x/y'}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not a mapping"),
        ("<html>sorry</html>", "not a mapping"),
        ("\0\1\2", "not YAML"),
        ("a: [", "not YAML"),
        ("[" * 100_000, "not YAML"),
        ("version: v1", "no downloadURLs"),
        ("version: v1\ndownloadURLs: text", "no downloadURLs"),
        ("downloadURLs: []", "names no version"),
        ("version: [v1]\ndownloadURLs: []", "names no version"),
        ("version: latest\ndownloadURLs: []", "a version that is none"),
        (f"version: v1\ndownloadURLs: [{GOOD}, {GOOD}]", "a platform twice"),
        ("version: v1\ndownloadURLs: [text]", "not a mapping"),
        ("version: v1\ndownloadURLs: [{os: linux, k0s: 'https://x/y'}]", "not a platform"),
        ("version: v1\ndownloadURLs: [{os: ../x, arch: amd64}]", "not a platform"),
        ("version: v1\ndownloadURLs: [{os: linux, arch: amd64, k0s: 'file:///etc/passwd'}]", "http or https"),
        ("version: v1\ndownloadURLs: [{os: linux, arch: amd64, k0s: [x]}]", "is not text"),
        ("version: v1\ndownloadURLs: [{os: linux, arch: amd64, k0s: 'https://[x'}]", "can't be used"),
        (
            "version: v1\ndownloadURLs: [{os: linux, arch: amd64, k0s: 'https://u:p@h/x'}]",
            "^the URL of linux-amd64 can't be used: must not have a user",
        ),
        ("version: v1\ndownloadURLs: [{os: linux, arch: amd64, k0s: x, k0sSha256: zz}]", "64 hexadecimal"),
        (f"version: v1\ndownloadURLs: [{', '.join([GOOD] * 65)}]", "65 platforms"),
        ("version: v1\ndownloadURLs: {k0s: [x]}", "not a mapping"),
    ],
)  # fmt: skip
def test_garbage_is_no_offer_and_says_why(text: str, said: str) -> None:
    with pytest.raises(BadIndex, match=said):
        parse_offer(text.encode(), BASE)
