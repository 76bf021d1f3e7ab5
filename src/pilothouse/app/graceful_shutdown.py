"""Stopping a server so that nobody who uses it has to notice.

    stop = ShutdownRequest.on_signals(asyncio.get_running_loop())
    await stop.asked.wait()
    await stop.drain(server, delay=5.0, grace=30.0)

Three steps, so that clients find another instance before this one is gone:

1. *Leaving*: ``/readyz`` fails, so that whoever balances load sends nobody new; everything is served as before for
   ``delay`` seconds, but each answer says that its connection ends.
2. *Closing*: no new connections. Watches get what has happened and, if they take bookmarks, the mark to go on from;
   then they end properly. A client goes on from there at another instance, and misses nothing.
3. *Finishing*: requests in flight get ``grace`` seconds for their answers; what is left is cut off.

The first SIGTERM or SIGINT asks for this. A second one is in a hurry: it skips what remains of the waiting. A third
ends the process as if it had no handler.
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
    """A server that can be stopped in steps."""

    def leave(self) -> None:
        """Be no longer ready, and let go of connections as they are used."""

    async def finish(self, grace: float) -> None:
        """Take nothing new, end what has no end, and give the rest ``grace`` seconds."""


class ShutdownRequest:
    """The wish that a server should stop, and how urgent it is."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.hurried = asyncio.Event()

    @classmethod
    def on_signals(cls, loop: asyncio.AbstractEventLoop) -> ShutdownRequest:
        """Asked by the first SIGTERM or SIGINT, hurried by the second."""
        stop = cls()

        def heard() -> None:
            if not stop.asked.is_set():
                stop.asked.set()
                return
            stop.hurried.set()
            for number in SIGNALS:
                loop.remove_signal_handler(number)

        for number in SIGNALS:
            loop.add_signal_handler(number, heard)
        return stop

    async def drain(self, server: GracefulServer, *, delay: float, grace: float) -> None:
        """Take the three steps."""
        server.leave()
        if delay:
            log.info("told to stop: no longer ready, serving for another %g s", delay)
            await unless(asyncio.sleep(delay), self.hurried.wait())
        if not await unless(server.finish(grace), self.hurried.wait()):
            await server.finish(0)
