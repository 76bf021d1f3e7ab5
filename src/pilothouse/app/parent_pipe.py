"""A role's end of its lifeline: see ``roles``.

await_word(descriptor)                  # before the loop: whoever looks after us says when
stop_when_closed(stop, descriptor)      # within it: whoever looks after us is gone

From then on the loop answers the parent's questions whether it still runs (``liveness``), and SIGUSR2 has the stacks of all threads
written to the log, which works in a process whose loop is stuck too.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import logging
import os
import signal
from collections.abc import Callable

from pilothouse.app.child_liveness import ANSWER, ASK
from pilothouse.app.graceful_shutdown import ShutdownRequest

ALONE_SECONDS = 5.0
"""How long a role may take to stop in order once nobody looks after it any more."""

log = logging.getLogger(__name__)


def await_word(descriptor: int) -> None:
    """Block until told to begin. Whoever was to tell us may be gone instead: then there is nothing to do."""
    if not os.read(descriptor, 1):
        raise SystemExit(0)


def stop_when_closed(stop: ShutdownRequest, descriptor: int) -> None:
    """Ask for a stop when the other end is closed."""
    when_closed(descriptor, stop.asked.set)


def when_closed(
    descriptor: int, then: Callable[[], None], *, is_well: Callable[[], bool] = lambda: True
) -> None:
    """Have something done when the other end is closed. While it is not well, the process does not answer that it runs."""
    loop = asyncio.get_running_loop()
    # No program that this process starts holds the line too.
    os.set_inheritable(descriptor, False)
    os.set_blocking(descriptor, False)
    faulthandler.register(signal.SIGUSR2)

    def heard() -> None:
        try:
            said = os.read(descriptor, 64)
        except BlockingIOError:
            return
        except ConnectionError:
            said = b""
        if ASK in said and is_well():
            with contextlib.suppress(BlockingIOError, ConnectionError):
                os.write(descriptor, ANSWER)
        if not said:
            loop.remove_reader(descriptor)
            loop.call_later(ALONE_SECONDS, _leave)
            then()

    loop.add_reader(descriptor, heard)


def _leave() -> None:
    """Those whom it waits for, such as the server, may be gone as well; and whoever starts everything anew waits for its end."""
    log.warning(
        "nobody looks after this process any more, and it has not ended in %g s: it is left as it is",
        ALONE_SECONDS,
    )
    os._exit(1)
