"""One client's connection: HTTP/1.1 in, answers out.

aiohttp's parser and protocol do the reading: requests arrive here parsed, in order, with their bodies as streams. This
module takes over from there. It replaces aiohttp's per-request machinery (a task, a request, a writer and a response
object each) by a loop that makes a ``Request``, awaits the handler and hands head and body to the transport in one
write, which is what makes a read cheap. A plain read like an earlier one is answered before it comes to that, in the call
that brings its bytes, and a plain write like an earlier one needs no parser (``fast_path``).

Invariants:

* Whatever comes in, an answer goes out or the connection ends; each wait has a deadline.
* A request takes its places once its body is here. Until then it has a place among bodies, if it is allowed at all.
* It keeps them until the client has taken the answer, and a client that takes too little is cut off.
* A read or a stream is cancelled when its client goes away; a write is carried through.
* A stream's bytes go straight to the transport. A writer checks ``Sink.buffered`` and holds back.
* A certificate is looked at when a connection begins, so a connection ends with its certificate.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import Enum
from itertools import islice
from time import perf_counter, time
from typing import cast

from aiohttp import web
from aiohttp.http import HttpProcessingError, HttpVersion10, HttpVersion11, RawRequestMessage
from aiohttp.http_exceptions import BadHttpMessage, LineTooLong
from aiohttp.streams import EMPTY_PAYLOAD, StreamReader
from aiohttp.web_protocol import _ErrInfo
from multidict import CIMultiDictProxy
from yarl import URL

from pilothouse.apiserver.audit.audit_policy import COMPLETE, STARTED
from pilothouse.apiserver.audit.request_stage import GONE, Arrival
from pilothouse.apiserver.audit.trail import AuditTrail
from pilothouse.apiserver.authentication.authenticator import (
    Authenticator,
    DependencyUnknownError,
    certified_user,
)
from pilothouse.apiserver.endpoints.error_responses import refusal
from pilothouse.apiserver.flowcontrol.fair_queuing import FlowController, UserFlow, refusal_of, weight_of
from pilothouse.apiserver.metrics.request_metrics import RequestCounters
from pilothouse.apiserver.server import health, request_bodies, websockets
from pilothouse.apiserver.server.fast_path import FastPath, FastRequest
from pilothouse.apiserver.server.health import Health
from pilothouse.apiserver.server.limits import ClientTimeouts, Deadlines, allowance
from pilothouse.apiserver.server.messages import (
    Answer,
    ChunkedBody,
    Request,
    Response,
    StreamingResponse,
    UpgradedResponse,
    User,
)
from pilothouse.apiserver.server.request_boundaries import RequestBoundary, RequestHead
from pilothouse.apiserver.server.request_targets import LONGEST, split
from pilothouse.apiserver.server.response_heads import ResponseHeads
from pilothouse.apiserver.server.response_writer import HIGH_WATER, LAST_CHUNK, LOW_WATER, write_body
from pilothouse.apiserver.server.stream_sinks import ChunkedSink, PlainSink
from pilothouse.apiserver.server.upgraded_connection import UpgradedConnection
from pilothouse.meta.errors import StatusError, bad_request, internal, timeout

Handler = Callable[[Request], Awaitable[Answer]]
HeadCheck = Callable[[Request], None]
"""Raises for a request that would be refused whatever its body is."""

MAX_LINE = 64 * 1024
MAX_HEADERS = 256
MAX_HEAD = 1024 * 1024
"""Bytes of all lines before the body, which anybody may send."""
MAX_AUDIT_ID = 64
_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_ONE_WRITE = 64 * 1024
"""Up to this size, joining head and body costs less than a second write."""
_REFUSED = frozenset({401, 403})
_NOSNIFF = ("X-Content-Type-Options", "nosniff")
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_NOWHERE = URL()
_VERSIONS = (HttpVersion11, HttpVersion10)
_NEW_LINE = (b"\r", b"\n")

log = logging.getLogger(__name__)


@dataclass(kw_only=True)
class ServerContext:
    """What all connections of a server have in common."""

    handler: Handler
    authenticator: Authenticator
    health: Health
    shares: FlowController
    requests: RequestCounters
    deadlines: Deadlines
    heads: ResponseHeads
    patience: ClientTimeouts
    check_head: HeadCheck | None = None
    """Asked before a body is waited for."""
    fast_path: FastPath | None = None
    """Answers plain reads at once; None if every request goes to the parser and the handler."""
    trail: AuditTrail | None = None
    """Where requests are recorded, if they are."""
    leaving: bool = False
    """Connections end with their next answer."""
    draining: bool = False
    """Streams without an end of their own end too, and nothing is waited for that has not begun."""
    connections: set[Connection] = field(default_factory=set)


class ConnectionPhase(Enum):
    """What a connection is about, which decides what a lost client or a shutdown does to it."""

    WAITING = "waiting for a request"
    RECEIVING = "receiving a body"
    READING = "answering a read"
    WRITING = "carrying out a write"
    SENDING = "sending an answer"
    STREAMING = "streaming"


class Connection(web.RequestHandler):
    """Serves one connection, one request after the other."""

    __slots__ = (
        "_boundary",
        "_certificate_end",
        "_certified",
        "_dismissed",
        "_doing",
        "_expired",
        "_fast_request",
        "_finished",
        "_flow",
        "_heading",
        "_impatient",
        "_incoming",
        "_line",
        "_peer",
        "_shared",
        "_task",
        "_weight",
    )

    def __init__(self, server: web.Server, shared: ServerContext, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(
            server,
            loop=loop,
            keepalive_timeout=shared.patience.idle,
            access_log=None,  # type: ignore[arg-type]
            logger=log,
            max_line_size=MAX_LINE,
            max_field_size=MAX_LINE,
            max_headers=MAX_HEADERS,
            auto_decompress=False,
        )
        self._shared = shared
        self._boundary = RequestBoundary()
        self._task: asyncio.Task[None] | None = None
        self._doing = ConnectionPhase.WAITING
        self._expired = False
        self._incoming: StreamReader = EMPTY_PAYLOAD
        self._fast_request: FastRequest | None = None
        """A request that the fast path has read; it precedes those in ``_messages``."""
        self._line: UpgradedConnection | None = None
        self._peer = ""
        self._certified: User | None = None
        self._certificate_end: asyncio.TimerHandle | None = None
        self._dismissed = False
        self._finished = False
        """The client has ended its side, and TLS has no half of a connection: nothing reaches it any more."""
        self._flow: UserFlow | None = None
        self._weight = 0
        """What the request under way has of its user's share."""
        self._impatient = False
        """A stream is going out whose client has to take what there is."""
        self._heading = 0
        """Bytes of a head that is not complete yet."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._shared.connections.add(self)
        if certificate := transport.get_extra_info("peercert"):
            encoded = transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
            self._certified = certified_user(certificate, encoded)
            left = ssl.cert_time_to_seconds(certificate["notAfter"]) - time()
            self._certificate_end = self._loop.call_later(max(left, 0.0), self.dismiss)
        host, port = (transport.get_extra_info("peername") or ("", 0))[:2]
        self._peer = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        cast("asyncio.Transport", transport).set_write_buffer_limits(HIGH_WATER, LOW_WATER)
        super().connection_made(transport)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._impatient:
            self._shared.deadlines.arm(self, self._shared.patience.taking)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._impatient:
            self._shared.deadlines.disarm(self)

    def eof_received(self) -> None:
        self._finished = True

    @property
    def open(self) -> bool:
        """Whether what is written still goes anywhere."""
        return not (self._finished or self.transport is None or self.transport.is_closing())

    async def drained(self) -> None:
        """Wait while the client takes nothing."""
        await self._drain_helper()

    def data_received(self, data: bytes) -> None:
        if self._line is not None:
            self._line.feed(data)
            return
        fast_path, boundary = self._shared.fast_path, self._boundary
        if fast_path is not None and boundary.clear and self._idle() and self._took(fast_path, data):
            return
        at_boundary, queued = boundary.clear, len(self._messages)
        if at_boundary and data.startswith(_NEW_LINE):
            # The parser would pass over it.
            self._put_garbage("it begins with an empty line")
        else:
            super().data_received(data)
        arrived = [_head(message) for message, _ in islice(self._messages, queued, None)]
        boundary.follow(data, arrived)
        if fast_path is not None and at_boundary and boundary.clear and arrived and arrived[0] is not None:
            fast_path.learn(data, arrived[0])
        if self._doing is ConnectionPhase.RECEIVING and self._messages:
            message = self._messages[-1][0]
            if not isinstance(message, RawRequestMessage):
                # The parser gave up in the middle of a body, whose reader would otherwise wait for the rest.
                self._incoming.set_exception(message.exc)
        self._measure_head(len(data))

    def _put_garbage(self, problem: str) -> None:
        """Queue what is no request, as the parser does."""
        found = BadHttpMessage(problem)
        self._messages.append((_ErrInfo(status=400, exc=found, message=problem), EMPTY_PAYLOAD))
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _measure_head(self, more: int) -> None:
        """See that a head which does not end is not kept for ever."""
        waiting = (self._waiter is not None or self._task is None) and not self._messages
        begun = self._heading > 0
        self._heading = self._heading + more if waiting else 0
        if self._heading > MAX_HEAD:
            self._end_with(
                StatusError(431, "BadRequest", f"the request's headers are longer than {MAX_HEAD} bytes")
            )
            self.force_close()
        elif begun != (self._heading > 0):
            deadlines = self._shared.deadlines
            deadlines.disarm(self) if begun else deadlines.arm(self, self._shared.patience.head)

    def _idle(self) -> bool:
        """Whether a request would be taken up at once: the task waits for one, and nothing is in its way."""
        waiter = self._waiter
        return (
            waiter is not None
            and not waiter.done()
            and not (self._asked or self._force_close or self._shared.leaving)
        )

    @property
    def _asked(self) -> bool:
        """Whether there is a request that has not been taken up."""
        return self._fast_request is not None or bool(self._messages)

    def _took(self, fast_path: FastPath, data: bytes) -> bool:
        """Answer or queue a request without the parser; false if the parser has to read it."""
        if data.startswith(b"GET "):
            return self._reply_at_once(fast_path, data)
        self._fast_request = fast_path.open(data)
        if self._fast_request is None or self._waiter is None:
            return False
        self._waiter.set_result(None)
        return True

    def _reply_at_once(self, fast_path: FastPath, data: bytes) -> bool:
        """Answer a request without waking the task; false if that can't be done."""
        if self.transport is None:
            return False
        reply = fast_path.reply(data, self._certified, self._peer)
        if reply is None:
            return False
        self.transport.write(reply)
        self._wait_at_most(self._shared.patience.idle)
        if self.writing_paused and self._waiter is not None:
            # The client does not take what it gets; the task sees to that, as after any other answer.
            self._waiter.set_result(None)
        return True

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        if self._line is not None:
            self._line.lost()
        if self._certificate_end is not None:
            self._certificate_end.cancel()
        if self._doing is not ConnectionPhase.WRITING and self._task is not None:
            self._task.cancel()

    @property
    def task(self) -> asyncio.Task[None] | None:
        """What serves this connection; None once it is done."""
        return self._task

    def expire(self) -> None:
        """The deadline of what is being done has passed."""
        if self._heading:
            self._end_with(StatusError(408, "Timeout", "the head of the request did not arrive in time"))
            self.force_close()
            return
        self._expired = True
        if self._task is not None:
            self._task.cancel()

    def drain(self) -> None:
        """The server is to stop: end what has no end, let the rest finish."""
        if self._doing is ConnectionPhase.WAITING and not self._asked:
            self.force_close()
        elif self._doing is ConnectionPhase.STREAMING and self._task is not None:
            self._task.cancel()

    def dismiss(self) -> None:
        """The certificate is no longer good: finish what was begun, then end. Without one nothing happens."""
        if self._certified is not None:
            self._dismissed = True
            self.drain()

    @property
    def _ending(self) -> bool:
        return self._dismissed or self._shared.draining

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
            if not self._asked:
                self._waiter = self._loop.create_future()
                try:
                    await self._waiter
                finally:
                    self._waiter = None
            if not self._asked:
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
            if self._asked:
                # Thousands of requests fit into one read; those of others are answered in between.
                await asyncio.sleep(0)
        if self.transport is not None:
            self.transport.close()

    def _take(self) -> tuple[RawRequestMessage | BaseException, StreamReader, bytes]:
        """The next request, or why there is none; and its body, if all of it is here."""
        if (request := self._fast_request) is not None:
            self._fast_request = None
            return _message(request), EMPTY_PAYLOAD, request.body
        message, payload = self._messages.popleft()
        if self._parser is not None:
            self._parser.message_consumed()
        if self._buffer_paused and len(self._messages) <= self._msg_queue_resume_size:
            self._resume_reading_if_drained()
        return message if isinstance(message, RawRequestMessage) else message.exc, payload, b""

    def _leave(self) -> None:
        """Give back what the request had of its user's share."""
        if self._flow is not None:
            self._flow.leave(self._weight)
            self._flow = None

    def _leave_with(self, answer: StreamingResponse | UpgradedResponse) -> None:
        """Give it back now, or when the beginning of a stream has been written; at the latest when the stream ends."""
        if answer.begun is not None and self._flow is not None:
            flow, weight, self._flow = self._flow, self._weight, None
            answer.begun.add_done_callback(lambda _: flow.leave(weight))
        else:
            self._leave()

    async def _see_taken(self) -> None:
        """See that the client takes what was answered at once."""
        self._doing = ConnectionPhase.SENDING
        if self.transport is not None:
            await self._settle(EMPTY_PAYLOAD)
        self._doing = ConnectionPhase.WAITING

    def _wait_at_most(self, seconds: float) -> None:
        """Let aiohttp's timer close the connection if no request comes."""
        self._next_keepalive_close_time = due = self._loop.time() + seconds
        if self._keepalive_handle is None:
            self._keepalive_handle = self._loop.call_at(due, self._process_keepalive)

    async def _exchange(self, message: RawRequestMessage, payload: StreamReader, body: bytes) -> bool:
        """Answer one request, whose body is here or is still to be read; false if the connection ends with it."""
        shared = self._shared
        began = perf_counter()
        # Until it is found to be good, the path is as it came, but for its length: paths are remembered further in.
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
            if self._doing is ConnectionPhase.RECEIVING:
                answer = refusal(
                    StatusError(408, "Timeout", "the body of the request did not arrive in time")
                )
            else:
                answer = refusal(timeout("request did not complete within the allotted timeout"))
        except Exception as error:
            log.exception("%s %s: the handler broke", request.method, request.path)
            request.crashed = True
            answer = refusal(internal(f"{type(error).__name__}; the log of the server has details"))
        finally:
            shared.deadlines.disarm(self)
        endless = not isinstance(answer, Response)
        shared.requests.saw(request, answer.status, endless, perf_counter() - began)
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
        """Record a request and its outcome in the audit trail."""
        if arrival is not None and self._shared.trail is not None:
            self._shared.trail.saw(arrival, request, status, answer, stage)

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
        """Whether a cancellation was the deadline's, in which case it is taken back."""
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
        """Write a whole answer, and see that the client takes it."""
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
        head = self._shared.heads.streaming(
            answer.status,
            answer.content_type,
            audit=audit,
            headers=answer.headers,
            warnings=request.warnings,
            chunked=chunked,
            keep=keep,
        )
        if self.transport is not None:
            self.transport.write(head)
        if request.method == "HEAD":
            return False
        try:
            await self._pour(body, chunked=chunked)
        except ConnectionError:
            raise
        except Exception:
            log.exception("%s %s: the answer broke", request.method, request.path)
            if self.transport is not None:
                self.transport.abort()
            return False
        return keep and chunked

    async def _pour(self, body: bytes | ChunkedBody, *, chunked: bool) -> None:
        """Write a body as the client takes it, in no more time than it is given."""
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
            if self.transport is not None:
                self.transport.abort()
            raise ConnectionAbortedError("the client takes too little") from None
        finally:
            deadlines.disarm(self)

    async def _settle(self, payload: StreamReader) -> None:
        """Wait until the client has taken the answer and sent what it was sending; drop it if that takes too long."""
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
            if self.transport is not None:
                self.transport.abort()
        finally:
            deadlines.disarm(self)

    async def _stream(
        self, answer: StreamingResponse, request: Request, audit: str, message: RawRequestMessage
    ) -> bool:
        """Send the head at once, then let the answer write until it ends."""
        transport = self.transport
        if transport is None:
            return False
        chunked = message.version > HttpVersion10
        transport.write(
            self._shared.heads.streaming(
                answer.status,
                answer.content_type,
                audit=audit,
                headers=answer.headers,
                warnings=request.warnings,
                chunked=chunked,
            )
        )
        if request.method == "HEAD":
            return False
        self._doing = ConnectionPhase.SENDING if answer.ends else ConnectionPhase.STREAMING
        self._impatient = not answer.patient
        if self._impatient and self.writing_paused:
            self._shared.deadlines.arm(self, self._shared.patience.taking)
        try:
            if not self._ending:
                await answer.run(ChunkedSink(self) if chunked else PlainSink(self))
        except asyncio.CancelledError:
            if self._recovered():
                log.info("%s %s: the client takes nothing of the stream", request.method, request.path)
                transport.abort()
                return False
            if self.transport is None or not self._ending or self._task is None:
                raise
            self._task.uncancel()
        except Exception:
            log.exception("%s %s: the stream broke", request.method, request.path)
            transport.abort()
            return False
        finally:
            self._impatient = False
            self._shared.deadlines.disarm(self)
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
        self._line = UpgradedConnection(transport, self._drain_helper, self._message_tail)
        self._message_tail = b""
        self._resume_reading_for_buffer()
        self._impatient = not answer.patient
        if self._impatient and self.writing_paused:
            self._shared.deadlines.arm(self, self._shared.patience.taking)
        try:
            if not self._ending:
                await answer.run(self._line)
        except asyncio.CancelledError:
            if self._recovered():
                log.info("%s %s: the client takes nothing of the stream", request.method, request.path)
                transport.abort()
                return False
            if self.transport is None or not self._ending or self._task is None:
                raise
            self._task.uncancel()
        except Exception:
            log.exception("%s %s: the tunnel broke", request.method, request.path)
        finally:
            self._impatient = False
            self._shared.deadlines.disarm(self)
        return False

    def _refuse_garbage(self, problem: BaseException) -> None:
        """Answer what could not be parsed as HTTP. Where the next request would begin is unknown, so this is the end."""
        if isinstance(problem, LineTooLong):
            error = StatusError(
                431, "BadRequest", f"the request line or a header is longer than {MAX_LINE} bytes"
            )
        else:
            detail = str(problem.message if isinstance(problem, HttpProcessingError) else problem)
            error = bad_request(f"the request is not valid HTTP: {' '.join(detail.split())[:200]}")
        self._end_with(error)

    def _end_with(self, error: StatusError) -> None:
        if self.transport is None:
            return
        answer = refusal(error)
        body = bytes(answer.body)
        heads = self._shared.heads
        head = heads.whole(answer.status, answer.content_type, len(body), audit=heads.mint(), keep=False)
        self.transport.write(head + body)


def _message(request: FastRequest) -> RawRequestMessage:
    """What the parser would have made of a request. That its headers are text has been seen."""
    headers = cast("CIMultiDictProxy[str]", request.headers)
    return RawRequestMessage(
        request.method, request.target, HttpVersion11, headers, (), False, None, False, False, _NOWHERE
    )


def _head(message: object) -> RequestHead | None:
    """What the parser found, unless it could make nothing of it."""
    return message if isinstance(message, RawRequestMessage) else None
