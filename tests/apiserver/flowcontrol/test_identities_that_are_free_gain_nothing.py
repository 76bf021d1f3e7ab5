"""Whoever may edit one namespace makes accounts, pods and tokens as it likes; whoever has nothing at all is anonymous."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.apiserver.server.behind_an_edge import Server
from tests.apiserver.server.conftest import server
from tests.apiserver.server.wire import Dial
from tests.kit.core import CoreServer
from tests.kit.waiting import eventually

from pilothouse.apiserver.flowcontrol.fair_queuing import FlowController, PriorityLevel, class_of
from pilothouse.apiserver.server.messages import Request, User
from pilothouse.meta.errors import StatusError

__all__ = ["server"]

POD = {"containers": [{"name": "c", "image": "host/sh"}]}
LEASE = "/apis/coordination.k8s.io/v1/namespaces/a/leases/x"
NODE_LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n1"
MANAGER_LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/pilothouse-controller-manager"
NODE = User("system:node:n1", groups=("system:nodes", "system:authenticated"))
MANAGER = User("pilothouse:controller-manager", groups=("system:authenticated",))


def token_of(core: CoreServer, account: str, pod: str = "") -> User:
    bound = {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": pod}} if pod else {}
    path = f"/api/v1/namespaces/a/serviceaccounts/{account}/token"
    return core.bearer(core.send("POST", path, {"spec": bound}).expect(201)["status"]["token"])


def take_all(shares: FlowController, users: list[User], path: str) -> None:
    for user in users:
        for _ in range(100):
            try:
                shares.admit(Request("PUT", path, user=user), True)
            except StatusError:
                break


@pytest.fixture(scope="module")
def identities() -> Iterator[dict[str, list[User]]]:
    """Tokens of accounts, of pods that wait for a node and of pods on nodes, as the server knows their bearers."""
    with CoreServer() as core:
        core.send("POST", "/api/v1/namespaces", {"metadata": {"name": "a"}}).expect(201)
        core.send("POST", "/api/v1/nodes", {"metadata": {"name": "n1"}}).expect(201)
        found: dict[str, list[User]] = {"accounts": [], "waiting": [], "nowhere": [], "running": []}
        pods = "/api/v1/namespaces/a/pods"
        for number in range(20):
            name = f"u{number}"
            core.send("POST", "/api/v1/namespaces/a/serviceaccounts", {"metadata": {"name": name}}).expect(
                201
            )
            found["accounts"].append(token_of(core, name))
            for what, more in (
                ("waiting", {"schedulingGates": [{"name": "x/y"}]}),
                ("nowhere", {"nodeName": "made-up"}),
                ("running", {"nodeName": "n1"}),
            ):
                pod = f"{what}-{number}"
                core.send("POST", pods, {"metadata": {"name": pod}, "spec": {**POD, **more}}).expect(201)
                found[what].append(token_of(core, "default", pod))
        yield found


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("accounts", PriorityLevel.WORKLOADS),
        ("waiting", PriorityLevel.WORKLOADS),
        ("nowhere", PriorityLevel.WORKLOADS),
        ("running", PriorityLevel.AGENTS),
    ],
)
def test_none_of_them_is_a_controller_or_a_node(
    identities: dict[str, list[User]], what: str, expected: PriorityLevel
) -> None:
    assert {class_of(user) for user in identities[what]} == {expected}


def test_all_of_them_together_keep_no_node_and_no_manager_from_its_lease(
    identities: dict[str, list[User]],
) -> None:
    shares = FlowController()
    everybody = [user for users in identities.values() for user in users]
    take_all(shares, everybody, LEASE)
    take_all(shares, everybody, "/api/v1/namespaces/a/configmaps/x")
    for user, lease in ((NODE, NODE_LEASE), (MANAGER, MANAGER_LEASE)):
        assert shares.admit(Request("PUT", lease, user=user), True)[0].band.lane is shares.leases
        assert shares.admit(Request("PATCH", "/api/v1/nodes/n1/status", user=user), True)


async def test_who_may_not_send_it_is_not_waited_for(server: Server, dial: Dial) -> None:
    """It is refused by the head of the request, and holds no place while its body does not come."""
    for bearer in ("", "Authorization: Bearer t-bob\r\n"):
        wire = await dial(server.place)
        head = f"PUT {LEASE} HTTP/1.1\r\nHost: x\r\n{bearer}Content-Length: 1000\r\n\r\n{{"
        wire.writer.write(head.encode())
        assert (await wire.reply()).status == 403
        bands = [band for lane in server.shares.lanes for band in lane.bands.values()]
        assert not any(band.running or band.used for band in bands)


async def test_an_impersonator_is_judged_before_its_body_comes_and_after(server: Server, dial: Dial) -> None:
    head = (
        "POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer t-{who}\r\n"
        "Content-Type: application/json\r\nImpersonate-User: {whom}\r\nContent-Length: {size}\r\n\r\n"
    )
    body = b'{"metadata":{"name":"made"}}'

    async def awaits_a_body() -> bool:
        return server.shares.bodies.bands[PriorityLevel.SYSTEM].running == 1

    for who, whom, expected in (("bob", "alice", 403), ("admin", "alice", 403), ("admin", "root", 201)):
        wire = await dial(server.place)
        group = "Impersonate-Group: system:masters\r\n" if whom == "root" else ""
        text = head.format(who=who, whom=whom, size=len(body)).replace(
            "Content-Length", f"{group}Content-Length"
        )
        wire.writer.write(text.encode())
        if expected == 201:
            await eventually(awaits_a_body, seconds=20)
            wire.writer.write(body)
        assert (await wire.reply()).status == expected, (who, whom)
