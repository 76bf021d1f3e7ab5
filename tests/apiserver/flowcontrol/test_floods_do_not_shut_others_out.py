"""Requests over the wire to a handler that answers only when told to, so that they pile up."""

from __future__ import annotations

import asyncio

import pytest
from tests.apiserver.server.wire import Dial, Place, Reply, Serve
from tests.kit.waiting import eventually

from pilothouse.apiserver.flowcontrol.fair_queuing import FlowController, PriorityLevel
from pilothouse.apiserver.server.messages import Request, Response

ACCOUNTS = 40
"""Of one namespace, whose user makes as many of them as it likes."""
TOKENS = """\
t-mallory,mallory,u1,
t-bob,bob,u2,
t-node,system:node:a,u3,"system:nodes"
t-manager,pilothouse:controller-manager,u4,
t-admin,admin,u5,"system:masters"
""" + "".join(
    f't-a{number},system:serviceaccount:a:u{number},a{number},"system:serviceaccounts,system:serviceaccounts:a"\n'
    for number in range(ACCOUNTS)
)
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


class IdleBodies:
    """Connections, each with a request whose body does not come."""

    def __init__(self, dial: Dial, place: Place, shares: FlowController) -> None:
        self._dial = dial
        self._place = place
        self._shares = shares
        self._sent = 0

    async def hold(self, method: str, path: str, who: str) -> None:
        wire = await self._dial(self._place)
        head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer t-{who}\r\n"
        wire.writer.write(f"{head}Content-Length: 1000\r\n\r\n{{".encode())
        self._sent += 1

    async def seen(self) -> bool:
        """Whether the server has come to each of them."""
        bands = [band for lane in self._shares.lanes for band in lane.bands.values()]
        return sum(band.running + band.crowded + band.unfair for band in bands) == self._sent


def raw(method: str, path: str, who: str) -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer t-{who}\r\n\r\n".encode()


class Crowd:
    """Mallory's connections, one after the other, until the server has had enough."""

    def __init__(self, dial: Dial, place: Place, gate: Gate) -> None:
        self._dial = dial
        self._place = place
        self._gate = gate
        self.waiting: list[asyncio.Future[Reply]] = []

    async def flood(self, method: str, path: str) -> Reply:
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
async def test_everyone_else_is_served(serve: Serve, dial: Dial, method: str, path: str) -> None:
    gate = Gate()
    place = await serve(gate, shares=FlowController(reads=40, mutations=40), tokens=TOKENS)
    crowd = Crowd(dial, place, gate)
    refused = await crowd.flood(method, path)
    assert (refused.status, refused.header("Retry-After")) == (429, "1")
    assert 1 < len(crowd.waiting) < 40
    for who in OTHERS:
        wire = await dial(place)
        assert (await wire.ask(raw(method, path, who))).status == 200, who
    gate.open.set()
    assert {(await reply).status for reply in crowd.waiting} == {200}


async def test_leases_and_health_have_ways_of_their_own(serve: Serve, dial: Dial) -> None:
    gate = Gate()
    place = await serve(gate, shares=FlowController(reads=5, mutations=5), tokens=TOKENS)
    crowd = Crowd(dial, place, gate)
    for method, path in (("GET", "/api/v1/pods/a"), ("PUT", "/api/v1/namespaces/t/pods/a")):
        assert (await crowd.flood(method, path)).status == 429
    for who in ("node", "manager", "admin"):
        for method in ("GET", "PUT", "PATCH"):
            assert (await (await dial(place)).ask(raw(method, LEASE, who))).status == 200
        assert (await (await dial(place)).ask(raw("POST", LEASE.rpartition("/")[0], who))).status == 200
    # A lease of somebody whom nobody waits for is an object like any other.
    assert (await (await dial(place)).ask(raw("PUT", LEASE, "mallory"))).status == 429
    assert (await (await dial(place)).ask(raw("GET", "/readyz", "mallory"))).status == 200
    gate.open.set()


async def test_bodies_that_do_not_come_take_no_place_of_others(serve: Serve, dial: Dial) -> None:
    """Neither to renew a lease nor to write, whoever it is and however many identities send nothing."""
    shares = FlowController(reads=40, mutations=40)
    place = await serve(Gate(), shares=shares, tokens=TOKENS)
    idle = IdleBodies(dial, place, shares)
    for number in range(ACCOUNTS):
        await idle.hold("PUT", LEASE, f"a{number}")
        await idle.hold("POST", "/api/v1/namespaces/a/configmaps", f"a{number}")
        await idle.hold("PUT", LEASE, "mallory")
    await eventually(idle.seen, seconds=20)
    assert not any(band.running for lane in shares.lanes[:3] for band in lane.bands.values())
    for who in OTHERS:
        for method, path in (("PUT", LEASE), ("POST", "/api/v1/namespaces/t/pods")):
            wire = await dial(place)
            # Its body is not here with its head either.
            wire.writer.write(raw(method, path, who).replace(b"\r\n\r\n", b"\r\nContent-Length: 2\r\n\r\n"))
            await wire.writer.drain()
            await asyncio.sleep(0)
            wire.writer.write(b"{}")
            assert (await wire.reply()).status == 200, (who, path)


async def test_a_body_that_is_here_goes_by_the_places_of_its_lane(serve: Serve, dial: Dial) -> None:
    shares = FlowController(reads=40, mutations=40)
    gate = Gate()
    place = await serve(gate, shares=shares, tokens=TOKENS)
    crowd = Crowd(dial, place, gate)
    assert (await crowd.flood("POST", "/api/v1/namespaces/t/pods")).status == 429
    assert shares.mutations.bands[PriorityLevel.PEOPLE].running == len(crowd.waiting)
    assert not shares.bodies.bands[PriorityLevel.PEOPLE].running
    gate.open.set()
