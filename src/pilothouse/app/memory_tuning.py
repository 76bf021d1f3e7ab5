"""Memory settings of a long-running server.

Objects created during the start live as long as the process: the garbage collector is off until the start is
over, and then skips them (``gc.freeze``). Memory that the start has freed goes back to the system, and code
that only the start has run is unmapped.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import re
from collections.abc import Iterator
from pathlib import Path

_ACCOUNT = Path("/proc/self/smaps")
_MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (.*)")
_OF_A_FILE = re.compile(r"r-[x-]p \S+ \S+ [1-9]\d*\s+/(?!.*\(deleted\)$)")
_MADV_DONTNEED = 4
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_SOON = 4.0
_LARGE = 512 * 1024
"""Twice what the TLS layer takes for each read and frees right after it: to get such a block from the system
each time would cost a request more than all of its parsing."""


def start_quietly() -> None:
    """Before components are imported: no garbage collection until ``settle``."""
    gc.disable()
    _call_allocator("mallopt", _M_MMAP_THRESHOLD, _LARGE)
    _call_allocator("mallopt", _M_TRIM_THRESHOLD, _LARGE)


def settle() -> None:
    """After the start. Requests create few cycles, so rare collections are enough."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    gc.enable()
    _call_allocator("malloc_trim", 0)
    _unmap_code()


def settle_later(loop: asyncio.AbstractEventLoop) -> None:
    """For processes whose start is followed by a burst of work, such as filling caches."""
    loop.call_later(_SOON, settle)


def clean_mappings(smaps: str) -> Iterator[tuple[int, int]]:
    """The read-only, unmodified file mappings in a process's smaps."""
    place: tuple[int, int] | None = None
    for line in smaps.splitlines():
        if head := _MAPPING.match(line):
            place = (int(head[1], 16), int(head[2], 16)) if _OF_A_FILE.match(head[3]) else None
        elif place is not None and line.startswith("Anonymous:"):
            if line.split()[1] == "0":
                yield place
            place = None


def _unmap_code() -> None:
    """Unmap the parts of program and libraries that the start has touched; few are needed again.

    They stay in the page cache, and are mapped again at their next use. Mappings that the loader has modified
    would be lost, and are left alone.
    """
    madvise = getattr(ctypes.CDLL(None), "madvise", None)
    if madvise is None or not _ACCOUNT.exists():
        return
    for start, end in list(clean_mappings(_ACCOUNT.read_text())):
        madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), _MADV_DONTNEED)


def _call_allocator(function: str, *arguments: int) -> None:
    """Call a function of glibc's allocator; another C library does without."""
    call = getattr(ctypes.CDLL(None), function, None)
    if call is not None:
        call(*arguments)
