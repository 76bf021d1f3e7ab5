"""A transport that injects faults between one process and the server.

    connection = ConnectionFaults("m0", faults, Random(7), profile, process)
    api = Api(FaultyTransport(server.transport("m0"), connection), ...)
    connection.disconnect()      # nothing passes, either way; requests hang until their deadline
    connection.reconnect()

Each fault is one that real networks have: see ``fault_schedule``. An open watch never loses an event, which
the protocol rules out.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from contextvars import Context
from random import Random
from typing import Protocol

import msgspec

from pilothouse.client.transport import (
    ClientRequest,
    ClientResponse,
    Interrupted,
    NotSent,
    ResponseStreamReader,
    Transport,
)
from pilothouse.meta.errors import StatusError
from pilothouse.sim.fault_schedule import (
    NO_FAULTS,
    Fault,
    FaultPoint,
    FaultProfile,
    FaultSource,
    PlannedFault,
)

READS = frozenset({"GET", "HEAD"})


class Crashed(BaseException):
    """The process is dead: none of its code runs any more, not even clean-up."""


class FaultTarget(Protocol):
    def crash(self) -> None: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...


class ConnectionFaults:
    """The faults between one process and the server, through all restarts of the process."""

    def __init__(
        self, who: str, faults: FaultSource, rng: Random, profile: FaultProfile, process: FaultTarget
    ) -> None:
        self._who = who
        self._faults = faults
        self._rng = rng
        self._profile = profile
        self._process = process
        self._counts = dict.fromkeys(FaultPoint, 0)
        self._open = asyncio.Event()
        self._open.set()

    @property
    def writes(self) -> int:
        """How many writes were started."""
        return self._counts[FaultPoint.WRITE]

    def calm(self) -> None:
        """End all delays, and reconnect."""
        self._profile = NO_FAULTS
        self.reconnect()

    def disconnect(self) -> None:
        self._open.clear()

    def reconnect(self) -> None:
        """Requests that are still waited for go on."""
        self._open.set()

    async def wait_connected(self) -> None:
        await self._open.wait()

    def next_fault(self, point: FaultPoint) -> PlannedFault | None:
        number = self._counts[point]
        self._counts[point] = number + 1
        return self._faults.at(self._who, point, number)

    def crash(self) -> Crashed:
        """Crash the process; returns the exception for the pending request."""
        self._process.crash()
        return Crashed()

    async def stall(self, seconds: float) -> None:
        """Pause the process at this point."""
        loop = asyncio.get_running_loop()
        self._process.pause()
        # In an empty context: a timer of the process would be paused with it.
        loop.call_later(seconds, self._process.resume, context=Context())
        await asyncio.sleep(0)

    async def delay(self) -> None:
        if self._profile.delay:
            await asyncio.sleep(self._rng.uniform(0, self._profile.delay))

    async def lag(self) -> None:
        if self._profile.lag:
            await asyncio.sleep(self._rng.uniform(0, self._profile.lag))


class FaultyTransport:
    """The transport of one start of a process."""

    def __init__(self, inner: Transport, connection: ConnectionFaults) -> None:
        self._inner = inner
        self._connection = connection
        self.dead = False
        """The process has crashed: its requests are dropped."""

    async def request(self, call: ClientRequest) -> ClientResponse:
        connection = self._connection
        planned = connection.next_fault(FaultPoint.READ if call.method in READS else FaultPoint.WRITE)
        fault = planned.fault if planned is not None else None
        await connection.wait_connected()
        await connection.delay()
        self._live()
        match fault:
            case Fault.CRASH_BEFORE:
                raise connection.crash()
            case Fault.STALL if planned is not None:
                await connection.stall(planned.seconds)
                self._live()
            case Fault.LOST_BEFORE:
                raise NotSent("lost on the way to the server")
            case Fault.READ_LOST:
                raise Interrupted("lost on the way")
            case Fault.CONFLICT:
                return _conflict()
            case _:
                pass
        answer = await self._inner.request(call)
        if fault is Fault.CRASH_AFTER:
            raise connection.crash()
        await connection.wait_connected()
        await connection.delay()
        self._live()
        if fault is Fault.LOST_AFTER:
            raise Interrupted("lost on the way back")
        return answer

    @asynccontextmanager
    async def stream(self, call: ClientRequest) -> AsyncIterator[ResponseStreamReader]:
        await self._connection.wait_connected()
        self._live()
        async with (
            self._inner.stream(call) as stream,
            aclosing(self._through(stream.chunks)) as chunks,
        ):
            yield ResponseStreamReader(stream.status, stream.headers, chunks)

    async def _through(self, chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
        connection = self._connection
        async for chunk in chunks:
            planned = connection.next_fault(FaultPoint.CHUNK)
            await connection.lag()
            if planned is not None and planned.fault is Fault.HELD:
                await asyncio.sleep(planned.seconds)
            await connection.wait_connected()
            self._live()
            yield chunk
            if planned is not None and planned.fault is Fault.REPEATED:
                yield chunk
            if planned is not None and planned.fault is Fault.CUT:
                raise Interrupted("the watch broke off")

    def _live(self) -> None:
        if self.dead:
            raise Crashed


def _conflict() -> ClientResponse:
    refusal = StatusError(409, "Conflict", "the object has been modified by another client")
    return ClientResponse(409, {"Content-Type": "application/json"}, msgspec.json.encode(refusal.to_dict()))
