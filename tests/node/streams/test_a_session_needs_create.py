"""Who may only read runs nothing: a session in a container needs ``create``, although a WebSocket begins with a GET."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator

import aiohttp
import pytest
from tests.kit.kubectl import Kubectl, newest
from tests.kit.stream_node import NAME, Plane, StreamNode
from yarl import URL

from pilothouse.api.kind_names import ClusterRole, ClusterRoleBinding
from pilothouse.api.kubernetes.kubelet_paths import opens_session, subresource_of
from pilothouse.base.clock import SystemClock
from pilothouse.node.server.caller_authorization import Caller, CallerAuthorizer

RBAC = "rbac.authorization.k8s.io"
TOKENS = {"alice": "alice-token", "bob": "bob-token"}
PROTOCOLS = ["v5.channel.k8s.io", "v4.channel.k8s.io"]


@pytest.fixture
def kubectl(plane: Plane, tmp_path_factory: pytest.TempPathFactory) -> Kubectl:
    home = tmp_path_factory.getbasetemp() / "kubectl-newest"
    return Kubectl(newest(), plane.server.target.kubeconfig, home)


@pytest.fixture
async def web(node: StreamNode) -> AsyncIterator[StreamNode]:
    """A pod to attack, a reader (alice) and somebody who may run programs (bob), by the same resources."""
    await node.start("web", "sleep 1000")
    resources = ["nodes/proxy", "pods/exec", "pods/attach", "pods/portforward", "pods"]
    for user, verbs in (("alice", ["get", "list", "watch"]), ("bob", ["create"])):
        rules = [{"apiGroups": [""], "resources": resources, "verbs": verbs}]
        rules.append({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]})
        await node.api.create(ClusterRole, {"metadata": {"name": f"sessions-{user}"}, "rules": rules})
        await node.api.create(
            ClusterRoleBinding,
            {
                "metadata": {"name": f"sessions-{user}"},
                "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": f"sessions-{user}"},
                "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user}],
            },
        )
    try:
        yield node
    finally:
        for user in TOKENS:
            await node.api.delete(ClusterRoleBinding, f"sessions-{user}")
            await node.api.delete(ClusterRole, f"sessions-{user}")


async def _upgrade(url: str, user: str, trust: ssl.SSLContext) -> tuple[int, str]:
    """The status of a request for a WebSocket, and what a program that ran wrote."""
    headers = {"Authorization": f"Bearer {TOKENS[user]}"}
    async with aiohttp.ClientSession() as session:
        try:
            async with session.ws_connect(url, protocols=PROTOCOLS, headers=headers, ssl=trust) as socket:
                written = [each.data async for each in socket if each.type == aiohttp.WSMsgType.BINARY]
                return 101, b"".join(each[1:] for each in written if each[:1] == b"\1").decode()
        except aiohttp.WSServerHandshakeError as refused:
            return refused.status, ""


def _anyone() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _bearer_only(plane: Plane) -> ssl.SSLContext:
    """Trusts the API server, and shows no certificate."""
    return ssl.create_default_context(cafile=str(plane.server.target.access.ca))


@pytest.mark.parametrize(
    "path",
    [
        "exec/default/web/main",
        "exec/default/web/some-uid/main",
        "attach/default/web/main",
        "%65xec/default/web/main",
        "metrics/../exec/default/web/main",
        "pods/%2e%2e/exec/default/web/main",
        "/exec/default/web/main",
        "run/default/web/main",
        "portForward/default/web",
    ],
)
async def test_who_may_get_nodes_proxy_runs_nothing_at_the_node(web: StreamNode, path: str) -> None:
    headers = {
        "Authorization": "Bearer alice-token",
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Protocol": "v4.channel.k8s.io",
    }
    url = URL(f"https://127.0.0.1:{web.port}/{path}?output=1&command=id", encoded=True)
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=_anyone())) as session,
        session.get(url, headers=headers) as answer,
    ):
        assert answer.status == 403
        assert "alice may not create nodes/proxy" in await answer.text()


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "HEAD", "OPTIONS", "DELETE"])
async def test_no_http_method_is_a_way_around(web: StreamNode, method: str) -> None:
    callers = CallerAuthorizer(web.api, NAME, SystemClock())
    alice = Caller("alice", groups=("system:authenticated",))
    assert "may not create nodes/proxy" in await callers.why_not(alice, method, "/exec/default/web/main")
    assert await callers.why_not(Caller("bob"), method, "/exec/default/web/main") == ""


async def test_who_may_get_nodes_proxy_still_reads(web: StreamNode) -> None:
    headers = {"Authorization": "Bearer alice-token"}
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=_anyone())) as session,
        session.get(f"https://127.0.0.1:{web.port}/pods", headers=headers) as answer,
    ):
        assert [pod["metadata"]["name"] for pod in (await answer.json())["items"]] == ["web"]


async def test_who_may_create_nodes_proxy_runs_programs_at_the_node(web: StreamNode) -> None:
    url = f"https://127.0.0.1:{web.port}/exec/default/web/main?output=1&command=echo&command=ran"
    assert await _upgrade(url, "bob", _anyone()) == (101, "ran\n")
    assert await _upgrade(url, "alice", _anyone()) == (403, "")


@pytest.mark.parametrize("subresource", ["exec", "attach", "portforward"])
async def test_who_may_get_pods_exec_runs_nothing_through_the_api_server(
    plane: Plane, web: StreamNode, subresource: str
) -> None:
    url = f"{plane.server.target.url}/api/v1/namespaces/default/pods/web/{subresource}?stdout=1&command=id"
    headers = {"Authorization": "Bearer alice-token"}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=_bearer_only(plane))) as session:
        for method in ("GET", "HEAD", "POST"):
            async with session.request(method, url, headers=headers) as answer:
                assert answer.status == 403
        async with session.get(url, headers=headers) as answer:
            message = (await answer.json())["message"]
    assert f'User "alice" cannot create resource "pods/{subresource}"' in message
    assert "needs the verb create, whatever the HTTP method; get is not enough" in message
    assert (await _upgrade(url, "alice", _bearer_only(plane)))[0] == 403


async def test_who_may_create_pods_exec_needs_no_get(plane: Plane, web: StreamNode) -> None:
    url = (
        f"{plane.server.target.url}/api/v1/namespaces/default/pods/web/exec?stdout=1&command=echo&command=ran"
    )
    assert await _upgrade(url, "bob", _bearer_only(plane)) == (101, "ran\n")


async def test_kubectl_runs_programs_with_create_alone(kubectl: Kubectl, web: StreamNode) -> None:
    assert (await kubectl("--as", "bob", "exec", "web", "--", "echo", "ran")).ok() == "ran\n"
    refused = await kubectl("--as", "alice", "exec", "web", "--", "echo", "ran")
    assert refused.code == 1
    assert 'cannot create resource "pods/exec"' in refused.err


@pytest.mark.parametrize("path", ["exec/default/web/main", "%65xec/default/web/main", "attach/a/b/c"])
async def test_the_way_through_nodes_proxy_needs_create_too(plane: Plane, web: StreamNode, path: str) -> None:
    base = f"{plane.server.target.url}/api/v1/nodes/{NAME}/proxy"
    headers = {"Authorization": "Bearer alice-token"}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=_bearer_only(plane))) as session:
        url = URL(f"{base}/{path}?output=1&command=id", encoded=True)
        async with session.get(url, headers=headers) as answer:
            assert answer.status == 403
            assert 'cannot create resource "nodes/proxy"' in (await answer.json())["message"]
        async with session.get(f"{base}/pods", headers=headers) as answer:
            assert answer.status == 200


@pytest.mark.parametrize(
    ("path", "session", "subresource"),
    [
        ("/exec/a/b/c", True, "proxy"),
        ("//exec/a/b/c", True, "proxy"),
        ("/./exec/a/b/c", True, "proxy"),
        ("/metrics/../exec/a/b/c", True, "proxy"),
        ("/metrics/%2e%2e/exec/a/b/c", True, "proxy"),
        ("/metrics/%252e%252e/exec/a/b/c", True, "proxy"),
        ("/portForward/a/b", True, "proxy"),
        ("/run/a/b/c", True, "proxy"),
        ("/exec/../metrics", False, "metrics"),
        ("/execs", False, "proxy"),
        ("/containerLogs/a/exec/c", False, "proxy"),
        ("/", False, "proxy"),
    ],
)
def test_a_path_is_judged_by_where_it_leads(path: str, session: bool, subresource: str) -> None:
    assert (opens_session(path), subresource_of(path)) == (session, subresource)
