"""The garbage collector of a long-running server.

What is made while a server starts lives as long as its process. Looking through it again and again, during the start
and after, would be wasted: the collector rests until the start is over, and leaves alone what is there by then.
"""

from __future__ import annotations

import gc


def start_quietly() -> None:
    """Before components are imported: no collections until ``settle``."""
    gc.disable()


def settle() -> None:
    """When the start is over. Requests make many short-lived objects and few cycles, so looking seldom is enough."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    gc.enable()
