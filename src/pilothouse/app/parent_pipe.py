"""A child's end of its lifeline (see ``processes``).

    await_begin(descriptor)                 # before the event loop starts: block until the supervisor says so
    stop_when_closed(stop, descriptor)      # in the event loop: stop when the supervisor is gone

From then on the event loop answers liveness probes (``child_liveness``), and SIGUSR2 writes the stacks of all
threads to the log, even if the event loop is stuck.
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

ORPHAN_SECONDS = 5.0
"""How long a process may take to stop in order once its supervisor is gone."""

log = logging.getLogger(__name__)


def await_begin(descriptor: int) -> None:
    """Block until told to begin; exit if the supervisor is gone."""
    if not os.read(descriptor, 1):
        raise SystemExit(0)


def stop_when_closed(stop: ShutdownRequest, descriptor: int) -> None:
    when_closed(descriptor, stop.asked.set)


def when_closed(
    descriptor: int, then: Callable[[], None], *, is_healthy: Callable[[], bool] = lambda: True
) -> None:
    """Call ``then`` at end-of-file. Probes stay unanswered while ``is_healthy`` is false."""
    loop = asyncio.get_running_loop()
    # Programs that this process starts must not inherit it.
    os.set_inheritable(descriptor, False)
    os.set_blocking(descriptor, False)
    faulthandler.register(signal.SIGUSR2)

    def on_readable() -> None:
        try:
            received = os.read(descriptor, 64)
        except BlockingIOError:
            return
        except ConnectionError:
            received = b""
        if ASK in received and is_healthy():
            with contextlib.suppress(BlockingIOError, ConnectionError):
                os.write(descriptor, ANSWER)
        if not received:
            loop.remove_reader(descriptor)
            loop.call_later(ORPHAN_SECONDS, _exit)
            then()

    loop.add_reader(descriptor, on_readable)


def _exit() -> None:
    """What it waits for, such as the server, may be gone too; and the next ``up`` waits for its end."""
    log.warning(
        "the supervisor of this process is gone, and it did not stop within %g s: exiting",
        ORPHAN_SECONDS,
    )
    os._exit(1)
