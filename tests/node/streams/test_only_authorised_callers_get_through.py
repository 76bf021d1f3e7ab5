from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from tests.kit.kubectl import Kubectl, newest
from tests.kit.stream_node import NAME, Plane, StreamNode
from tests.kit.waiting import eventually

from pilothouse.api.kind_names import Node, Pod
from pilothouse.apiserver.registry.node_client import harmless
from pilothouse.base.clock import SystemClock
from pilothouse.node.server.serving_certificate import ServingCertificate


@pytest.fixture
def kubectl(plane: Plane, tmp_path_factory: pytest.TempPathFactory) -> Kubectl:
    home = tmp_path_factory.getbasetemp() / "kubectl-newest"
    return Kubectl(newest(), plane.server.target.kubeconfig, home)


@pytest.fixture
async def bare(plane: Plane) -> AsyncIterator[aiohttp.ClientSession]:
    """Somebody who calls the node itself, and shows no certificate."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)) as session:
        yield session


async def test_who_may_only_look_reads_logs_and_runs_nothing(kubectl: Kubectl, node: StreamNode) -> None:
    (await kubectl("create", "rolebinding", "looks", "--clusterrole=view", "--user=vera")).ok()
    container = await node.start("web", "echo seen")
    await container.exited()
    assert (await kubectl("--as", "vera", "logs", "web")).ok() == "seen\n"
    refused = await kubectl("--as", "vera", "exec", "web", "--", "true")
    assert refused.code == 1
    assert 'User "vera" cannot' in refused.err
    assert 'resource "pods/exec"' in refused.err
    stranger = await kubectl("--as", "stranger", "logs", "web")
    assert "Forbidden" in stranger.err


async def test_arguments_of_any_length_that_the_api_server_takes_get_through(
    kubectl: Kubectl, node: StreamNode
) -> None:
    await node.start("web", "sleep 1000")
    argument = "ä" * 9000
    assert (await kubectl("exec", "web", "--", "echo", argument)).ok() == f"{argument}\n"


async def test_the_node_itself_asks_who_calls(bare: aiohttp.ClientSession, node: StreamNode) -> None:
    async with bare.get(f"https://127.0.0.1:{node.port}/pods") as answer:
        assert answer.status == 401
    async with bare.get(f"https://127.0.0.1:{node.port}/healthz") as answer:
        assert (answer.status, await answer.text()) == (200, "ok")


@pytest.mark.parametrize(
    ("path", "verb"),
    [
        ("pods", "get"),
        ("containerLogs/default/web/main", "get"),
        ("exec/default/web/main", "create"),
        ("nowhere", "get"),
    ],
)
async def test_a_token_alone_opens_nothing(
    bare: aiohttp.ClientSession, node: StreamNode, path: str, verb: str
) -> None:
    headers = {"Authorization": "Bearer alice-token"}
    async with bare.get(f"https://127.0.0.1:{node.port}/{path}", headers=headers) as answer:
        assert answer.status == 403
        assert f"alice may not {verb} nodes/proxy of {NAME}" in await answer.text()
    headers = {"Authorization": "Bearer made-up"}
    async with bare.get(f"https://127.0.0.1:{node.port}/{path}", headers=headers) as answer:
        assert answer.status == 401


async def test_whom_the_api_server_lets_may_ask_the_node(plane: Plane, node: StreamNode) -> None:
    await node.start("web", "sleep 1000")
    trust = plane.server.target.trust()
    trust.check_hostname = False
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"https://127.0.0.1:{node.port}/pods", ssl=trust, server_hostname="whoever") as answer,
    ):
        assert [pod["metadata"]["name"] for pod in (await answer.json())["items"]] == ["web"]


async def test_another_nodes_certificate_opens_nothing(plane: Plane, node: StreamNode) -> None:
    """Its own included: a node is no reader of nodes."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    keys = plane.node_kubeconfig.parent / "pki"
    context.load_cert_chain(keys / "node.crt", keys / "node.key")
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"https://127.0.0.1:{node.port}/pods", ssl=context) as answer,
    ):
        assert answer.status == 403


