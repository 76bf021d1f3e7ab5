"""An event loop with virtual time and seeded task order.

    with SeededLoop(seed=7) as loop:
        loop.run_until_complete(main)
        loop.time()                       # minutes later, in milliseconds

When nothing is ready, the loop jumps to the next timer. Tasks that are ready in the same turn run in an order
that the seed decides; callbacks keep their order, since asyncio relies on it. Threads and sockets raise
``Escape``; waiting for something that can't happen raises ``Stuck``, which names the waiting tasks. What was
started in one ``process_of`` context can be paused as a whole, as by SIGSTOP, and resumed.
"""

from __future__ import annotations

import asyncio
import heapq
import random
import selectors
import threading
from collections.abc import Mapping
from contextvars import Context, ContextVar, copy_context
from itertools import count
from typing import Any, NoReturn, cast

_PROCESS: ContextVar[str] = ContextVar("process")


class Stuck(RuntimeError):
    """Nothing is ready and no timer is set, but tasks wait."""


class Escape(RuntimeError):
    """Something tried to leave the simulation."""


class SeededLoop(asyncio.SelectorEventLoop):
    def __init__(self, seed: int = 0) -> None:
        self._elapsed = 0.0
        self._thread = threading.get_ident()
        self.numbers = count(1)
        """The numbers of tasks, in the order of their creation."""
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
        raise Escape("a thread has called into the simulation, which has only one")

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> NoReturn:  # type: ignore[override]
        raise Escape(f"{getattr(func, '__qualname__', func)} wants a thread, and the simulation has only one")

    async def create_connection(self, *args: Any, **named: Any) -> NoReturn:
        raise Escape("the simulation has no network for a connection")

    async def create_server(self, *args: Any, **named: Any) -> NoReturn:
        raise Escape("the simulation has no network for a server")

    def freeze(self, process: str) -> None:
        """Pause a process, as by SIGSTOP: nothing that was started within its ``process_of`` runs."""
        self._frozen.setdefault(process, [])

    def thaw(self, process: str) -> None:
        """Resume a process: what was due meanwhile runs at once, in order."""
        cast("Any", self)._ready.extend(self._frozen.pop(process, ()))

    def _run_once(self) -> None:
        """One turn, without the polling of the base class."""
        self.steps += 1
        base = cast("Any", self)
        ready, scheduled = base._ready, base._scheduled
        self._sweep(base)
        while True:
            self._fire_timers(ready, scheduled)
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
        """Remove cancelled timers once they are the majority."""
        scheduled = base._scheduled
        if base._timer_cancelled_count > 100 and 2 * base._timer_cancelled_count > len(scheduled):
            left = [timer for timer in scheduled if not timer._cancelled]
            for timer in scheduled:
                timer._scheduled = not timer._cancelled
            heapq.heapify(left)
            scheduled[:] = left
            base._timer_cancelled_count = 0

    def _advance(self, scheduled: list[Any]) -> None:
        """Nothing is ready: jump to the next timer."""
        if not scheduled:
            waiting = sorted(task.get_name() for task in asyncio.all_tasks(self) if not task.done())
            raise Stuck(f"nothing will ever wake: {', '.join(waiting) or 'no task'}")
        self._elapsed = max(self._elapsed, scheduled[0]._when)

    def _fire_timers(self, ready: Any, scheduled: list[Any]) -> None:
        while scheduled and (scheduled[0]._when <= self._elapsed or scheduled[0]._cancelled):
            timer = heapq.heappop(scheduled)
            timer._scheduled = False
            if timer._cancelled:
                cast("Any", self)._timer_cancelled_count -= 1
            else:
                ready.append(timer)

    def _hold_back(self, ready: Any) -> None:
        if not self._frozen:
            return
        for _ in range(len(ready)):
            handle = ready.popleft()
            held = self._frozen.get(handle._context.get(_PROCESS, ""))
            (ready if held is None else held).append(handle)

    def _shuffle(self, ready: Any) -> None:
        """Shuffle tasks among themselves; other callbacks keep their position."""
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
    """The context of a process: what is started in it can be paused together."""
    context = copy_context()
    context.run(_PROCESS.set, name)
    return context


class _Numbered(asyncio.Task[Any]):
    """A task whose hash is its number, not its address: asyncio cancels a group in the order of a set."""

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
    """A selector without events."""

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
    """The wall clock of the simulation, or of one machine with skew."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, start: float = 1_767_225_600.0) -> None:
        self._loop = loop
        self._start = start
        self.skew = 0.0
        """The error of this clock, in seconds."""

    def now(self) -> float:
        return self._start + self._loop.time() + self.skew

    def monotonic(self) -> float:
        return self._loop.time()
