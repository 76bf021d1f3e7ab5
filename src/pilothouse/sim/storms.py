"""What goes wrong between a client and the server, by a seed or by hand.

    storm = Storm(random.Random(7), Rates(lost_after=0.02, cut=0.05, delay=0.5))
    api = Api(Stormy(server.transport(), storm), ...)
    storm.pause()                # nothing passes, either way, as if the process had been stopped
    storm.at_write(12, Fault.CRASH_AFTER)
    storm.calm()                 # from here on nothing goes wrong

Each fault is one that the real world has:

* a request is lost before the server has it, or its answer is; or both are late;
* the server answers with a conflict, as it would if somebody else had been faster;
* the process dies before a write is sent, or after it is done and before it knows;
* a watch is slow, breaks off, or tells again what it has told.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from enum import Enum, auto
from random import Random

import msgspec

from pilothouse.client.transport import Answer, Call, Interrupted, NotSent, Stream, Transport
from pilothouse.meta.errors import StatusError

READS = frozenset({"GET", "HEAD"})


class Fault(Enum):
    """What happens to a write."""

    LOST_BEFORE = auto()
    LOST_AFTER = auto()
    CONFLICT = auto()
    CRASH_BEFORE = auto()
    CRASH_AFTER = auto()


class Rates(msgspec.Struct, frozen=True):
    """How often, of one request or piece of a watch; and how long, in seconds, at most."""

    lost_before: float = 0.0
    lost_after: float = 0.0
    conflict: float = 0.0
    crash_before: float = 0.0
    crash_after: float = 0.0
    cut: float = 0.0
    """A watch breaks off."""
    repeated: float = 0.0
    """A piece of a watch comes twice."""
    delay: float = 0.0
    lag: float = 0.0
    """Of a piece of a watch: meanwhile a cache shows what was."""


class Crashed(BaseException):
    """The process is dead: nothing in it goes on, and nothing is tidied up."""


class Storm:
    """The weather between one client and the server."""

    def __init__(self, rng: Random, rates: Rates, *, crash: Callable[[], None]) -> None:
        """``crash`` ends the process."""
        self._rng = rng
        self._rates = rates
        self._crash = crash
        self._planned: dict[int, Fault] = {}
        self._open = asyncio.Event()
        self._open.set()
        self.writes = 0
        """How many have been begun."""
        self.log: list[str] = []
        """What went wrong so far."""

    def calm(self) -> None:
        """Let nothing go wrong from here on."""
        self._rates = Rates()
        self._planned.clear()
        self.resume()

    def at_write(self, number: int, fault: Fault) -> None:
        """Have this happen to the write of this number, counted from 0."""
        self._planned[number] = fault

    def pause(self) -> None:
        """Let nothing pass, in either direction."""
        self._open.clear()

    def resume(self) -> None:
        """What was held up goes on where it was."""
        self._open.set()

    async def pass_gate(self) -> None:
        """Wait while paused."""
        await self._open.wait()

    def next_fault(self, call: Call) -> Fault | None:
        """What happens to a write."""
        number, self.writes = self.writes, self.writes + 1
        fault = self._planned.pop(number, None) or self._drawn()
        if fault is not None:
            self.log.append(f"{fault.name} {call.method} {call.path}")
        return fault

    def crash(self) -> Crashed:
        """End the process; gives what whoever waits for an answer gets."""
        self._crash()
        return Crashed()

    async def delay(self) -> None:
        if self._rates.delay:
            await asyncio.sleep(self._rng.uniform(0, self._rates.delay))

    async def lag(self) -> None:
        if self._rates.lag:
            await asyncio.sleep(self._rng.uniform(0, self._rates.lag))

    def cuts(self) -> bool:
        return self._happens(self._rates.cut, "watch cut")

    def repeats(self) -> bool:
        return self._happens(self._rates.repeated, "watch repeated")

    def loses_a_read(self) -> bool:
        return self._happens(self._rates.lost_before, "read lost")

    def _happens(self, rate: float, what: str) -> bool:
        if not rate or self._rng.random() >= rate:
            return False
        self.log.append(what)
        return True

    def _drawn(self) -> Fault | None:
        drawn, rates = self._rng.random(), self._rates
        for fault, rate in (
            (Fault.LOST_BEFORE, rates.lost_before),
            (Fault.LOST_AFTER, rates.lost_after),
            (Fault.CONFLICT, rates.conflict),
            (Fault.CRASH_BEFORE, rates.crash_before),
            (Fault.CRASH_AFTER, rates.crash_after),
        ):
            if drawn < rate:
                return fault
            drawn -= rate
        return None


class Stormy:
    """A transport through a storm."""

    def __init__(self, inner: Transport, storm: Storm) -> None:
        self._inner = inner
        self._storm = storm

    async def request(self, call: Call) -> Answer:
        storm = self._storm
        fault = storm.next_fault(call) if call.method not in READS else None
        await storm.pass_gate()
        await storm.delay()
        match fault:
            case Fault.CRASH_BEFORE:
                raise storm.crash()
            case Fault.LOST_BEFORE:
                raise NotSent("lost on the way to the server")
            case Fault.CONFLICT:
                return _conflict()
            case None if call.method in READS and storm.loses_a_read():
                raise Interrupted("lost on the way")
            case _:
                pass
        answer = await self._inner.request(call)
        await storm.pass_gate()
        await storm.delay()
        if fault is Fault.CRASH_AFTER:
            raise storm.crash()
        if fault is Fault.LOST_AFTER:
            raise Interrupted("lost on the way back")
        return answer

    @asynccontextmanager
    async def stream(self, call: Call) -> AsyncIterator[Stream]:
        await self._storm.pass_gate()
        async with (
            self._inner.stream(call) as stream,
            aclosing(self._through(stream.chunks)) as chunks,
        ):
            yield Stream(stream.status, stream.headers, chunks)

    async def _through(self, chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
        storm = self._storm
        async for chunk in chunks:
            await storm.lag()
            await storm.pass_gate()
            yield chunk
            if storm.repeats():
                yield chunk
            if storm.cuts():
                raise Interrupted("the watch broke off")


def _conflict() -> Answer:
    refusal = StatusError(409, "Conflict", "the object has been modified; somebody else was faster")
    return Answer(409, {"Content-Type": "application/json"}, msgspec.json.encode(refusal.to_dict()))
