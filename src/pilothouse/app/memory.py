"""The memory of a long-running server.

What is made while a server starts lives as long as its process. Looking through it again and again, during the start
and after, would be wasted: the collector rests until the start is over, and leaves alone what is there by then. And
what the start used and freed goes back to the system, as do large blocks whenever they are freed later: a list of
megabytes leaves nothing behind.
"""

from __future__ import annotations

import ctypes
import gc

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_LARGE = 512 * 1024
"""Twice what the TLS layer takes for each read and gives back right after it. If such a block came from the system each
time, that would cost a request more than all of its parsing."""


def start_quietly() -> None:
    """Before components are imported: no collections until ``settle``."""
    gc.disable()
    _tell_allocator("mallopt", _M_MMAP_THRESHOLD, _LARGE)
    _tell_allocator("mallopt", _M_TRIM_THRESHOLD, _LARGE)


def settle() -> None:
    """When the start is over. Requests make many short-lived objects and few cycles, so looking seldom is enough."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    gc.enable()
    _tell_allocator("malloc_trim", 0)


def _tell_allocator(function: str, *arguments: int) -> None:
    """Call a function of glibc's allocator; another C library does without."""
    call = getattr(ctypes.CDLL(None), function, None)
    if call is not None:
        call(*arguments)
