"""One API at several addresses: when one can't be reached, the next is used.

    transport = Failover([way_to_one, way_to_two])
    await transport.request(call)           # at the one that answered last; if unreachable, at the next

A request is repeated elsewhere only if nothing of it was sent; after a timeout the next request goes
elsewhere. Streams from an abandoned server are cut off, as a watch would wait for a machine that is gone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final, Protocol, TypeVar

from pilothouse.client.transport import (
    ClientRequest,
    ClientResponse,
    NotSent,
    ResponseStreamReader,
    Transport,
)

PATIENCE: Final = 2.0
"""Seconds after which an abandoned request counts against its server."""

T = TypeVar("T")

log = logging.getLogger(__name__)


class ServerEndpoint(Transport, Protocol):
    """The way to one server."""

    @property
    def url(self) -> str: ...

    def hang_up(self) -> None:
        """Cut off the streams that are open."""


class Failover:
    def __init__(self, ways: Sequence[ServerEndpoint], *, patience: float = PATIENCE) -> None:
        self._ways = ways
        self._patience = patience
        self._taken = 0

    @property
    def url(self) -> str:
        """Of the server in use."""
        return self._ways[self._taken].url

    async def request(self, call: ClientRequest) -> ClientResponse:
        return await self._first_reached(lambda way: way.request(call))

    @asynccontextmanager
    async def stream(self, call: ClientRequest) -> AsyncIterator[ResponseStreamReader]:
        async with AsyncExitStack() as stack:
            yield await self._first_reached(lambda way: stack.enter_async_context(way.stream(call)))

    async def _first_reached(self, ask: Callable[[ServerEndpoint], Awaitable[T]]) -> T:
        """The result of the first server that is reached."""
        for way in self._in_turn():
            began = asyncio.get_running_loop().time()
            try:
                return await ask(way)
            except NotSent as problem:
                self._leave(way, str(problem))
            except asyncio.CancelledError:
                self._given_up(way, began)
                raise
        raise NotSent(f"none of {', '.join(way.url for way in self._ways)} can be reached")

    def _in_turn(self) -> Sequence[ServerEndpoint]:
        """All endpoints, from the current one on."""
        return [*self._ways[self._taken :], *self._ways[: self._taken]]

    def _given_up(self, way: ServerEndpoint, began: float) -> None:
        waited = asyncio.get_running_loop().time() - began
        if waited >= self._patience:
            self._leave(way, f"{way.url} has not answered for {waited:.1f} s")

    def _leave(self, way: ServerEndpoint, why: str) -> None:
        if self._ways[self._taken] is not way:
            return  # Others have come to the same conclusion.
        self._taken = (self._taken + 1) % len(self._ways)
        log.warning("%s; using %s from here on", why, self.url)
        way.hang_up()
