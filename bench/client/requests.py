"""Our HTTP/1.1 client beside aiohttp's: CPU time of the client a request.

    python -m bench.client.requests [--rounds 5] [--requests 3000] [--clients 16]

Both ask one server (SQLite) by turns for the same objects, over TLS with connections that are kept: *get* reads one, *patch*
changes one. aiohttp's side is its `ClientSession` as `client.http_transport` sets it up for watches.
"""

from __future__ import annotations

import argparse
import asyncio
import ssl
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp
import uvloop
from yarl import URL

from bench.api.access import AGENT, TOKEN, unverified
from bench.api.contenders import ApiServer, Pilothouse
from bench.api.filling import fill
from bench.api.objects import KINDS, numbered
from pilothouse.client.connection_pool import ConnectionPool
from pilothouse.client.credentials import ClientIdentity
from pilothouse.client.transport import ClientRequest

KIND = KINDS["configmaps"]
NAMESPACE = "bench-requests"
OBJECTS = 200
HEADERS = {"Accept": "application/json"}
PATCH = {**HEADERS, "Content-Type": "application/merge-patch+json"}
CREDENTIAL = ("Authorization", f"Bearer {TOKEN}")

Send = Callable[[ClientRequest], Awaitable[int]]


def request(load: str, number: int) -> ClientRequest:
    path = KIND.at(NAMESPACE, numbered(number % OBJECTS))
    if load == "get":
        return ClientRequest("GET", path, headers=HEADERS)
    return ClientRequest("PATCH", path, headers=PATCH, body=KIND.patch(str(time.time_ns())))


async def cost(send: Send, load: str, count: int, clients: int) -> float:
    """Microseconds of CPU a request."""
    numbers = iter(range(count))

    async def client() -> None:
        for number in numbers:
            if (status := await send(request(load, number))) != 200:
                raise ValueError(f"{load}: {status}")

    before = time.process_time()
    await asyncio.gather(*(client() for _ in range(clients)))
    return (time.process_time() - before) / count * 1e6


async def measure(server: ApiServer, tls: ssl.SSLContext, rounds: int, count: int, clients: int) -> None:
    pool = ConnectionPool(server.access.url, server_name="", agent=AGENT)
    shown = ClientIdentity(tls=tls, headers=(CREDENTIAL,))
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),
        headers={"User-Agent": AGENT},
        cookie_jar=aiohttp.DummyCookieJar(),
    )

    async def by_ours(call: ClientRequest) -> int:
        return (await pool.exchange(call, shown)).status

    async def by_aiohttp(call: ClientRequest) -> int:
        headers = dict(call.headers) | dict([CREDENTIAL])
        url = URL(f"{server.access.url}{call.path}", encoded=True)
        async with session.request(
            call.method, url, headers=headers, data=call.body or None, ssl=tls, allow_redirects=False
        ) as answer:
            await answer.read()
            return answer.status

    senders: dict[str, Send] = {"ours": by_ours, "aiohttp": by_aiohttp}
    for load in ("get", "patch"):
        found: dict[str, list[float]] = {name: [] for name in senders}
        for number in range(rounds + 1):
            for name in sorted(senders, reverse=number % 2 == 0):
                figure = await cost(senders[name], load, count, clients)
                if number:
                    found[name].append(figure)
        base = statistics.median(found["ours"])
        for name, figures in found.items():
            middle = statistics.median(figures)
            each = " ".join(f"{figure:.0f}" for figure in figures)
            print(f"{load:6} {name:8} {middle:6.1f} µs  {middle / base:4.1f}   ({each})", flush=True)
    pool.close()
    await session.close()


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.client.requests", description="Our client beside aiohttp's."
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=3000)
    parser.add_argument("--clients", type=int, default=16)
    chosen = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="pilothouse-bench-") as name,
        Pilothouse(Path(name), "sqlite") as server,
    ):
        asyncio.run(fill(server.access, KIND, NAMESPACE, count=OBJECTS))
        uvloop.run(measure(server, unverified(), chosen.rounds, chosen.requests, chosen.clients))


if __name__ == "__main__":
    main()
