"""An event loop whose time is virtual and whose chances are seeded.

    with SeededLoop(seed=7) as loop:
        loop.run_until_complete(scenario())
        loop.time()                       # minutes later, in milliseconds

When nothing is ready to run, the loop jumps to the next alarm instead of sleeping. Tasks that are ready in the same turn run
in an order that the seed decides, as they would on a machine with other work to do; callbacks keep their order, for
asyncio's own parts rely on it. The same seed gives the same run, if the program takes time and chance from the loop alone.

What would leave the bottle is an error that says so: threads, sockets, and waiting for something that nothing in here
will ever do (``Stuck`` names the tasks that wait).
"""

from __future__ import annotations

import asyncio
import random
import selectors
import threading
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any, NoReturn, cast


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
        self.steps = 0
        """Turns of the loop so far."""
        super().__init__(_Nothing(self._pass))
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

    def _run_once(self) -> None:
        self.steps += 1
        self._shuffle()
        super()._run_once()  # type: ignore[misc]

    def _shuffle(self) -> None:
        """Tasks change places among themselves; whatever else is ready stays where it is."""
        ready = cast("Any", self)._ready
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

    def _pass(self, seconds: float | None) -> None:
        """Called where another loop would sleep."""
        if seconds is None:
            waiting = sorted(task.get_name() for task in asyncio.all_tasks(self) if not task.done())
            raise Stuck(f"nothing will ever wake: {', '.join(waiting) or 'nobody waits'}")
        self._elapsed += seconds


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
    """A selector to which nothing ever happens: where it would wait, time passes."""

    def __init__(self, passing: Callable[[float | None], None]) -> None:
        self._passing = passing
        self._keys: dict[int, selectors.SelectorKey] = {}

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        number = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        key = selectors.SelectorKey(fileobj, number, events, data)
        self._keys[number] = key
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._keys.pop(fileobj if isinstance(fileobj, int) else fileobj.fileno())

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout > 0:
            self._passing(timeout)
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
