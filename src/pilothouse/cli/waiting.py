"""What a command prints while it waits for a server.

    with waiting_for("https://10.0.0.1:6443") as stop_waiting, send_request(...) as answer:
        stop_waiting()

A wait that ends soon prints nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer
from typing import Final

import click

QUIET_SECONDS: Final = 2.0
"""How long a command waits without a word."""


@contextmanager
def waiting_for(server: str) -> Iterator[Callable[[], None]]:
    """Print which server the command waits for, beside its output, if it takes longer than
    ``QUIET_SECONDS``."""
    timer = Timer(QUIET_SECONDS, click.echo, (f"waiting for {server} …",), {"err": True})
    timer.daemon = True
    timer.start()
    try:
        yield timer.cancel
    finally:
        timer.cancel()
