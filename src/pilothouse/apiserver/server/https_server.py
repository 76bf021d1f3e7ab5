"""The server's sockets: TLS and HTTP/1.1 in front of a handler.

    server = HTTPSServer(core.answer, authenticator=…, health=…, shares=…, requests=…)
    port = await server.listen("127.0.0.1", 0, tls_context(serving_certificate, serving_key, client_ca))
    …
    server.leave()
    await server.stop(grace=30)

Shutdown: ``/readyz`` fails, no connections are accepted, streams end, requests in flight are answered.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from aiohttp import web

from pilothouse.apiserver.audit.trail import AuditTrail
from pilothouse.apiserver.authentication.authenticator import Authenticator
from pilothouse.apiserver.endpoints.cached_reads import CachedReads
from pilothouse.apiserver.flowcontrol.fair_queuing import FlowController
from pilothouse.apiserver.metrics.request_metrics import RequestCounters
from pilothouse.apiserver.server.connection import Connection
from pilothouse.apiserver.server.fast_path import FastPath
from pilothouse.apiserver.server.health import Health
from pilothouse.apiserver.server.http_protocol import Handler, HeadCheck, ServerContext
from pilothouse.apiserver.server.limits import ClientTimeouts, Deadlines
from pilothouse.apiserver.server.response_heads import ResponseHeads

BACKLOG = 1024
HANDSHAKE_SECONDS = 10.0

log = logging.getLogger(__name__)


def tls_context(certificate: Path, key: Path, client_ca: Path | bytes | None = None) -> ssl.SSLContext:
    """TLS 1.3 only; client certificates are optional, and verified if presented.

    ``client_ca`` is a file or PEM text. Sessions are not resumed, so each connection verifies its
    certificate.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(certificate, key)
    context.set_alpn_protocols(["http/1.1"])
    context.num_tickets = 0
    if client_ca is not None:
        if isinstance(client_ca, bytes):
            context.load_verify_locations(cadata=client_ca.decode())
        else:
            context.load_verify_locations(client_ca)
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


class HTTPSServer:
    def __init__(
        self,
        handler: Handler,
        *,
        authenticator: Authenticator,
        health: Health,
        shares: FlowController,
        requests: RequestCounters,
        check_head: HeadCheck | None = None,
        cached_reads: CachedReads | None = None,
        trail: AuditTrail | None = None,
        patience: ClientTimeouts = ClientTimeouts(),
    ) -> None:
        loop = asyncio.get_running_loop()
        heads = ResponseHeads()
        self._health = health
        self._shared = ServerContext(
            handler=handler,
            authenticator=authenticator,
            health=health,
            shares=shares,
            requests=requests,
            deadlines=Deadlines(loop),
            heads=heads,
            check_head=check_head,
            fast_path=FastPath(cached_reads, authenticator, heads, trail)
            if cached_reads is not None
            else None,
            trail=trail,
            patience=patience,
        )
        self._listeners: list[asyncio.Server] = []

    async def listen(self, host: str, port: int, tls: ssl.SSLContext) -> int:
        """Accept connections; returns the port, a free one for 0. All addresses of a name use the same
        port."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for address in dict.fromkeys(entry[4][0] for entry in found):
            try:
                port = await self._listen(tls, host=str(address), port=port)
            except OSError as problem:
                if not self._listeners:
                    raise
                log.warning("not listening at %s, another address of %s: %s", address, host, problem)
        return port

    async def listen_on(self, sockets: Sequence[socket.socket], tls: ssl.SSLContext) -> int:
        """The same on bound sockets; the port of the first."""
        ports = [await self._listen(tls, sock=each) for each in sockets]
        return ports[0]

    async def _listen(self, tls: ssl.SSLContext, **where: Any) -> int:
        listener = await asyncio.get_running_loop().create_server(
            _Listener(self._shared),
            **where,
            ssl=tls,
            backlog=BACKLOG,
            ssl_handshake_timeout=HANDSHAKE_SECONDS,
        )
        self._listeners.append(listener)
        bound: int = listener.sockets[0].getsockname()[1]
        return bound

    @property
    def connections(self) -> int:
        return len(self._shared.connections)

    def dismiss(self) -> None:
        """Make clients with a certificate connect again, as trust has changed."""
        for connection in list(self._shared.connections):
            connection.dismiss()

    def leave(self) -> None:
        """Keep serving, but fail ``/readyz`` and close each connection after its next response."""
        self._health.drain()
        self._shared.leaving = True

    def close(self) -> None:
        self.leave()
        for listener in self._listeners:
            listener.close()

    async def stop(self, grace: float) -> None:
        """Stop accepting, end streams, wait up to ``grace`` seconds for the rest, then abort it."""
        shared = self._shared
        self.close()
        shared.draining = True
        for connection in list(shared.connections):
            connection.drain()
        tasks = [connection.task for connection in shared.connections]
        if under_way := [task for task in tasks if task is not None]:
            await asyncio.wait(under_way, timeout=grace)
        for connection in list(shared.connections):
            connection.force_close()
        shared.deadlines.close()


class _Listener(web.Server):
    """aiohttp's server, making connections of our own kind."""

    def __init__(self, shared: ServerContext) -> None:
        super().__init__(_unused, access_log=None)
        self._shared = shared

    def __call__(self) -> Connection:
        return Connection(self, self._shared, self._loop)


async def _unused(request: web.BaseRequest) -> web.StreamResponse:
    """aiohttp wants a handler; ``Connection`` never calls it."""
    raise web.HTTPInternalServerError
