"""The protocol side of a client connection: bytes in, parsed requests out.

aiohttp's protocol parses; ``fast_path`` answers or reads plain requests before that. ``connection`` takes the
requests from here. Heads are bounded in size and time, and a connection ends when its client certificate
expires, since the certificate is verified when the connection begins.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import Enum
from itertools import islice
from time import time
from typing import cast

from aiohttp import web
from aiohttp.http import HttpProcessingError, HttpVersion11, RawRequestMessage
from aiohttp.http_exceptions import BadHttpMessage, LineTooLong
from aiohttp.streams import EMPTY_PAYLOAD, StreamReader
from aiohttp.web_protocol import _ErrInfo
from multidict import CIMultiDictProxy
from yarl import URL

from pilothouse.apiserver.audit.trail import AuditTrail
from pilothouse.apiserver.authentication.authenticator import Authenticator, certified_user
from pilothouse.apiserver.endpoints.error_responses import refusal
from pilothouse.apiserver.flowcontrol.fair_queuing import FlowController
from pilothouse.apiserver.metrics.request_metrics import RequestCounters
from pilothouse.apiserver.server.fast_path import FastPath, FastRequest
from pilothouse.apiserver.server.health import Health
from pilothouse.apiserver.server.limits import ClientTimeouts, Deadlines
from pilothouse.apiserver.server.messages import Answer, Request, User
from pilothouse.apiserver.server.request_boundaries import RequestBoundary, RequestHead
from pilothouse.apiserver.server.response_heads import ResponseHeads
from pilothouse.apiserver.server.response_writer import HIGH_WATER, LOW_WATER
from pilothouse.apiserver.server.upgraded_connection import UpgradedConnection
from pilothouse.meta.errors import StatusError, bad_request

Handler = Callable[[Request], Awaitable[Answer]]
HeadCheck = Callable[[Request], None]
"""Raises for a request that would be refused whatever its body is."""

MAX_LINE = 64 * 1024
MAX_HEADERS = 256
MAX_HEAD = 1024 * 1024
"""Bytes of all lines before the body, from unauthenticated clients too."""
_NOWHERE = URL()
_NEW_LINE = (b"\r", b"\n")

log = logging.getLogger(__name__)


@dataclass(kw_only=True)
class ServerContext:
    """What the connections of a server share."""

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
    connections: set[HttpProtocol] = field(default_factory=set)


class ConnectionPhase(Enum):
    """What a connection does, which decides what a lost client or a shutdown does to it."""

    WAITING = "waiting for a request"
    RECEIVING = "receiving a body"
    READING = "answering a read"
    WRITING = "carrying out a write"
    SENDING = "sending an answer"
    STREAMING = "streaming"


class HttpProtocol(web.RequestHandler):
    __slots__ = (
        "_boundary",
        "_certificate_end",
        "_certified",
        "_dismissed",
        "_doing",
        "_expired",
        "_fast_request",
        "_finished",
        "_heading",
        "_impatient",
        "_incoming",
        "_line",
        "_peer",
        "_shared",
        "_task",
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
        """Whether the client can still receive."""
        return not (self._finished or self.transport is None or self.transport.is_closing())

    async def drained(self) -> None:
        """Wait while writing is paused."""
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
        """Queue an invalid request, as the parser does."""
        found = BadHttpMessage(problem)
        self._messages.append((_ErrInfo(status=400, exc=found, message=problem), EMPTY_PAYLOAD))
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _measure_head(self, more: int) -> None:
        """Limit the size of an incomplete head, and set its deadline."""
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
        """Whether a request would be served at once."""
        waiter = self._waiter
        return (
            waiter is not None
            and not waiter.done()
            and not (self._pending or self._force_close or self._shared.leaving)
        )

    @property
    def _pending(self) -> bool:
        """Whether a request is queued."""
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
        """The task that serves this connection; None once it is done."""
        return self._task

    def expire(self) -> None:
        """The current deadline has passed."""
        if self._heading:
            self._end_with(StatusError(408, "Timeout", "the head of the request did not arrive in time"))
            self.force_close()
            return
        self._expired = True
        if self._task is not None:
            self._task.cancel()

    def drain(self) -> None:
        """For shutdown: end streams, let the rest finish."""
        if self._doing is ConnectionPhase.WAITING and not self._pending:
            self.force_close()
        elif self._doing is ConnectionPhase.STREAMING and self._task is not None:
            self._task.cancel()

    def dismiss(self) -> None:
        """The certificate is no longer valid: finish the current request, then close. Ignored without one."""
        if self._certified is not None:
            self._dismissed = True
            self.drain()

    @property
    def _ending(self) -> bool:
        return self._dismissed or self._shared.draining

    def _take(self) -> tuple[RawRequestMessage | BaseException, StreamReader, bytes]:
        """The next request, or why it is invalid; and its body, if complete."""
        if (request := self._fast_request) is not None:
            self._fast_request = None
            return _message(request), EMPTY_PAYLOAD, request.body
        message, payload = self._messages.popleft()
        if self._parser is not None:
            self._parser.message_consumed()
        if self._buffer_paused and len(self._messages) <= self._msg_queue_resume_size:
            self._resume_reading_if_drained()
        return message if isinstance(message, RawRequestMessage) else message.exc, payload, b""

    def _wait_at_most(self, seconds: float) -> None:
        """Let aiohttp's timer close the connection if no request comes."""
        self._next_keepalive_close_time = due = self._loop.time() + seconds
        if self._keepalive_handle is None:
            self._keepalive_handle = self._loop.call_at(due, self._process_keepalive)

    def _refuse_garbage(self, problem: BaseException) -> None:
        """Answer what is not HTTP and close: where the next request would begin is unknown."""
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
    """A request of the fast path as the parser would return it. Its headers are known to be text."""
    headers = cast("CIMultiDictProxy[str]", request.headers)
    return RawRequestMessage(
        request.method, request.target, HttpVersion11, headers, (), False, None, False, False, _NOWHERE
    )


def _head(message: object) -> RequestHead | None:
    """The parsed request; None for an invalid one."""
    return message if isinstance(message, RawRequestMessage) else None