async def test_whoever_answers_in_a_nodes_place_is_found_out(
    kubectl: Kubectl, node: StreamNode, tmp_path: Path
) -> None:
    await node.start("web", "sleep 1000")
    impostor = ServingCertificate(
        tmp_path, NAME, ["127.0.0.1"], node.api, SystemClock(), authorities=b""
    ).context()
    heard: list[bytes] = []

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.read(1000))
        writer.close()

    async with await asyncio.start_server(listen, "127.0.0.1", 0, ssl=impostor) as server:
        port = server.sockets[0].getsockname()[1]
        await _listens_at(node, port)
        refused = await kubectl("logs", "web")
        assert refused.code == 1
        assert f"node {NAME} can't be reached at 127.0.0.1:{port}: " in refused.err
        assert "CERTIFICATE_VERIFY_FAILED" in refused.err
        refused = await kubectl("exec", "web", "--", "true")
        assert "CERTIFICATE_VERIFY_FAILED" in refused.err
    assert b"".join(heard) == b""


async def test_a_node_that_is_away_is_named(kubectl: Kubectl, node: StreamNode) -> None:
    await node.start("web", "sleep 1000")
    await _listens_at(node, 1)
    for command in (("logs", "web"), ("exec", "web", "--", "true"), ("attach", "web")):
        refused = await kubectl(*command)
        assert refused.code == 1
        assert f"node {NAME} can't be reached at 127.0.0.1:1: " in refused.err


async def test_what_was_run_is_on_record(kubectl: Kubectl, node: StreamNode, plane: Plane) -> None:
    await node.start("web", "sleep 1000")
    (await kubectl("exec", "web", "--", "echo", "on-the-record")).ok()
    log = plane.server.audit_log

    async def recorded() -> list[str]:
        lines = await asyncio.to_thread(log.read_text)
        return [line for line in lines.splitlines() if "on-the-record" in line and "ResponseComplete" in line]

    (line, *_) = await eventually(recorded)
    assert '"subresource":"exec"' in line
    assert '"code":101' in line


async def test_a_pod_without_a_node_has_no_log_and_runs_nothing(kubectl: Kubectl, node: StreamNode) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "waiting", "namespace": "default"},
        "spec": {
            "automountServiceAccountToken": False,
            "schedulingGates": [{"name": "example.com/wait"}],
            "containers": [{"name": "main", "image": "host/sh"}, {"name": "other", "image": "host/sh"}],
        },
    }
    await node.api.create(Pod, body)
    assert (await kubectl("logs", "waiting", "-c", "main")).ok() == ""
    refused = await kubectl("exec", "waiting", "-c", "main", "--", "true")
    assert "pod waiting does not have a host assigned" in refused.err


async def _listens_at(node: StreamNode, port: int) -> None:
    status = {"daemonEndpoints": {"kubeletEndpoint": {"Port": port}}}
    await node.api.patch(Node, NAME, "", {"status": status}, subresource="status")


@pytest.mark.parametrize(
    ("origin", "status"), [("https://evil.example", 403), ("null", 403), ("https://{host}", 101), ("", 101)]
)
async def test_pages_of_other_sites_run_nothing(
    plane: Plane, node: StreamNode, origin: str, status: int
) -> None:
    await node.start("web", "sleep 1000")
    host = plane.server.target.url.removeprefix("https://")
    headers = {"Origin": origin.format(host=host)} if origin else {}
    url = f"https://{host}/api/v1/namespaces/default/pods/web/exec?stdout=1&command=true"
    async with aiohttp.ClientSession() as session:
        try:
            async with session.ws_connect(
                url, protocols=["v4.channel.k8s.io"], headers=headers, ssl=plane.server.target.trust()
            ) as socket:
                assert socket.protocol == "v4.channel.k8s.io"
                found = 101
        except aiohttp.WSServerHandshakeError as refused:
            found = refused.status
    assert found == status


@pytest.mark.parametrize(
    ("said", "passed_on"),
    [
        ("text/plain; charset=utf-8", "text/plain; charset=utf-8"),
        ("application/json", "application/json"),
        ("text/html", "application/octet-stream"),
        ("image/svg+xml", "application/octet-stream"),
    ],
)
def test_a_node_has_no_browser_show_its_pages(said: str, passed_on: str) -> None:
    assert harmless(said) == passed_on
