"""A gRPC server that a test can make do what etcd seldom does, on another implementation of HTTP/2.

async with Peer.listening() as peer:
    channel = await peer.connect()
    peer.answer = lambda message: message.upper()       # or None, to leave calls open
    peer.connection.close_connection(last_stream_id=1)  # h2's own; then
    peer.flush()
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import cast

import h2.config
import h2.connection
import h2.events
import h2.settings

from pilothouse.store.etcd.channel import Channel
from pilothouse.store.etcd.grpc_messages import enveloped
from pilothouse.store.etcd.hpack import request_block

BLOCK = request_block("/test.Service/Call", authority="test", secure=False, metadata=[("hasleader", "true")])
OK = [(":status", "200"), ("content-type", "application/grpc")]
DONE = [("grpc-status", "0"), ("grpc-message", "")]


def echo(message: bytes) -> bytes:
    return message


class Peer(asyncio.Protocol):
    def __init__(self) -> None:
        self.settings: dict[h2.settings.SettingCodes, int] = {}
        self.answer: Callable[[bytes], bytes] | None = echo
        self.takes = True
        """Whether what has come is granted again."""
        self.connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        self.transport: asyncio.Transport | None = None
        self.open: dict[int, bytes] = {}
        self.most_open = 0
        self.reset: list[int] = []
        self.pongs = 0
        self.port = 0
        self._waiters: set[asyncio.Event] = set()
        self._to_send: dict[int, bytes] = {}

    @classmethod
    @contextlib.asynccontextmanager
    async def listening(
        cls, settings: dict[h2.settings.SettingCodes, int] | None = None
    ) -> AsyncIterator[Peer]:
        peer = cls()
        peer.settings = settings or {}
        server = await asyncio.get_running_loop().create_server(lambda: peer, "127.0.0.1", 0)
        peer.port = server.sockets[0].getsockname()[1]
        try:
            yield peer
        finally:
            server.close()
            if peer.transport is not None:
                peer.transport.abort()

    async def connect(self) -> Channel:
        return await Channel.connect("127.0.0.1", self.port, tls=None, patience=10)

    async def until(self, condition: Callable[[], bool]) -> None:
        changed = asyncio.Event()
        self._waiters.add(changed)
        async with asyncio.timeout(30):
            while not condition():
                changed.clear()
                await changed.wait()
        self._waiters.discard(changed)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.connection.local_settings = h2.settings.Settings(client=False, initial_values=self.settings)
        self.connection.max_inbound_frame_size = self.connection.local_settings.max_frame_size
        self.connection.initiate_connection()
        self.flush()

    def data_received(self, data: bytes) -> None:
        for event in self.connection.receive_data(data):
            self._handle(event)
        for stream in list(self._to_send):
            self._send_more(stream)
        self.flush()
        for waiter in self._waiters:
            waiter.set()

    def _handle(self, event: h2.events.Event) -> None:
        if isinstance(event, h2.events.RequestReceived):
            self.open[event.stream_id] = b""
            self.most_open = max(self.most_open, len(self.open))
        elif isinstance(event, h2.events.DataReceived):
            self.open[event.stream_id] += event.data
            if self.takes:
                self.connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.StreamEnded) and self.answer is not None:
            message = self.open[event.stream_id][5:]
            self.begin(event.stream_id)
            self.send(event.stream_id, enveloped(self.answer(message)))
        elif isinstance(event, h2.events.StreamReset):
            self.open.pop(event.stream_id, None)
            self._to_send.pop(event.stream_id, None)
            self.reset.append(event.stream_id)
        elif isinstance(event, h2.events.PingAckReceived):
            self.pongs += 1

    def begin(self, stream: int) -> None:
        self.connection.send_headers(stream, OK)

    def send(self, stream: int, data: bytes) -> None:
        """Send these bytes as windows allow, then the trailers."""
        self._to_send[stream] = self._to_send.get(stream, b"") + data
        self._send_more(stream)

    def unsent(self, stream: int) -> int:
        return len(self._to_send.get(stream, b""))

    def _send_more(self, stream: int) -> None:
        data = self._to_send[stream]
        while data and (room := self.connection.local_flow_control_window(stream)) > 0:
            size = min(room, len(data), self.connection.max_outbound_frame_size)
            self.connection.send_data(stream, data[:size], pad_length=None)
            data = data[size:]
        self._to_send[stream] = data
        if not data:
            del self._to_send[stream]
            self.connection.send_headers(stream, DONE, end_stream=True)
            self.open.pop(stream, None)

    def flush(self) -> None:
        if self.transport is not None:
            self.transport.write(self.connection.data_to_send())
