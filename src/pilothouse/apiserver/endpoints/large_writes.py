"""Writes of large objects: decoded, merged, defaulted and validated beside the event loop, so that others are served meanwhile.

    obj = await writes.run(call.request, lambda: ingest.take(...))                    # at once if the body is small
    new = await writes.run(call.request, lambda: merge_patch(live, body), len(stored.value))

An object of megabytes has tens of thousands of fields, each of which is looked at several times: seconds, in which a server with
one loop would answer nobody. What runs here must be a function of the request and the object; for what belongs to the server it
asks ``on_loop``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from pilothouse.aio.worker_thread import WorkerThread
from pilothouse.apiserver.server.messages import Request

_T = TypeVar("_T")

LARGE: Final = 16 * 1024
"""Bytes of body and stored object from which on a write goes to the thread. What is smaller takes some milliseconds at most, and
the way there and back takes a fraction of one."""


class LargeWrites:
    """The thread of a server for them. Without ``threads``, as in a simulation, all of it is done at once."""

    def __init__(self, *, threads: bool = True) -> None:
        self._worker = WorkerThread() if threads else None

    async def run(self, request: Request, work: Callable[[], _T], stored: int = 0) -> _T:
        """What ``work`` returns for this request, which is about a stored object of so many bytes."""
        if self._worker is None or len(request.body) + stored < LARGE:
            return work()
        return await self._worker.run(request.user.name, work)
