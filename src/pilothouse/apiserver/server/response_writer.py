"""Writes a body at the pace at which the client reads it.

    await write_body(connection, response.body, chunked=False, progress=rearm)

A transport buffers what it is given, so each part is written only when the previous one is flushed.
``progress`` is called for each ``STRETCH`` sent, to set the next deadline.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Protocol

from pilothouse.apiserver.server.messages import ChunkedBody

PART = 256 * 1024
"""Bytes that are handed over at a time."""
STRETCH = 1024 * 1024
HIGH_WATER, LOW_WATER = 64 * 1024, 0
"""Bytes in a transport's buffer from which on, and down to which, writing pauses."""
LAST_CHUNK = b"0\r\n\r\n"


class ResponseStream(Protocol):
    """The connection. The transport is None once the client is gone."""

    @property
    def transport(self) -> asyncio.Transport | None: ...

    @property
    def open(self) -> bool:
        """Whether the client can still receive."""

    @property
    def writing_paused(self) -> bool: ...

    async def drained(self) -> None:
        """Wait while writing is paused. Raises ConnectionError if the client is gone."""


async def write_body(
    outlet: ResponseStream, body: bytes | ChunkedBody, *, chunked: bool, progress: Callable[[], None]
) -> None:
    """Write a body; returns when the transport has little left of it. Raises ConnectionError if the client
    goes."""
    pieces: Iterable[bytes | memoryview] = (body,) if isinstance(body, bytes) else body.read()
    left = STRETCH
    for piece in pieces:
        view = memoryview(piece)
        for at in range(0, len(view), PART):
            part = view[at : at + PART]
            _write(outlet, part, chunked)
            if outlet.writing_paused:
                await outlet.drained()
            left -= len(part)
            if left <= 0:
                progress()
                # Others have their turn, and the end of the client is seen.
                await asyncio.sleep(0)
                left = STRETCH
        if not isinstance(body, bytes):
            # The next piece takes a while to make.
            await asyncio.sleep(0)
    if chunked and outlet.transport is not None:
        outlet.transport.write(LAST_CHUNK)


def _write(outlet: ResponseStream, part: memoryview, chunked: bool) -> None:
    transport = outlet.transport
    if transport is None or not outlet.open:
        raise ConnectionResetError("the client is gone")
    if chunked:
        # As one record: three would cost more than the copy.
        transport.write(b"".join((b"%x\r\n" % len(part), part, b"\r\n")))
    else:
        transport.write(part)
