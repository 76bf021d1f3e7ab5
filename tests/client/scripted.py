"""A TLS server that answers as it is told, and remembers what it was asked and by whom.

async with scripted(folder) as server:
    server.answers += [Reply(503, headers={"Retry-After": "1"}), Reply(200, b"{}")]
    … HttpTransport.open(server.access(), …)
    server.asked[0].headers
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web
from tests.kit.certificates import Authority

from pilothouse.client.access import Access


@dataclass(frozen=True)
class Reply:
    """An answer; ``cut`` breaks the connection instead."""

    status: int = 200
    body: bytes = b"{}"
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: bool = False


@dataclass(frozen=True)
class Asked:
    method: str
    path: str
    headers: Mapping[str, str]
    groups: tuple[str, ...]
    certified: str
    """The common name of the client's certificate; empty if it showed none."""


class Scripted:
    """What is asked after the last answer was given is answered by an empty object."""

    def __init__(self, authority: Authority) -> None:
        self.authority = authority
        self.answers: list[Reply] = []
        self.asked: list[Asked] = []
        self.url = ""

    def access(self, **more: Any) -> Access:
        return Access(self.url, authority=self.authority.cert.read_bytes(), **more)

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        shown = request.transport.get_extra_info("peercert") if request.transport else None
        names = {key: value for ((key, value),) in (shown or {}).get("subject", ())}
        groups = tuple(request.headers.getall("Impersonate-Group", ()))
        await request.read()
        self.asked.append(
            Asked(request.method, request.path_qs, request.headers, groups, names.get("commonName", ""))
        )
        reply = self.answers.pop(0) if self.answers else Reply()
        if reply.cut and request.transport is not None:
            request.transport.abort()
        return web.Response(status=reply.status, body=reply.body, headers=reply.headers)


@asynccontextmanager
async def scripted(folder: Path) -> AsyncIterator[Scripted]:
    authority = Authority.create(folder / "pki")
    pair = authority.server()
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority.cert))
    tls.verify_mode = ssl.CERT_OPTIONAL
    tls.load_cert_chain(pair.cert, pair.key)
    server = Scripted(authority)
    runner = web.ServerRunner(web.Server(server.answer))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    server.url = f"https://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield server
    finally:
        await runner.cleanup()
