"""Large objects are decoded, merged, defaulted and validated in a thread, off the event loop.

    obj = await writes.run(request, lambda: decode(call, "Strict", warnings))  # at once if the body is small
    new = await writes.run(request, lambda: merge_patch(live, body), len(stored.value))

That can take seconds for megabytes. The function must depend on the request and the object alone; it reaches
the state of the server through ``on_loop``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from pilothouse.aio.worker_thread import WorkerThread
from pilothouse.apiserver.server.messages import Request

_T = TypeVar("_T")

LARGE: Final = 16 * 1024
"""Bytes of body and stored object from which on a write goes to the thread. Smaller ones take
milliseconds."""


class LargeWrites:
    """The thread of one server. Without ``threads``, as in a simulation, all work is done at once."""

    def __init__(self, *, threads: bool = True) -> None:
        self._worker = WorkerThread() if threads else None

    async def run(self, request: Request, work: Callable[[], _T], stored: int = 0) -> _T:
        """Run the work of a request about a stored object of so many bytes."""
        if self._worker is None or len(request.body) + stored < LARGE:
            return work()
        return await self._worker.run(request.user.name, work)
