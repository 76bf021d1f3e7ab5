"""The node's HTTPS server. Its paths are kubelet's:

    GET /containerLogs/{namespace}/{pod}/{container}?follow=true&tailLines=20
    GET /exec/{namespace}/{pod}/{container}?command=sh&input=1&output=1&tty=1        a WebSocket, or SPDY
    GET /attach/{namespace}/{pod}/{container}?output=1                               the same
    GET /pods    GET /healthz    GET /metrics    GET /metrics/resource

    sock = listening("127.0.0.1", 10250)
    async with serving(sock, tls, ServerBackends(pages, sessions, callers, figures)):
        …

All requests but ``/healthz`` are authenticated and authorized (``callers``). Open logs and sessions hold file
descriptors of the agent, so their number is limited.
"""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager, contextmanager

import msgspec
from aiohttp import WSMsgType, web
from aiohttp.typedefs import Handler, Middleware

from pilothouse.api.kubernetes.pods.stream_options import PROTOCOLS, StreamOptions
from pilothouse.meta.errors import StatusError
from pilothouse.node.server import stream_channels
from pilothouse.node.server.caller_authorization import APIServerUnreachable, CallerAuthorizer
from pilothouse.node.server.exec_sessions import ExecSessions
from pilothouse.node.server.listener import NodeListener
from pilothouse.node.server.pod_pages import ContainerPath, PodPages, RequestRefused
from pilothouse.node.server.spdy_socket import PROTOCOL, SpdySocket
from pilothouse.node.server.stream_session import MessageSocket

HEARTBEAT_SECONDS = 30.0
"""Seconds between pings of a silent client."""
SHUTDOWN_SECONDS = 2.0
MOST_STREAMS = 1000
"""Open logs and sessions of all callers together."""
BACKLOG = 128
LONGEST_MESSAGE = 4 * 1024 * 1024
MAX_LINE = 256 * 1024
"""Bytes of a request's first line: the arguments that an API server accepts, all escaped."""
TEXT = "text/plain; charset=utf-8"
EXPOSITION = "text/plain; version=0.0.4; charset=utf-8"
SPDY = "SPDY/3.1"
VERSIONS = "X-Stream-Protocol-Version"
_OPEN = frozenset({"/healthz"})

Figures = Callable[[], Awaitable[str]]
Session = Callable[[MessageSocket, ContainerPath, StreamOptions], Awaitable[None]]

log = logging.getLogger(__name__)


class ServerBackends(msgspec.Struct, frozen=True):
    pages: PodPages
    sessions: ExecSessions
    callers: CallerAuthorizer
    figures: Mapping[str, Figures]
    """Metrics pages by path."""
    most_streams: int = MOST_STREAMS


