"""gRPC calls and message streams, each over one HTTP/2 stream.

    call = UnaryCall(deadline, future)          # the future has the answer's message, or ``CallFailed``
    stream.send(message)
    for message in await stream.receive(): ...  # all that has come since the last time

They know gRPC's messages; their carrier, the ``channel``, knows the connection.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from typing import Protocol

from pilothouse.store.etcd import grpc_messages
from pilothouse.store.etcd.grpc_messages import MessageReader
from pilothouse.store.etcd.grpc_status import CallFailed
from pilothouse.store.etcd.http2_frames import ProtocolError


class FrameSender(Protocol):
    """The connection, as a stream sees it."""

    def send(self, exchange: StreamExchange, data: bytes, *, last: bool) -> None:
        """Send data, as soon as windows allow."""

    def grant(self, exchange: StreamExchange) -> None:
        """Received bytes have been read: let the server send as many again."""

    def abandon(self, exchange: StreamExchange, failed: CallFailed) -> None: ...


class StreamExchange(ABC):
    """An HTTP/2 stream, for both kinds of calls."""

    __slots__ = ("deadline", "id", "owed", "unsent", "window")

    def __init__(self, deadline: float) -> None:
        self.id = 0
        """0 until it is the call's turn."""
        self.deadline = deadline
        self.window = 0
        """Bytes that the server takes at the moment."""
        self.owed = 0
        """Bytes taken from the server and not yet granted again."""
        self.unsent: deque[tuple[bytes, bool]] = deque()
        """What waits for a window, and whether it is the last."""

    @property
    @abstractmethod
    def done(self) -> bool:
        """Whether its caller no longer waits."""

    @abstractmethod
    def take(self, data: bytes) -> bool:
        """Bytes of the answer. True if they leave nothing waiting for a reader."""

    @abstractmethod
    def finish(self, failed: CallFailed | None) -> None: ...


class UnaryCall(StreamExchange):
    """One message there, one back."""

    __slots__ = ("future", "parts")

    def __init__(self, deadline: float, future: asyncio.Future[bytes]) -> None:
        super().__init__(deadline)
        self.future = future
        self.parts: list[bytes] = []

    @property
    def done(self) -> bool:
        return self.future.done()

    def take(self, data: bytes) -> bool:
        self.parts.append(data)
        return True

    def finish(self, failed: CallFailed | None) -> None:
        if self.future.done():
            return
        if failed is None:
            try:
                self.future.set_result(grpc_messages.opened(self.parts))
            except ProtocolError as error:
                self.future.set_exception(CallFailed("INTERNAL", str(error)))
        else:
            self.future.set_exception(failed)


class BidiStream(StreamExchange):
    """Messages both ways, for as long as both sides like."""

    __slots__ = ("_carrier", "_envelopes", "_failed", "_messages", "_waiter")

    def __init__(self, carrier: FrameSender) -> None:
        super().__init__(float("inf"))
        self._carrier = carrier
        self._envelopes = MessageReader()
        self._messages: list[bytes] = []
        self._failed: CallFailed | None = None
        self._waiter: asyncio.Future[None] | None = None

    @property
    def done(self) -> bool:
        return self._failed is not None

    def send(self, message: bytes) -> None:
        """Send a message; ignored if the stream has ended, which ``receive`` raises."""
        if self._failed is None:
            self._carrier.send(self, grpc_messages.enveloped(message), last=False)

    async def receive(self) -> list[bytes]:
        """Every message that has come since the last call, at least one. Raises ``CallFailed`` at the end."""
        while not self._messages:
            if self._failed is not None:
                raise self._failed
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        messages, self._messages = self._messages, []
        self._carrier.grant(self)
        return messages

    def cancel(self) -> None:
        self._carrier.abandon(self, CallFailed("CANCELLED", "the stream was cancelled"))

    def take(self, data: bytes) -> bool:
        found = self._envelopes.feed(data)
        if found:
            self._messages += found
            self._wake()
        return not self._messages

    def finish(self, failed: CallFailed | None) -> None:
        self._failed = failed or CallFailed("UNAVAILABLE", "the server has ended the stream")
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
