"""One connection to one gRPC server: many concurrent calls, each a stream of HTTP/2.

    channel = await Channel.connect("127.0.0.1", 2379, tls=None, patience=5.0)
    answer = await channel.call(block, request, deadline=loop.time() + 10)     # bytes in, bytes out
    stream = channel.stream(block)
    stream.send(message)
    for message in await stream.receive(): ...                                # all that has come, in one turn

Made for many small calls to a near server: a call is a cached header block, the message and a future; all
that is sent in one turn of the loop is one write.

* **Timeouts.** One timer checks all deadlines. A silent connection with waiting calls is pinged, and closed
  without an answer. Then all its calls fail with ``CallFailed``; ``arrived`` is False only if the server has
  certainly not begun.
* **Windows.** Sends wait in order for the server's windows. Received bytes are granted in bulk: for the
  connection at once, for a stream as its reader takes them, so that a slow reader holds up the server.
* **Retirement.** After GOAWAY, or when stream numbers run out, it takes no more calls and closes after the
  last.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import cast

from pilothouse.store.etcd import grpc_messages, grpc_status, hpack, http2_frames
from pilothouse.store.etcd.grpc_status import CallFailed, GrpcStatus
from pilothouse.store.etcd.http2_frames import (
    ACK,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    PADDED,
    PING,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    FrameReader,
    ProtocolError,
    frame,
    head,
    number,
    read_number,
)
from pilothouse.store.etcd.http2_streams import BidiStream, StreamExchange, UnaryCall

_STREAM_WINDOW = 4 << 20
_CONNECTION_WINDOW = 1 << 30
_QUIET, _ANSWERED_WITHIN = 10.0, 5.0
"""Seconds without a byte before a ping, and for its answer. etcd drops clients that ping every five
seconds."""
_REMEMBERED = 256
"""So many distinct header blocks are remembered; a server that does its work sends a handful."""
_MOST_STREAMS = 1 << 31
_GRAIN = 0.05
"""Seconds between two scans for late calls."""


class Channel(asyncio.Protocol):
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.retired = False
        """It takes no more calls."""
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._reader = FrameReader()
        self._greeted: asyncio.Future[None] = loop.create_future()
        """Done when the server has sent its settings: it speaks HTTP/2, and has accepted our certificate."""
        self._lost: Callable[[], CallFailed] | None = None
        """Why there is no connection any more, for calls that come too late and never get anywhere."""
        self._outcomes: dict[bytes, GrpcStatus] = {}
        self._open: dict[int, StreamExchange] = {}
        self._next = 1
        self._waiting: deque[tuple[StreamExchange, bytes, bytes, bool]] = deque()
        """Calls beyond the number of streams that the server takes."""
        self._blocked: dict[int, StreamExchange] = {}
        """Streams with something to send that no window allows, in order."""
        self._window = self._stream_window = http2_frames.WINDOW
        self._most_streams = _MOST_STREAMS
        self._frame_limit = http2_frames.FRAME_LIMIT
        self._owed = 0
        self._outgoing: list[bytes] = []
        self._timer: asyncio.TimerHandle | None = None
        self._heard = False
        self._pinged = False
        self._keepalive_timer = loop.call_later(_QUIET, self._keep_alive)

    @classmethod
    async def connect(cls, host: str, port: int, *, tls: ssl.SSLContext | None, patience: float) -> Channel:
        """Raises ``OSError``, ``TimeoutError`` or ``CallFailed``."""
        loop = asyncio.get_running_loop()
        channel = cls(loop)
        try:
            async with asyncio.timeout(patience):
                await loop.create_connection(lambda: channel, host, port, ssl=tls)
                await channel._greeted
        except BaseException:
            channel.close()
            raise
        return channel

    # Calls

    async def call(self, block: bytes, message: bytes, deadline: float) -> bytes:
        """The answer's message. ``block`` is a request's headers, ``deadline`` a time of the loop."""
        call = UnaryCall(deadline, self._loop.create_future())
        self._begin(call, block, grpc_messages.enveloped(message), True)
        if self._timer is None or deadline < self._timer.when():
            self._arm(deadline)
        try:
            return await call.future
        except asyncio.CancelledError:
            self.abandon(call, CallFailed("CANCELLED", "the request was cancelled"))
            raise

    def stream(self, block: bytes) -> BidiStream:
        stream = BidiStream(self)
        self._begin(stream, block, b"", False)
        return stream

    def _begin(self, exchange: StreamExchange, block: bytes, data: bytes, last: bool) -> None:
        if self._lost is not None:
            exchange.finish(self._lost())
            return
        if self.retired:
            exchange.finish(CallFailed("UNAVAILABLE", "the connection is ending", arrived=False))
            return
        if len(self._open) >= self._most_streams:
            self._waiting.append((exchange, block, data, last))
            return
        exchange.id = id = self._next
        self._next += 2
        if self._next > http2_frames.LARGEST_STREAM:
            self.retired = True
        exchange.window = self._stream_window
        self._open[id] = exchange
        size = len(data)
        whole = last and size <= self._frame_limit and size <= self._window and size <= exchange.window
        if whole and not self._blocked:
            self._window -= size
            self._write(
                head(HEADERS, END_HEADERS, id, len(block)) + block + head(DATA, END_STREAM, id, size) + data
            )
            return
        self._write(frame(HEADERS, END_HEADERS, id, block))
        if data:
            self.send(exchange, data, last=last)

    def send(self, exchange: StreamExchange, data: bytes, *, last: bool) -> None:
        """Send data on a stream, as soon as windows allow."""
        if exchange.id not in self._open:
            if not exchange.id:
                exchange.unsent.append((data, last))
            return
        exchange.unsent.append((data, last))
        self._blocked[exchange.id] = exchange
        self._unblock()

    def _unblock(self) -> None:
        """Send what the windows allow, in order; a stream whose own window is closed holds up no other."""
        for id, exchange in list(self._blocked.items()):
            while exchange.unsent and self._window > 0 and exchange.window > 0:
                data, last = exchange.unsent.popleft()
                size = min(len(data), self._window, exchange.window, self._frame_limit)
                part, rest = data[:size], data[size:]
                if rest:
                    exchange.unsent.appendleft((rest, last))
                self._window -= size
                exchange.window -= size
                self._write(frame(DATA, END_STREAM if last and not rest else 0, id, part))
            if not exchange.unsent:
                del self._blocked[id]
            if self._window <= 0:
                return

    def grant(self, exchange: StreamExchange) -> None:
        """The stream's bytes have been read: let the server send as many again."""
        if exchange.owed >= _STREAM_WINDOW // 2 and exchange.id in self._open:
            self._write(frame(WINDOW_UPDATE, 0, exchange.id, number(exchange.owed)))
            exchange.owed = 0

    def abandon(self, exchange: StreamExchange, failed: CallFailed) -> None:
        """End a call from our side."""
        if self._open.get(exchange.id) is exchange:
            self._write(frame(RST_STREAM, 0, exchange.id, number(http2_frames.CANCEL)))
            self._end(exchange, failed)
        else:
            exchange.finish(failed)

    def _end(self, exchange: StreamExchange, failed: CallFailed | None) -> None:
        """A stream is over; a waiting one may take its place."""
        del self._open[exchange.id]
        if self._blocked:
            self._blocked.pop(exchange.id, None)
        exchange.finish(failed)
        if self._waiting:
            self._admit()
        if self.retired and not self._open:
            self.close()

    def _admit(self) -> None:
        while self._waiting and len(self._open) < self._most_streams:
            exchange, block, data, last = self._waiting.popleft()
            if exchange.done:
                continue
            unsent, exchange.unsent = exchange.unsent, deque()
            self._begin(exchange, block, data, last)
            for data, last in unsent:
                self.send(exchange, data, last=last)

    # Time

    def _arm(self, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(deadline, self._expire)

    def _expire(self) -> None:
        self._timer = None
        now = self._loop.time()
        unbegun = [exchange for exchange, *_ in self._waiting]
        for exchange in [*self._open.values(), *unbegun]:
            if exchange.deadline <= now:
                late = CallFailed("DEADLINE_EXCEEDED", "no answer in time", arrived=bool(exchange.id))
                self.abandon(exchange, late)
        self._waiting = deque(waiting for waiting in self._waiting if waiting[0].deadline > now)
        deadlines = [exchange.deadline for exchange in self._open.values()]
        deadlines += [waiting[0].deadline for waiting in self._waiting]
        if (first := min(deadlines, default=float("inf"))) < float("inf"):
            self._arm(max(first, now + _GRAIN))

    def _keep_alive(self) -> None:
        """etcd accepts pings only while calls are open."""
        if self._pinged and not self._heard:
            self._lose("UNAVAILABLE", f"no sign of life for {_QUIET + _ANSWERED_WITHIN:g} s")
            return
        self._pinged = bool(self._open) and not self._heard
        if self._pinged:
            self._write(frame(PING, 0, 0, bytes(8)))
        self._heard = False
        self._keepalive_timer = self._loop.call_later(
            _ANSWERED_WITHIN if self._pinged else _QUIET, self._keep_alive
        )

    # What comes in

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        secure = transport.get_extra_info("ssl_object")
        if secure is not None and secure.selected_alpn_protocol() != "h2":
            self._lose("UNAVAILABLE", "the server does not speak HTTP/2")
            return
        ours = {
            http2_frames.HEADER_TABLE_SIZE: 0,
            http2_frames.ENABLE_PUSH: 0,
            http2_frames.INITIAL_WINDOW_SIZE: _STREAM_WINDOW,
        }
        self._write(
            http2_frames.PREFACE
            + frame(SETTINGS, 0, 0, http2_frames.settings(ours))
            + frame(WINDOW_UPDATE, 0, 0, number(_CONNECTION_WINDOW - http2_frames.WINDOW))
        )

    def data_received(self, data: bytes) -> None:
        self._heard = True
        open = self._open
        try:
            for kind, flags, id, payload in self._reader.feed(data):
                if kind == DATA:
                    self._owed += len(payload)
                    exchange = open.get(id)
                    if exchange is not None:
                        exchange.owed += len(payload)
                        if exchange.take(http2_frames.unpadded(payload) if flags & PADDED else payload):
                            self.grant(exchange)
                        if flags & END_STREAM:
                            self._end(exchange, grpc_status.failure(GrpcStatus(None, None, "")))
                    else:
                        self._check_known(id)
                elif kind == HEADERS:
                    exchange = open.get(id)
                    if exchange is not None:
                        self._hear(exchange, self._outcome(payload), flags & END_STREAM)
                    else:
                        self._check_known(id)
                elif kind == RST_STREAM:
                    exchange = open.get(id)
                    if exchange is not None:
                        self._end(exchange, grpc_status.reset(read_number(payload)))
                else:
                    self._control(kind, flags, id, payload)
            if self._reader.fault is not None:
                raise self._reader.fault
        except ProtocolError as error:
            self._write(frame(GOAWAY, 0, 0, number(0) + number(error.code)))
            self._flush()
            self._lose("INTERNAL", f"the server does not keep to HTTP/2: {error}")
        if self._owed >= _CONNECTION_WINDOW // 2:
            self._write(frame(WINDOW_UPDATE, 0, 0, number(self._owed)))
            self._owed = 0

    def _check_known(self, id: int) -> None:
        """Late frames of an ended call are ignored; those of an unknown one are an error."""
        if id >= self._next or not id & 1:
            raise ProtocolError(f"stream {id} was never opened")

    def _outcome(self, block: bytes) -> GrpcStatus:
        found = self._outcomes.get(block)
        if found is None:
            try:
                found = grpc_status.outcome(hpack.decoded(block))
            except ValueError as error:
                raise ProtocolError(str(error), http2_frames.COMPRESSION_ERROR) from error
            if len(self._outcomes) >= _REMEMBERED:
                self._outcomes.clear()
            self._outcomes[block] = found
        return found

    def _hear(self, exchange: StreamExchange, status: GrpcStatus, last: int) -> None:
        """Headers or trailers. The server may answer before it has read all of a request, and then needs no
        more."""
        if last:
            if exchange.unsent:
                self._write(frame(RST_STREAM, 0, exchange.id, number(http2_frames.CANCEL)))
            self._end(exchange, grpc_status.failure(status) if status.status != 0 else None)
        elif status.http != 200 and not (status.http and status.http < 200):
            self.abandon(exchange, grpc_status.failure(status))

    def _control(self, kind: int, flags: int, id: int, payload: bytes) -> None:
        if kind == WINDOW_UPDATE:
            self._widen(id, read_number(payload) & http2_frames.LARGEST_WINDOW)
        elif kind == SETTINGS:
            if not flags & ACK:
                self._heed(http2_frames.read_settings(payload))
        elif kind == PING:
            if not flags & ACK:
                self._write(frame(PING, ACK, 0, payload))
        elif kind == GOAWAY:
            self._retire(
                read_number(payload) & http2_frames.LARGEST_STREAM, read_number(payload, 4), payload[8:]
            )

    def _widen(self, id: int, more: int) -> None:
        if not more:
            raise ProtocolError("a window that is widened by nothing")
        if not id:
            self._window += more
            if self._window > http2_frames.LARGEST_WINDOW:
                raise ProtocolError("a window of more than 2 GiB", http2_frames.FLOW_CONTROL_ERROR)
        elif (exchange := self._open.get(id)) is not None:
            exchange.window += more
        if self._blocked:
            self._unblock()

    def _heed(self, values: dict[int, int]) -> None:
        self._frame_limit = values.get(http2_frames.MAX_FRAME_SIZE, self._frame_limit)
        self._most_streams = values.get(http2_frames.MAX_CONCURRENT_STREAMS, self._most_streams)
        before, self._stream_window = (
            self._stream_window,
            values.get(http2_frames.INITIAL_WINDOW_SIZE, self._stream_window),
        )
        for exchange in self._open.values():
            exchange.window += self._stream_window - before
        self._write(frame(SETTINGS, ACK, 0))
        self._unblock()
        self._admit()
        if not self._greeted.done():
            self._greeted.set_result(None)

    def _retire(self, last: int, code: int, words: bytes) -> None:
        """The server ends the connection: it finishes what it has begun, the rest may be retried
        elsewhere."""
        self.retired = True
        details = (
            f"the server is going away: {words.decode(errors='replace') or http2_frames.error_name(code)}"
        )
        unbegun = partial(CallFailed, "UNAVAILABLE", details, arrived=False)
        waiting, self._waiting = self._waiting, deque()
        for exchange, *_ in waiting:
            exchange.finish(unbegun())
        for exchange in list(self._open.values()):
            if exchange.id > last:
                self._end(exchange, unbegun())
        if not self._open:
            self.close()

    # The end

    def connection_lost(self, error: Exception | None) -> None:
        self._lose("UNAVAILABLE", f"the connection was lost: {error or 'closed by the server'}")

    def close(self) -> None:
        self._lose("UNAVAILABLE", "the connection is closed")

    def _lose(self, code: str, details: str) -> None:
        if self._lost is not None:
            return
        self.retired = True
        self._lost = partial(CallFailed, code, details, arrived=False)
        self._keepalive_timer.cancel()
        if self._timer is not None:
            self._timer.cancel()
        begun, waiting = list(self._open.values()), list(self._waiting)
        self._open.clear()
        self._waiting.clear()
        self._blocked.clear()
        for exchange, *_ in waiting:
            exchange.finish(self._lost())
        for exchange in begun:
            exchange.finish(CallFailed(code, details))
        if not self._greeted.done():
            self._greeted.set_exception(self._lost())
            self._greeted.exception()  # The caller may have given up.
        if self._transport is not None:
            # Abort: a close would wait for a hanging server to read what is still to be sent.
            self._transport.abort()

    def _write(self, data: bytes) -> None:
        if not self._outgoing:
            self._loop.call_soon(self._flush)
        self._outgoing.append(data)

    def _flush(self) -> None:
        """Write all of a turn of the loop at once: each write is a system call."""
        outgoing, self._outgoing = self._outgoing, []
        if self._transport is not None and self._lost is None:
            self._transport.write(b"".join(outgoing))
