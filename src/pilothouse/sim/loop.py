"""An event loop whose time is virtual and whose chances are seeded.

    with SeededLoop(seed=7) as loop:
        loop.run_until_complete(main)
        loop.time()                       # minutes later, in milliseconds

When nothing is ready to run, the loop jumps to the next alarm instead of sleeping. Tasks that are ready in the same turn run
in an order that the seed decides, as they would on a machine with other work to do; callbacks keep their order, for
asyncio's own parts rely on it. The same seed gives the same run, if the program takes time and chance from the loop alone.

A *process* is whatever was started in one ``process_of`` context. It can be frozen as a whole, as by SIGSTOP, and thawed.

What would leave the bottle is an error that says so: threads, sockets, and waiting for something that nothing in here
will ever do (``Stuck`` names the tasks that wait).
"""

from __future__ import annotations

import asyncio
import heapq
import random
import selectors
import threading
from collections.abc import Callable, Mapping
from contextvars import Context, ContextVar, copy_context
from itertools import count
from typing import Any, NoReturn, cast

_PROCESS: ContextVar[str] = ContextVar("process")


class Stuck(RuntimeError):
    """Nothing is ready, no alarm is set, and yet something is waited for."""


class Escape(RuntimeError):
    """Something tried to leave the bottle."""


class SeededLoop(asyncio.SelectorEventLoop):
    """Virtual time, seeded order."""

    def __init__(self, seed: int = 0) -> None:
        self._elapsed = 0.0
        self._thread = threading.get_ident()
        self.numbers = count(1)
        """Of the tasks, in the order they are made."""
        self._source = random.Random(f"order {seed}")
        self._frozen: dict[str, list[asyncio.Handle]] = {}
        self.steps = 0
        """Turns of the loop so far."""
        super().__init__(_Nothing())
        self.set_task_factory(_Numbered)

    def __enter__(self) -> SeededLoop:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            left = asyncio.all_tasks(self)
            for task in left:
                task.cancel()
            if left:
                self.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            self.run_until_complete(self.shutdown_asyncgens())
        finally:
            self.close()

    def time(self) -> float:
        return self._elapsed

    def call_soon_threadsafe(self, *args: Any, **named: Any) -> asyncio.Handle:  # type: ignore[override]
        if threading.get_ident() == self._thread:
            return self.call_soon(*args, **named)
        raise Escape("a thread has called into the simulation: there is only one in here")

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> NoReturn:  # type: ignore[override]
        raise Escape(f"{getattr(func, '__qualname__', func)} wants a thread: there is only one in here")

    async def create_connection(self, *args: Any, **named: Any) -> NoReturn:
        raise Escape("a connection to the outside: there is no network in here")

    async def create_server(self, *args: Any, **named: Any) -> NoReturn:
        raise Escape("a server for the outside: there is no network in here")

    def freeze(self, process: str) -> None:
        """Have a process stand still, as by SIGSTOP: nothing that was started within ``process_of`` goes on."""
        self._frozen.setdefault(process, [])

    def thaw(self, process: str) -> None:
        """It goes on where it was: what came due meanwhile all at once, in the order it came due."""
        cast("Any", self)._ready.extend(self._frozen.pop(process, ()))

    def _run_once(self) -> None:
        """One turn. The base class's own sleeps, polls and measures; here there is nothing to poll."""
        self.steps += 1
        base = cast("Any", self)
        ready, scheduled = base._ready, base._scheduled
        self._sweep(base)
        while True:
            self._ring(ready, scheduled)
            self._hold_back(ready)
            if ready or base._stopping:
                break
            self._advance(scheduled)
        self._shuffle(ready)
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()

    def _sweep(self, base: Any) -> None:
        """Alarms that were cancelled are thrown out once they are the greater part."""
        scheduled = base._scheduled
        if base._timer_cancelled_count > 100 and 2 * base._timer_cancelled_count > len(scheduled):
            left = [alarm for alarm in scheduled if not alarm._cancelled]
            for alarm in scheduled:
                alarm._scheduled = not alarm._cancelled
            heapq.heapify(left)
            scheduled[:] = left
            base._timer_cancelled_count = 0

    def _advance(self, scheduled: list[Any]) -> None:
        """Nothing is ready: it is as late as the next alarm says."""
        if not scheduled:
            waiting = sorted(task.get_name() for task in asyncio.all_tasks(self) if not task.done())
            raise Stuck(f"nothing will ever wake: {', '.join(waiting) or 'nobody waits'}")
        self._elapsed = max(self._elapsed, scheduled[0]._when)

    def _ring(self, ready: Any, scheduled: list[Any]) -> None:
        """What is due is ready."""
        while scheduled and (scheduled[0]._when <= self._elapsed or scheduled[0]._cancelled):
            alarm = heapq.heappop(scheduled)
            alarm._scheduled = False
            if alarm._cancelled:
                cast("Any", self)._timer_cancelled_count -= 1
            else:
                ready.append(alarm)

    def _hold_back(self, ready: Any) -> None:
        if not self._frozen:
            return
        for _ in range(len(ready)):
            handle = ready.popleft()
            held = self._frozen.get(handle._context.get(_PROCESS, ""))
            (ready if held is None else held).append(handle)

    def _shuffle(self, ready: Any) -> None:
        """Tasks change places among themselves; whatever else is ready stays where it is."""
        if len(ready) < 2:
            return
        handles = list(ready)
        places = [place for place, handle in enumerate(handles) if _steps_a_task(handle)]
        if len(places) < 2:
            return
        chosen = places[:]
        self._source.shuffle(chosen)
        for place, other in zip(places, chosen, strict=True):
            ready[place] = handles[other]


def process_of(name: str) -> Context:
    """The context of a process: what is started in it, and by that, can be frozen together."""
    context = copy_context()
    context.run(_PROCESS.set, name)
    return context


class _Numbered(asyncio.Task[Any]):
    """A task whose place in a set is decided by its number, not by where in memory it happens to lie.

    asyncio keeps the tasks of a group in a set, and cancels them in its order.
    """

    def __init__(self, loop: Any, coro: Any, **named: Any) -> None:
        self._number: int = next(loop.numbers)
        super().__init__(coro, loop=loop, **named)

    def __hash__(self) -> int:
        return self._number

    def __eq__(self, other: object) -> bool:
        return self is other


def _steps_a_task(handle: Any) -> bool:
    return isinstance(getattr(handle._callback, "__self__", None), asyncio.Task)


class _Nothing(selectors.BaseSelector):
    """A selector to which nothing ever happens."""

    def __init__(self) -> None:
        self._keys: dict[int, selectors.SelectorKey] = {}

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        number = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        key = selectors.SelectorKey(fileobj, number, events, data)
        self._keys[number] = key
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._keys.pop(fileobj if isinstance(fileobj, int) else fileobj.fileno())

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        return []

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._keys


class LoopClock:
    """The time of day in the simulation, and a machine's own idea of it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, start: float = 1_767_225_600.0) -> None:
        self._loop = loop
        self._start = start
        self.skew = 0.0
        """By how many seconds this clock is wrong."""

    def now(self) -> float:
        return self._start + self._loop.time() + self.skew

    def monotonic(self) -> float:
        return self._loop.time()
