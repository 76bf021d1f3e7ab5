"""A SPDY connection with the interface of a WebSocket with channels, for sessions.

socket = SpdySocket(write, options, hold=hold, release=release)
socket.feed_data(data)                       # from the connection
await socket.opened()                        # all streams that the options ask for
await run_session(socket, program, options)
await socket.close()
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from pilothouse.api.kubernetes.pods.stream_options import StreamOptions
from pilothouse.node.server import stream_channels
from pilothouse.node.server.spdy import Ping, SpdyError, SpdyFrames, StreamData, StreamOpened, StreamReset

PROTOCOL: Final = "v4.channel.k8s.io"
OPENING_SECONDS: Final = 30.0
MOST_HELD: Final = 1024 * 1024
"""Received bytes that are not read yet; beyond that reading pauses."""
_TYPE: Final = "streamtype"
_CHANNELS: Final = {
    "stdin": stream_channels.STDIN,
    "stdout": stream_channels.STDOUT,
    "stderr": stream_channels.STDERR,
    "error": stream_channels.ERROR,
    "resize": stream_channels.RESIZE,
}


class SpdySocket:
    def __init__(
        self,
        write: Callable[[bytes], Awaitable[None]],
        options: StreamOptions,
        *,
        hold: Callable[[], None],
        release: Callable[[], None],
    ) -> None:
        """``hold`` and ``release`` pause and resume reading from the client."""
        self._write, self._hold, self._release = write, hold, release
        self._frames = SpdyFrames()
        self._wanted = expected(options)
        self._streams: dict[int, int] = {}
        self._ids: dict[int, int] = {}
        self._all_there = asyncio.Event()
        self._received: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._held = 0
        self._holding = False
        self._sizes = b""
        self._answers: asyncio.Queue[bytes] = asyncio.Queue()
        self._answering = asyncio.ensure_future(self._answer())

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        """Parse received bytes; whether the connection ends, and the rest (none)."""
        try:
            for frame in self._frames.feed(data):
                self._handle(frame)
        except SpdyError:
            self.feed_eof()
            return True, b""
        return False, b""

    def feed_eof(self) -> None:
        self._received.put_nowait(None)

    async def opened(self) -> None:
        """Wait for all streams. Raises ``TimeoutError``."""
        async with asyncio.timeout(OPENING_SECONDS):
            await self._all_there.wait()

    async def receive(self) -> bytes | None:
        message = await self._received.get()
        if message is None:
            self._received.put_nowait(None)
            return None
        self._held -= len(message)
        if self._holding and self._held <= MOST_HELD // 2:
            self._holding = False
            self._release()
        return message

    async def send(self, message: bytes) -> None:
        stream = self._ids.get(message[0])
        if stream is not None and len(message) > 1:
            await self._write(self._frames.data(stream, message[1:]))

    async def close(self) -> None:
        self._answering.cancel()
        try:
            for channel in (stream_channels.STDOUT, stream_channels.STDERR, stream_channels.ERROR):
                if channel in self._ids:
                    await self._write(self._frames.data(self._ids[channel], b"", last=True))
            await self._write(self._frames.goodbye(max(self._streams, default=0)))
        except ConnectionError:
            return

    async def _answer(self) -> None:
        """Send replies to opened streams and pings, in order."""
        while True:
            await self._write(await self._answers.get())
            if self._answers.empty() and self._wanted <= set(self._ids):
                # Only now: no data may precede a stream's reply.
                self._all_there.set()

    def _handle(self, frame: StreamOpened | StreamData | Ping | StreamReset) -> None:
        match frame:
            case StreamOpened(stream, headers):
                channel = _CHANNELS.get(headers.get(_TYPE, ""))
                if channel is None or channel in self._ids:
                    raise SpdyError(f"a stream for {headers.get(_TYPE)!r}, or a second one")
                self._streams[stream], self._ids[channel] = channel, stream
                self._answers.put_nowait(self._frames.accept(stream))
            case StreamData(stream, data, last):
                self._receive_data(self._streams.get(stream), data, last)
            case Ping(answer):
                self._answers.put_nowait(answer)
            case StreamReset(0):
                self.feed_eof()

    def _receive_data(self, channel: int | None, data: bytes, last: bool) -> None:
        if channel == stream_channels.STDIN:
            if data:
                self._put(bytes([stream_channels.STDIN]) + data)
            if last:
                self._put(bytes([stream_channels.CLOSE, stream_channels.STDIN]))
        elif channel == stream_channels.RESIZE:
            *sizes, self._sizes = (self._sizes + data).split(b"\n")
            for size in filter(None, sizes):
                self._put(bytes([stream_channels.RESIZE]) + size)
            if len(self._sizes) > MOST_HELD:
                raise SpdyError("a size of a terminal without an end")

    def _put(self, message: bytes) -> None:
        self._held += len(message)
        self._received.put_nowait(message)
        if self._held > MOST_HELD and not self._holding:
            self._holding = True
            self._hold()


def expected(options: StreamOptions) -> set[int]:
    """The channels that a client opens for these options."""
    wanted = {
        stream_channels.ERROR: True,
        stream_channels.STDIN: options.stdin,
        stream_channels.STDOUT: options.stdout,
        stream_channels.STDERR: options.stderr,
        stream_channels.RESIZE: options.tty,
    }
    return {channel for channel, is_wanted in wanted.items() if is_wanted}
