"""The node's HTTPS server. Its paths are kubelet's:

    GET /containerLogs/{namespace}/{pod}/{container}?follow=true&tailLines=20
    GET /exec/{namespace}/{pod}/{container}?command=sh&input=1&output=1&tty=1        a WebSocket, or SPDY
    GET /attach/{namespace}/{pod}/{container}?output=1                               the same
    GET /pods    GET /healthz    GET /metrics    GET /metrics/resource

    door = listening("127.0.0.1", 10250)
    async with serving(door, tls, ServerBackends(pages, sessions, callers, figures)):
        …

Everyone but who asks for ``/healthz`` has to say who they are and may do what they are allowed to (``callers``). Logs and sessions take files
of the agent's, a few each, for as long as they last: only so many are open at a time.
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
"""How often a client that says nothing is asked whether it is there."""
SHUTDOWN_SECONDS = 2.0
MOST_STREAMS = 1000
"""Logs that are being read and sessions, of all callers together."""
BACKLOG = 128
LONGEST_MESSAGE = 4 * 1024 * 1024
MAX_LINE = 256 * 1024
"""Bytes of a request's first line, in which the arguments of a program come: what an API server takes, each character as an escape."""
TEXT = "text/plain; charset=utf-8"
EXPOSITION = "text/plain; version=0.0.4; charset=utf-8"
SPDY = "SPDY/3.1"
VERSIONS = "X-Stream-Protocol-Version"
_OPEN = frozenset({"/healthz"})

Figures = Callable[[], Awaitable[str]]

log = logging.getLogger(__name__)


class ServerBackends(msgspec.Struct, frozen=True):
    """What is behind the door."""

    pages: PodPages
    sessions: ExecSessions
    callers: CallerAuthorizer
    figures: Mapping[str, Figures]
    """PodPages of figures by their path."""
    most_streams: int = MOST_STREAMS


def listening(host: str, port: int) -> socket.socket:
    """A socket to serve at, which has a port already: a Node tells it before anybody is answered. Raises ``OSError``."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=BACKLOG)


@asynccontextmanager
async def serving(
    door: socket.socket, tls: ssl.SSLContext, rooms: ServerBackends
) -> AsyncIterator[NodeListener]:
    """Serve requests within the context."""
    known: list[NodeListener] = []

    def authenticated(transport: object) -> None:
        for listener in known:
            listener.authenticated(transport)

    runner = web.AppRunner(
        application(rooms, authenticated),
        access_log=None,
        handler_cancellation=True,
        shutdown_timeout=SHUTDOWN_SECONDS,
        max_line_size=MAX_LINE,
    )
    await runner.setup()
    assert runner.server is not None
    try:
        async with NodeListener(door, tls, runner.server) as listener:
            known.append(listener)
            yield listener
    finally:
        await runner.cleanup()


def application(rooms: ServerBackends, authenticated: Callable[[object], None]) -> web.Application:
    """Everything but the socket. ``authenticated`` is called with the connection of a caller that is known."""
    door = NodeRequestHandler(rooms)
    made = web.Application(middlewares=[guard(rooms.callers, authenticated)])
    made.router.add_get("/healthz", door.health)
    made.router.add_get("/pods", door.pods)
    made.router.add_get("/containerLogs/{namespace}/{pod}/{container}", door.log)
    for name in ("exec", "attach"):
        # Kubelets take the pod's uid before the container as well.
        for path in (
            f"/{name}/{{namespace}}/{{pod}}/{{container}}",
            f"/{name}/{{namespace}}/{{pod}}/{{uid}}/{{container}}",
        ):
            made.router.add_route("*", path, getattr(door, name))
    for path, figures in rooms.figures.items():
        made.router.add_get(path, _page(figures))
    return made


def _page(figures: Figures) -> Handler:
    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(body=(await figures()).encode(), headers={"Content-Type": EXPOSITION})

    return answer


def guard(callers: CallerAuthorizer, authenticated: Callable[[object], None]) -> Middleware:
    """The middleware that authenticates and authorizes each request; a refusal has a message."""

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
    """From requests to rooms."""

    def __init__(self, rooms: ServerBackends) -> None:
        self._rooms = rooms
        self._streams = 0
        """How many are open."""

    async def health(self, request: web.Request) -> web.StreamResponse:
        return web.Response(text="ok")

    async def pods(self, request: web.Request) -> web.StreamResponse:
        return web.Response(body=self._rooms.pages.pods(), content_type="application/json")

    async def log(self, request: web.Request) -> web.StreamResponse:
        with self._stream():
            return await self._log(request)

    async def _log(self, request: web.Request) -> web.StreamResponse:
        pieces = self._rooms.pages.log(_place(request), request.query)
        answer = web.StreamResponse(headers={"Content-Type": TEXT})
        async with aclosing(pieces):
            # At once: who follows a log that says nothing yet has an answer.
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
        with self._stream():
            return await self._talk(request, options, self._rooms.sessions.run)

    async def attach(self, request: web.Request) -> web.StreamResponse:
        options = StreamOptions.parse(request.query_string, runs=False)
        with self._stream():
            return await self._talk(request, options, self._rooms.sessions.attach)

    @contextmanager
    def _stream(self) -> Iterator[None]:
        """Count a stream while it lasts. Raises a 429 if there are too many."""
        most = self._rooms.most_streams
        if self._streams >= most:
            raise RequestRefused(
                429,
                f"{most} logs and sessions in containers are open here, which is the limit: try again later",
            )
        self._streams += 1
        try:
            yield
        finally:
            self._streams -= 1

    async def _talk(
        self,
        request: web.Request,
        options: StreamOptions,
        session: Callable[[MessageSocket, ContainerPath, StreamOptions], Awaitable[None]],
    ) -> web.StreamResponse:
        if request.headers.get("Upgrade", "").upper() == SPDY:
            return await self._talk_spdy(request, options, session)
        answer = web.WebSocketResponse(
            protocols=PROTOCOLS, heartbeat=HEARTBEAT_SECONDS, max_msg_size=LONGEST_MESSAGE
        )
        if not answer.can_prepare(request):
            raise RequestRefused(
                400, f"WebSockets and {SPDY} are spoken here, and this is not a request for one"
            )
        await answer.prepare(request)
        try:
            await session(WebSocket(answer), _place(request), options)
        except ConnectionError:
            log.debug("%s: the client went away", request.path)
        finally:
            await answer.close()
        return answer

    async def _talk_spdy(
        self,
        request: web.Request,
        options: StreamOptions,
        session: Callable[[MessageSocket, ContainerPath, StreamOptions], Awaitable[None]],
    ) -> web.StreamResponse:
        """The same with a real kube-apiserver."""
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
        # From here on aiohttp parses nothing on this connection; the bytes go to this object.
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
    """aiohttp's WebSocket, as ``talking`` wants it, whatever the subprotocol."""

    def __init__(self, socket: web.WebSocketResponse) -> None:
        self._socket = socket
        protocol = socket.ws_protocol or ""
        self._encoded = "base64." in protocol
        self._wording = not protocol.startswith(("v4.", "v5."))

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
        if self._wording and message[:1] == bytes([stream_channels.ERROR]):
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
