"""Requests over the wire to a handler that answers only when told to, so that they pile up."""

from __future__ import annotations

import asyncio

import pytest

from pilothouse.apiserver.exchange import Request, Response
from pilothouse.apiserver.shares import Shares

TOKENS = """\
t-mallory,mallory,u1,
t-bob,bob,u2,
t-node,system:node:a,u3,"system:nodes"
t-manager,pilothouse:controller-manager,u4,
t-admin,admin,u5,"system:masters"
"""
OTHERS = ("bob", "node", "manager", "admin")
LEASE = "/apis/coordination.k8s.io/v1/namespaces/t/leases/db-leader"


class Gate:
    """Holds back whatever mallory asks for, until it is opened."""

    def __init__(self) -> None:
        self.entered = asyncio.Semaphore(0)
        self.open = asyncio.Event()

    async def __call__(self, request: Request) -> Response:
        if request.user.name == "mallory" and "leases" not in request.path:
            self.entered.release()
            await self.open.wait()
        return Response(200, b"{}")


def raw(method: str, path: str, who: str) -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer t-{who}\r\n\r\n".encode()


class Crowd:
    """Mallory's connections, one after the other, until the server has had enough."""

    def __init__(self, dial, place, gate):
        self._dial = dial
        self._place = place
        self._gate = gate
        self.waiting = []

    async def flood(self, method: str, path: str) -> object:
        """Send until one is refused; the refusal."""
        while True:
            wire = await self._dial(self._place)
            reply = asyncio.ensure_future(wire.ask(raw(method, path, "mallory")))
            entered = asyncio.ensure_future(self._gate.entered.acquire())
            await asyncio.wait((reply, entered), return_when=asyncio.FIRST_COMPLETED)
            entered.cancel()
            if reply.done():
                return await reply
            self.waiting.append(reply)


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/api/v1/pods/a"), ("POST", "/api/v1/namespaces/t/pods")]
)
async def test_everyone_else_is_served(serve, dial, method, path):
    gate = Gate()
    place = await serve(gate, shares=Shares(reads=40, mutations=40), tokens=TOKENS)
    crowd = Crowd(dial, place, gate)
    refused = await crowd.flood(method, path)
    assert (refused.status, refused.header("Retry-After")) == (429, "1")
    assert 1 < len(crowd.waiting) < 40
    for who in OTHERS:
        wire = await dial(place)
        assert (await wire.ask(raw(method, path, who))).status == 200, who
    gate.open.set()
    assert {(await reply).status for reply in crowd.waiting} == {200}


async def test_leases_and_health_have_ways_of_their_own(serve, dial):
    gate = Gate()
    place = await serve(gate, shares=Shares(reads=5, mutations=5), tokens=TOKENS)
    crowd = Crowd(dial, place, gate)
    for method, path in (("GET", "/api/v1/pods/a"), ("PUT", "/api/v1/namespaces/t/pods/a")):
        assert (await crowd.flood(method, path)).status == 429
    for who in ("mallory", *OTHERS):
        for method in ("GET", "PUT", "PATCH"):
            assert (await (await dial(place)).ask(raw(method, LEASE, who))).status == 200
        assert (await (await dial(place)).ask(raw("POST", LEASE.rpartition("/")[0], who))).status == 200
    assert (await (await dial(place)).ask(raw("GET", "/readyz", "mallory"))).status == 200
    gate.open.set()


async def test_a_slow_body_holds_a_place_of_its_sender_only(serve, dial):
    gate = Gate()
    place = await serve(gate, shares=Shares(reads=40, mutations=40), tokens=TOKENS)
    head = b"POST /api/v1/namespaces/t/pods HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer t-mallory\r\n"
    wires = []
    for _ in range(60):
        wire = await dial(place)
        wire.writer.write(head + b"Content-Length: 100\r\n\r\n{")
        wires.append(wire)
    # The one that is refused shows that the server has seen the others.
    assert (await wires[-1].reply()).status == 429
    assert (await (await dial(place)).ask(raw("POST", "/api/v1/namespaces/t/pods", "bob"))).status == 200
