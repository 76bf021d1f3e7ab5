"""What goes wrong between one process and the server.

    storm = ConnectionFaults("m0", fortune, Random(7), weather, process)
    api = Api(FaultyTransport(server.transport("m0"), storm), ...)
    storm.part()                 # nothing passes, either way; requests hang until their deadline
    storm.rejoin()
    storm.calm()                 # from here on nothing is late

Each fault is one that the real world has: see ``faults``. Nothing is ever lost from a watch that goes on, for the protocol
does not allow it; one that breaks off, when history is forgotten meanwhile, is what makes a cache list anew.
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
from pilothouse.sim.fault_schedule import CALM, Fault, FaultPoint, FaultProfile, FaultSource, PlannedFault

READS = frozenset({"GET", "HEAD"})


class Crashed(BaseException):
    """The process is dead: nothing in it goes on, and nothing is tidied up."""


class FaultTarget(Protocol):
    """The process that it befalls."""

    def crash(self) -> None: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...


class ConnectionFaults:
    """The weather between one process and the server, through all its lives."""

    def __init__(
        self, who: str, fortune: FaultSource, rng: Random, weather: FaultProfile, victim: FaultTarget
    ) -> None:
        self._who = who
        self._fortune = fortune
        self._rng = rng
        self._weather = weather
        self._victim = victim
        self._counts = dict.fromkeys(FaultPoint, 0)
        self._open = asyncio.Event()
        self._open.set()

    @property
    def writes(self) -> int:
        """How many have been begun."""
        return self._counts[FaultPoint.WRITE]

    def calm(self) -> None:
        """Let nothing be late from here on."""
        self._weather = CALM
        self.rejoin()

    def part(self) -> None:
        """Let nothing pass, in either direction."""
        self._open.clear()

    def rejoin(self) -> None:
        """What was held up and is still waited for goes on."""
        self._open.set()

    async def pass_gate(self) -> None:
        """Wait while parted."""
        await self._open.wait()

    def strikes(self, place: FaultPoint) -> PlannedFault | None:
        """What happens to the next of its kind."""
        number = self._counts[place]
        self._counts[place] = number + 1
        return self._fortune.at(self._who, place, number)

    def crash(self) -> Crashed:
        """End the process; gives what whoever waits for an answer gets."""
        self._victim.crash()
        return Crashed()

    async def stall(self, seconds: float) -> None:
        """Have the process stand still right here."""
        loop = asyncio.get_running_loop()
        self._victim.pause()
        # In a context of nobody's: an alarm of the process's own would stand still with it.
        loop.call_later(seconds, self._victim.resume, context=Context())
        await asyncio.sleep(0)

    async def delay(self) -> None:
        if self._weather.delay:
            await asyncio.sleep(self._rng.uniform(0, self._weather.delay))

    async def lag(self) -> None:
        if self._weather.lag:
            await asyncio.sleep(self._rng.uniform(0, self._weather.lag))


class FaultyTransport:
    """A transport through a storm, for one life of a process."""

    def __init__(self, inner: Transport, storm: ConnectionFaults) -> None:
        self._inner = inner
        self._storm = storm
        self.dead = False
        """The process is: nothing that it still says is heard."""

    async def request(self, call: ClientRequest) -> ClientResponse:
        storm = self._storm
        struck = storm.strikes(FaultPoint.READ if call.method in READS else FaultPoint.WRITE)
        fault = struck.fault if struck is not None else None
        await storm.pass_gate()
        await storm.delay()
        self._live()
        match fault:
            case Fault.CRASH_BEFORE:
                raise storm.crash()
            case Fault.STALL if struck is not None:
                await storm.stall(struck.seconds)
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
            raise storm.crash()
        await storm.pass_gate()
        await storm.delay()
        self._live()
        if fault is Fault.LOST_AFTER:
            raise Interrupted("lost on the way back")
        return answer

    @asynccontextmanager
    async def stream(self, call: ClientRequest) -> AsyncIterator[ResponseStreamReader]:
        await self._storm.pass_gate()
        self._live()
        async with (
            self._inner.stream(call) as stream,
            aclosing(self._through(stream.chunks)) as chunks,
        ):
            yield ResponseStreamReader(stream.status, stream.headers, chunks)

    async def _through(self, chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
        storm = self._storm
        async for chunk in chunks:
            struck = storm.strikes(FaultPoint.PIECE)
            await storm.lag()
            if struck is not None and struck.fault is Fault.HELD:
                await asyncio.sleep(struck.seconds)
            await storm.pass_gate()
            self._live()
            yield chunk
            if struck is not None and struck.fault is Fault.REPEATED:
                yield chunk
            if struck is not None and struck.fault is Fault.CUT:
                raise Interrupted("the watch broke off")

    def _live(self) -> None:
        if self.dead:
            raise Crashed


def _conflict() -> ClientResponse:
    refusal = StatusError(409, "Conflict", "the object has been modified; somebody else was faster")
    return ClientResponse(409, {"Content-Type": "application/json"}, msgspec.json.encode(refusal.to_dict()))
