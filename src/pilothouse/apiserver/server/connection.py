"""One client connection: takes requests from ``http_protocol``, awaits the handler, writes responses.

A loop replaces aiohttp's per-request objects and task, and writes head and body at once.

* Every request gets a response or the connection ends; each wait has a deadline.
* A request takes its seats once its body is here, and holds them until the client has read the response. A
  client that reads too slowly is disconnected.
* A read or a stream is cancelled when its client disconnects; a write completes.
* Streams write to the transport directly; writers check ``Sink.buffered`` and hold back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from time import perf_counter

from aiohttp import web
from aiohttp.http import HttpVersion10, HttpVersion11, RawRequestMessage
from aiohttp.streams import EMPTY_PAYLOAD, StreamReader

from pilothouse.apiserver.audit.audit_policy import COMPLETE, STARTED
from pilothouse.apiserver.audit.request_stage import GONE, Arrival
from pilothouse.apiserver.authentication.authenticator import DependencyUnknownError
from pilothouse.apiserver.endpoints.error_responses import refusal
from pilothouse.apiserver.flowcontrol.fair_queuing import UserFlow, refusal_of, weight_of
from pilothouse.apiserver.server import health, request_bodies, websockets
from pilothouse.apiserver.server.http_protocol import ConnectionPhase, HttpProtocol, ServerContext
from pilothouse.apiserver.server.limits import allowance
from pilothouse.apiserver.server.messages import (
    Answer,
    ChunkedBody,
    Request,
    Response,
    StreamingResponse,
    UpgradedResponse,
)
from pilothouse.apiserver.server.request_targets import LONGEST, split
from pilothouse.apiserver.server.response_writer import LAST_CHUNK, write_body
from pilothouse.apiserver.server.stream_sinks import ChunkedSink, PlainSink
from pilothouse.apiserver.server.upgraded_connection import UpgradedConnection
from pilothouse.meta.errors import StatusError, internal, timeout

MAX_AUDIT_ID = 64
_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_ONE_WRITE = 64 * 1024
"""Up to this size, joining head and body costs less than a second write."""
_REFUSED = frozenset({401, 403})
_NOSNIFF = ("X-Content-Type-Options", "nosniff")
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_VERSIONS = (HttpVersion11, HttpVersion10)

log = logging.getLogger(__name__)


class Connection(HttpProtocol):
    __slots__ = ("_flow", "_weight")

    def __init__(self, server: web.Server, shared: ServerContext, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(server, shared, loop)
        self._flow: UserFlow | None = None
        self._weight = 0
        """The seats of the request under way."""

    async def start(self) -> None:
        """Answer requests until the connection ends. (aiohttp runs this as the connection's task.)"""
        self._task = asyncio.current_task()
        try:
            await self._serve()
        finally:
            self._task = None
            self._shared.connections.discard(self)
            self._shared.deadlines.disarm(self)

    async def _serve(self) -> None:
        while not (self._force_close or self._ending):
            if not self._pending:
                self._waiter = self._loop.create_future()
                try:
                    await self._waiter
                finally:
                    self._waiter = None
            if not self._pending:
                await self._see_taken()
                continue
            message, payload, body = self._take()
            if not isinstance(message, RawRequestMessage):
                self._refuse_garbage(message)
                break
            if message.version not in _VERSIONS:
                major, minor = message.version
                self._refuse_garbage(ValueError(f"version {major}.{minor}; this server speaks 1.1"))
                break
            try:
                keep = await self._exchange(message, payload, body)
            except ConnectionError:
                break
            finally:
                self._leave()
            self._doing = ConnectionPhase.WAITING
            if not keep:
                break
            self._wait_at_most(self._shared.patience.idle)
            if self._pending:
                # Thousands of requests fit into one read; those of others are answered in between.
                await asyncio.sleep(0)
        if self.transport is not None:
            self.transport.close()

    def _leave(self) -> None:
        """Release the request's seats."""
        if self._flow is not None:
            self._flow.leave(self._weight)
            self._flow = None

    def _leave_with(self, answer: StreamingResponse | UpgradedResponse) -> None:
        """Release the seats now, or when a stream has written its initial part, at the latest when it
        ends."""
        if answer.begun is not None and self._flow is not None:
            flow, weight, self._flow = self._flow, self._weight, None
            answer.begun.add_done_callback(lambda _: flow.leave(weight))
        else:
            self._leave()

    async def _see_taken(self) -> None:
        """Wait until the client has read what the fast path sent."""
        self._doing = ConnectionPhase.SENDING
        if self.transport is not None:
            await self._settle(EMPTY_PAYLOAD)
        self._doing = ConnectionPhase.WAITING

    async def _exchange(self, message: RawRequestMessage, payload: StreamReader, body: bytes) -> bool:
        """Answer one request, whose body may still have to be read; false if the connection ends with it."""
        shared = self._shared
        began = perf_counter()
        # The raw path until it is checked, cut to length, as paths are cached further in.
        request = Request(message.method, message.path[:LONGEST], headers=message.headers, peer=self._peer)
        audit = message.headers.get("Audit-ID", "")
        if not (audit and audit.isascii() and audit.isprintable() and len(audit) <= MAX_AUDIT_ID):
            audit = shared.heads.mint()
        arrival = Arrival(audit, message.path, shared.trail.now()) if shared.trail else None
        try:
            answer = await self._answer(request, message, payload, body)
        except StatusError as error:
            answer = refusal(error)
        except asyncio.CancelledError:
            if not self._recovered():
                self._record(arrival, request, GONE)
                raise
            late = timeout("request did not complete within the allotted timeout")
            if self._doing is ConnectionPhase.RECEIVING:
                late = StatusError(408, "Timeout", "the body of the request did not arrive in time")
            answer = refusal(late)
        except Exception as error:
            log.exception("%s %s: the handler broke", request.method, request.path)
            request.crashed = True
            answer = refusal(internal(f"{type(error).__name__}; the log of the server has details"))
        finally:
            shared.deadlines.disarm(self)
        endless = not isinstance(answer, Response)
        shared.requests.observe(request, answer.status, endless, perf_counter() - began)
        if isinstance(answer, Response):
            self._record(arrival, request, answer.status, answer)
        if log.isEnabledFor(logging.DEBUG):
            log.debug("%s %s %d %s", request.method, message.path, answer.status, request.user.name)
        if isinstance(answer, Response):
            return await self._send(answer, request, audit, message, payload)
        self._leave_with(answer)
        self._record(arrival, request, answer.status, stage=STARTED)
        try:
            if isinstance(answer, UpgradedResponse):
                return await self._tunnel(answer, request, audit)
            return await self._stream(answer, request, audit, message)
        finally:
            self._record(arrival, request, answer.status)
            if answer.begun is not None:
                answer.begun.cancel()
            await answer.close()

    def _record(
        self,
        arrival: Arrival | None,
        request: Request,
        status: int,
        answer: Response | None = None,
        stage: str = COMPLETE,
    ) -> None:
        if arrival is not None and self._shared.trail is not None:
            self._shared.trail.record(arrival, request, status, answer, stage)

    async def _answer(
        self, request: Request, message: RawRequestMessage, payload: StreamReader, body: bytes
    ) -> Answer:
        """Everything between the head of a request and its answer."""
        shared = self._shared
        mutating = request.method not in _READING
        request.path, request.query = split(message.path)
        for name, value in message.raw_headers:
            if not value.isascii():
                request_bodies.refuse_unreadable(name, value)
        authorization = message.headers.get("Authorization")
        if message.upgrade and websockets.is_upgrade(request.method, message.headers):
            token, request.headers = websockets.take_token(message.headers)
            authorization = authorization or (f"Bearer {token}" if token else None)
        try:
            request.user = shared.authenticator.identify(self._certified, authorization)
        except DependencyUnknownError:
            request.user = await shared.authenticator.identify_surely(self._certified, authorization)
        if health.serves(request.path):
            return await shared.health.examine(request)
        shared.deadlines.arm(self, allowance(request.query, mutating))
        request.body = body if payload is EMPTY_PAYLOAD else await self._receive(request, payload)
        self._flow, self._weight = flow, weight = shared.shares.admit(request, mutating)
        self._doing = ConnectionPhase.WRITING if mutating else ConnectionPhase.READING
        answer = await shared.handler(request)
        if isinstance(answer, Response) and (more := weight_of(answer, flow.band.lane)):
            if not flow.grow(more, surely=mutating):
                raise refusal_of(request.user, flow.band.lane)
            self._weight = weight + more
        return answer

    async def _receive(self, request: Request, payload: StreamReader) -> bytes:
        shared = self._shared
        request_bodies.refuse_early(request.headers)
        if payload.is_eof():
            return await request_bodies.read(payload)
        if shared.check_head is not None:
            shared.check_head(request)
        flow, weight = shared.shares.await_body(request)
        try:
            self._incoming = payload
            self._doing = ConnectionPhase.RECEIVING
            if request.headers.get("Expect", "").lower() == "100-continue" and self.transport is not None:
                self.transport.write(_CONTINUE)
            return await request_bodies.read(payload)
        finally:
            flow.leave(weight)

    def _recovered(self) -> bool:
        """Whether a cancellation came from the deadline; then it is undone."""
        if not self._expired or self._task is None:
            return False
        self._expired = False
        self._task.uncancel()
        return True

    async def _send(
        self,
        answer: Response,
        request: Request,
        audit: str,
        message: RawRequestMessage,
        payload: StreamReader,
    ) -> bool:
        """Write a whole response, and wait until the client has read it."""
        transport = self.transport
        if transport is None:
            return False
        self._doing = ConnectionPhase.SENDING
        unread = not payload.is_eof()
        keep = not (
            message.should_close or message.upgrade or unread or self._dismissed or self._shared.leaving
        )
        headers = (*answer.headers, _NOSNIFF) if answer.status in _REFUSED else answer.headers
        body = answer.body
        if isinstance(body, ChunkedBody):
            return await self._send_pieces(body, answer, request, audit, message, keep)
        head = self._shared.heads.whole(
            answer.status,
            answer.content_type,
            len(body),
            audit=audit,
            headers=headers,
            warnings=request.warnings,
            keep=keep,
        )
        if request.method == "HEAD":
            body = b""
        if len(body) <= _ONE_WRITE:
            transport.write(head + body)
        else:
            transport.write(head)
            await self._pour(body, chunked=False)
        if unread or self.writing_paused:
            await self._settle(payload)
        return keep

    async def _send_pieces(
        self,
        body: ChunkedBody,
        answer: Response,
        request: Request,
        audit: str,
        message: RawRequestMessage,
        keep: bool,
    ) -> bool:
        """Write an answer whose length is not known before its end."""
        chunked = message.version > HttpVersion10
        if self.transport is not None:
            self.transport.write(self._stream_head(answer, request, audit, chunked=chunked, keep=keep))
        if request.method == "HEAD":
            return False
        try:
            await self._pour(body, chunked=chunked)
        except ConnectionError:
            raise
        except Exception:
            log.exception("%s %s: the answer broke", request.method, request.path)
            self._abort()
            return False
        return keep and chunked

    async def _pour(self, body: bytes | ChunkedBody, *, chunked: bool) -> None:
        """Write a body at the client's pace, within the deadline."""
        deadlines = self._shared.deadlines
        deadlines.arm(self, self._shared.patience.taking)
        try:
            await write_body(
                self,
                body,
                chunked=chunked,
                progress=lambda: deadlines.arm(self, self._shared.patience.taking),
            )
        except asyncio.CancelledError:
            if not self._recovered():
                raise
            self._abort()
            raise ConnectionAbortedError("the client takes too little") from None
        finally:
            deadlines.disarm(self)

    async def _settle(self, payload: StreamReader) -> None:
        """Wait until the client has read the response and sent the rest of its body; disconnect it if
        late."""
        deadlines = self._shared.deadlines
        deadlines.arm(self, self._shared.patience.taking)
        try:
            await self._drain_helper()
            if not payload.is_eof():
                await request_bodies.discard(payload)
        except StatusError:
            pass
        except asyncio.CancelledError:
            if not self._recovered():
                raise
            self._abort()
        finally:
            deadlines.disarm(self)

    def _abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()

    def _stream_head(
        self,
        answer: Response | StreamingResponse,
        request: Request,
        audit: str,
        *,
        chunked: bool,
        keep: bool = True,
    ) -> bytes:
        return self._shared.heads.streaming(
            answer.status,
            answer.content_type,
            audit=audit,
            headers=answer.headers,
            warnings=request.warnings,
            chunked=chunked,
            keep=keep,
        )

    async def _stream(
        self, answer: StreamingResponse, request: Request, audit: str, message: RawRequestMessage
    ) -> bool:
        """Send the head at once, then let the answer write until it ends."""
        transport = self.transport
        if transport is None:
            return False
        chunked = message.version > HttpVersion10
        transport.write(self._stream_head(answer, request, audit, chunked=chunked))
        if request.method == "HEAD":
            return False
        self._doing = ConnectionPhase.SENDING if answer.ends else ConnectionPhase.STREAMING
        sink = ChunkedSink(self) if chunked else PlainSink(self)
        try:
            if not await self._run(answer, lambda: answer.run(sink), request):
                return False
        except Exception:
            log.exception("%s %s: the stream broke", request.method, request.path)
            transport.abort()
            return False
        if chunked and self.transport is not None:
            self.transport.write(LAST_CHUNK)
        return chunked and not (message.should_close or self._dismissed or self._shared.leaving)

    async def _tunnel(self, answer: UpgradedResponse, request: Request, audit: str) -> bool:
        """Switch protocols, then let the answer have the connection, which ends with it."""
        transport = self.transport
        if transport is None:
            return False
        transport.write(self._shared.heads.switching("websocket", audit=audit, headers=answer.headers))
        self._doing = ConnectionPhase.STREAMING
        self._line = line = UpgradedConnection(transport, self._drain_helper, self._message_tail)
        self._message_tail = b""
        self._resume_reading_for_buffer()
        try:
            await self._run(answer, lambda: answer.run(line), request)
        except Exception:
            log.exception("%s %s: the tunnel broke", request.method, request.path)
        return False

    async def _run(
        self,
        answer: StreamingResponse | UpgradedResponse,
        run: Callable[[], Awaitable[None]],
        request: Request,
    ) -> bool:
        """Run a stream until it ends or the server stops; false if its client was disconnected for not
        reading."""
        self._impatient = not answer.patient
        if self._impatient and self.writing_paused:
            self._shared.deadlines.arm(self, self._shared.patience.taking)
        try:
            if not self._ending:
                await run()
        except asyncio.CancelledError:
            if self._recovered():
                log.info("%s %s: the client takes nothing of the stream", request.method, request.path)
                self._abort()
                return False
            if self.transport is None or not self._ending or self._task is None:
                raise
            self._task.uncancel()
        finally:
            self._impatient = False
            self._shared.deadlines.disarm(self)
        return True
