"""Stopping a server without an interruption for its clients, who find another instance before it is gone.

    stop = ShutdownRequest.on_signals(asyncio.get_running_loop())
    await stop.asked.wait()
    await stop.drain(server, delay=5.0, grace=30.0)

1. *Leaving*: ``/readyz`` fails; everything is served for ``delay`` seconds, but each response closes its
   connection.
2. *Closing*: no further connections. Watches get all pending events and, if they accept bookmarks, a
   bookmark; then they end. A client continues from there at another instance, and misses nothing.
3. *Finishing*: requests in flight get ``grace`` seconds for their answers; what is left is cut off.

A second SIGTERM or SIGINT skips the remaining waits. A third kills the process.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from typing import Protocol

from pilothouse.aio.race import unless

SIGNALS = (signal.SIGTERM, signal.SIGINT)

log = logging.getLogger(__name__)


class GracefulServer(Protocol):
    def leave(self) -> None:
        """Stop being ready, and close connections as they are used."""

    async def finish(self, grace: float) -> None:
        """Accept nothing further, end watches, and give other requests ``grace`` seconds."""


class ShutdownRequest:
    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.hurried = asyncio.Event()

    @classmethod
    def on_signals(cls, loop: asyncio.AbstractEventLoop) -> ShutdownRequest:
        """The first SIGTERM or SIGINT sets ``asked``, the second ``hurried``."""
        stop = cls()

        def on_signal() -> None:
            if not stop.asked.is_set():
                stop.asked.set()
                return
            stop.hurried.set()
            for number in SIGNALS:
                loop.remove_signal_handler(number)

        for number in SIGNALS:
            loop.add_signal_handler(number, on_signal)
        return stop

    async def drain(self, server: GracefulServer, *, delay: float, grace: float) -> None:
        server.leave()
        if delay:
            log.info("stopping: no longer ready, serving for another %g s", delay)
            await unless(asyncio.sleep(delay), self.hurried.wait())
        if not await unless(server.finish(grace), self.hurried.wait()):
            await server.finish(0)
