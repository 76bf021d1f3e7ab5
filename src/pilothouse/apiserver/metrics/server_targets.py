"""``/pilothouse/v1/server-targets``: all API servers of the store, for Prometheus' HTTP discovery.

    [{"targets": ["10.0.0.7:6443", "10.0.0.8:6443"]}]

A single server is listed at the address that Prometheus has used.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from urllib.parse import urlsplit

from pilothouse.apiserver.metrics.server_metrics import refuse_writes
from pilothouse.apiserver.server.messages import Request, Response
from pilothouse.apiserver.server_instances import ServerInstance
from pilothouse.apiserver.storage import codec

PATH = "/pilothouse/v1/server-targets"


class ServerTargets:
    """Lists the servers. ``running`` are the instances that share the store, if there can be others."""

    def __init__(self, running: Callable[[], Awaitable[Sequence[ServerInstance]]]) -> None:
        self._running = running

    async def answer(self, request: Request) -> Response:
        refuse_writes(request)
        found = [urlsplit(each.url).netloc for each in await self._running()]
        return Response(200, codec.dump([{"targets": found or [request.headers.get("Host", "")]}]))