def listening(host: str, port: int) -> socket.socket:
    """A listening socket, whose port the Node reports before it is served. Raises ``OSError``."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=BACKLOG)


@asynccontextmanager
async def serving(
    sock: socket.socket, tls: ssl.SSLContext, backends: ServerBackends
) -> AsyncIterator[NodeListener]:
    known: list[NodeListener] = []

    def authenticated(transport: object) -> None:
        for listener in known:
            listener.authenticated(transport)

    runner = web.AppRunner(
        application(backends, authenticated),
        access_log=None,
        handler_cancellation=True,
        shutdown_timeout=SHUTDOWN_SECONDS,
        max_line_size=MAX_LINE,
    )
    await runner.setup()
    assert runner.server is not None
    try:
        async with NodeListener(sock, tls, runner.server) as listener:
            known.append(listener)
            yield listener
    finally:
        await runner.cleanup()


def application(backends: ServerBackends, authenticated: Callable[[object], None]) -> web.Application:
    """The application. ``authenticated`` is called with the connection of an authenticated caller."""
    handler = NodeRequestHandler(backends)
    app = web.Application(middlewares=[guard(backends.callers, authenticated)])
    app.router.add_get("/healthz", handler.health)
    app.router.add_get("/pods", handler.pods)
    app.router.add_get("/containerLogs/{namespace}/{pod}/{container}", handler.log)
    for name in ("exec", "attach"):
        # Kubelet accepts the pod's uid before the container too.
        for uid in ("", "{uid}/"):
            path = f"/{name}/{{namespace}}/{{pod}}/{uid}{{container}}"
            app.router.add_route("*", path, getattr(handler, name))
    for path, figures in backends.figures.items():
        app.router.add_get(path, _page(figures))
    return app


def _page(figures: Figures) -> Handler:
    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(body=(await figures()).encode(), headers={"Content-Type": EXPOSITION})

    return answer


def guard(callers: CallerAuthorizer, authenticated: Callable[[object], None]) -> Middleware:
    """The middleware that authenticates and authorizes each request."""

    async def admit(request: web.Request) -> None:
        transport = request.transport
        certificate = transport.get_extra_info("peercert") if transport is not None else None
        caller = await callers.identify(certificate, request.headers.get("Authorization", ""))
        if caller is None:
            raise RequestRefused(401, "Unauthorized: show a client certificate or a bearer token")
        authenticated(transport)
        if why := await callers.why_not(caller, request.method, request.path):
            raise RequestRefused(403, f"Forbidden: {why}")

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            if request.path not in _OPEN:
                await admit(request)
            return await handler(request)
        except RequestRefused as problem:
            return _refusal(problem.status, str(problem))
        except StatusError as problem:
            return _refusal(problem.code, problem.message)
        except APIServerUnreachable as problem:
            return _refusal(503, str(problem))

    return check


class NodeRequestHandler:
    def __init__(self, backends: ServerBackends) -> None:
        self._backends = backends
        self._streams = 0

    async def health(self, request: web.Request) -> web.StreamResponse:
        return web.Response(text="ok")

    async def pods(self, request: web.Request) -> web.StreamResponse:
        return web.Response(body=self._backends.pages.pods(), content_type="application/json")

    async def log(self, request: web.Request) -> web.StreamResponse:
        with self._stream():
            return await self._log(request)

    async def _log(self, request: web.Request) -> web.StreamResponse:
        pieces = self._backends.pages.log(_place(request), request.query)
        answer = web.StreamResponse(headers={"Content-Type": TEXT})
        async with aclosing(pieces):
            # At once: a client that follows an empty log needs its headers.
            await answer.prepare(request)
            try:
                async for piece in pieces:
                    await answer.write(piece)
            except ConnectionError:
                return answer
        await answer.write_eof()
        return answer

    async def exec(self, request: web.Request) -> web.StreamResponse:
        options = StreamOptions.parse(request.query_string, runs=True)
        return await self._upgrade(request, options, self._backends.sessions.run)

    async def attach(self, request: web.Request) -> web.StreamResponse:
        options = StreamOptions.parse(request.query_string, runs=False)
        return await self._upgrade(request, options, self._backends.sessions.attach)

    async def _upgrade(
        self, request: web.Request, options: StreamOptions, session: Session
    ) -> web.StreamResponse:
        is_spdy = request.headers.get("Upgrade", "").upper() == SPDY
        with self._stream():
            return await (self._spdy if is_spdy else self._websocket)(request, options, session)

    @contextmanager
    def _stream(self) -> Iterator[None]:
        """Count a stream while it is open. Raises a 429 if there are too many."""
        most = self._backends.most_streams
        if self._streams >= most:
            why = f"{most} logs and sessions in containers are open here, which is the limit: try again later"
            raise RequestRefused(429, why)
        self._streams += 1
        try:
            yield
        finally:
            self._streams -= 1

    async def _websocket(
        self, request: web.Request, options: StreamOptions, session: Session
    ) -> web.StreamResponse:
        answer = web.WebSocketResponse(
            protocols=PROTOCOLS, heartbeat=HEARTBEAT_SECONDS, max_msg_size=LONGEST_MESSAGE
        )
        if not answer.can_prepare(request):
            why = f"WebSockets and {SPDY} are spoken here, and this is not a request for one"
            raise RequestRefused(400, why)
        await answer.prepare(request)
        try:
            await session(WebSocket(answer), _place(request), options)
        except ConnectionError:
            log.debug("%s: the client went away", request.path)
        finally:
            await answer.close()
        return answer

    async def _spdy(
        self, request: web.Request, options: StreamOptions, session: Session
    ) -> web.StreamResponse:
        """For a real kube-apiserver."""
        transport = request.transport
        if PROTOCOL not in request.headers.getall(VERSIONS, ()) or transport is None:
            raise RequestRefused(403, f"none of the versions offered in {VERSIONS} is {PROTOCOL}")
        head = {"Connection": "Upgrade", "Upgrade": SPDY, VERSIONS: PROTOCOL}
        answer = web.StreamResponse(status=101, headers=head)
        answer.force_close()
        writer = await answer.prepare(request)
        if writer is None:
            return answer

        async def write(data: bytes) -> None:
            await writer.write(data)

        socket = SpdySocket(write, options, hold=transport.pause_reading, release=transport.resume_reading)
        # From here on aiohttp passes the bytes of this connection to the socket.
        request.protocol.set_parser(socket)  # type: ignore[arg-type]
        try:
            await socket.opened()
            await session(socket, _place(request), options)
        except (ConnectionError, TimeoutError):
            log.debug("%s: the client went away", request.path)
        finally:
            await socket.close()
        return answer


class WebSocket:
    """aiohttp's WebSocket as a ``MessageSocket``, for all subprotocols."""

    def __init__(self, socket: web.WebSocketResponse) -> None:
        self._socket = socket
        protocol = socket.ws_protocol or ""
        self._encoded = "base64." in protocol
        self._plain_errors = not protocol.startswith(("v4.", "v5."))

    async def receive(self) -> bytes | None:
        message = await self._socket.receive()
        if message.type is WSMsgType.BINARY:
            data = bytes(message.data)
        elif message.type is WSMsgType.TEXT:
            data = str(message.data).encode()
        else:
            return None
        return stream_channels.decoded(data) if self._encoded else data

    async def send(self, message: bytes) -> None:
        if self._plain_errors and message[:1] == bytes([stream_channels.ERROR]):
            message = bytes([stream_channels.ERROR]) + stream_channels.plain_outcome(message[1:])
            if len(message) == 1:
                return
        if self._encoded:
            await self._socket.send_str(stream_channels.encoded(message))
        else:
            await self._socket.send_bytes(message)


def _place(request: web.Request) -> ContainerPath:
    found = request.match_info
    return ContainerPath(found["namespace"], found["pod"], found["container"])


def _refusal(status: int, message: str) -> web.Response:
    return web.Response(status=status, text=message, headers={"Content-Type": TEXT})
