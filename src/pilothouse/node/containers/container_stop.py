"""Stops one instance of a container: preStop hook, wait for the containers before it, stop signal, kill.

    stopping = ContainerStop(target, stop, clock, ended=ended, event=event)
    await stopping.run()                   # until the container has ended
    stopping.shorten_grace(deadline)       # meanwhile: bring the deadline forward

The preStop hook and the wait for other containers count against the grace period. A container that survives
SIGKILL, because it hangs in the kernel, is reported and killed again; it never counts as ended while it runs.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from pilothouse.aio.race import unless
from pilothouse.base.backoff import Backoff
from pilothouse.base.clock import Clock
from pilothouse.node.containers.container_launch import stop_signal
from pilothouse.node.containers.handlers import HandlerTarget, run_handler
from pilothouse.node.lifecycle.pod_decision import StopContainer
from pilothouse.node.lifecycle.termination import LEAST, hook_time, remaining_grace
from pilothouse.supervise.containers import StillRunning

_RETRY_BACKOFF: Final = Backoff(first=1.0, factor=2.0, longest=30.0)

RecordEvent = Callable[[str, str, bool], None]
"""An event: reason, message, whether it is a warning."""


class ContainerStop:
    def __init__(
        self,
        target: HandlerTarget,
        stop: StopContainer,
        clock: Clock,
        *,
        ended: Callable[[str], Awaitable[None]],
        event: RecordEvent,
    ) -> None:
        """``ended`` waits until another container of the pod has ended."""
        self._target = target
        self._stop = stop
        self._clock = clock
        self._ended = ended
        self._event = event
        self._deadline = stop.since + stop.grace
        self._moved = asyncio.Event()
        """Set when the deadline was brought forward."""

    def shorten_grace(self, deadline: float) -> None:
        """Bring the deadline forward; a later one changes nothing."""
        if deadline < self._deadline:
            self._deadline = deadline
            self._moved.set()

    async def run(self) -> None:
        if not await unless(self._hook(), self._deadline_passed()):
            self._event(
                "FailedPreStopHook", "PreStopHook failed: not completed within the grace period", True
            )
        await unless(self._turn(), self._deadline_passed())
        now = self._clock.now()
        number = stop_signal(self._target.spec)
        ending = self._end(number, remaining_grace(self._stop.grace, self._stop.since, now))
        if not await unless(ending, self._hurried(now + LEAST)):
            await self._end(signal.SIGKILL, 0.0)

    async def _hurried(self, earliest: float) -> None:
        """Return when a deadline that was brought forward has passed."""
        if self._deadline >= self._stop.since + self._stop.grace:
            await self._moved.wait()
        await self._deadline_passed(earliest)

    async def _deadline_passed(self, earliest: float = 0.0) -> None:
        while (rest := max(self._deadline, earliest) - self._clock.now()) > 0:
            self._moved.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(rest):
                    await self._moved.wait()

    async def _hook(self) -> None:
        hook = (self._target.spec.get("lifecycle") or {}).get("preStop")
        seconds = hook_time(self._stop.grace, self._stop.since, self._clock.now())
        if hook is None or seconds <= 0:
            return
        await unless(self._run_hook(hook, seconds), self._target.container.exited())

    async def _run_hook(self, hook: Mapping[str, Any], seconds: float) -> None:
        outcome = await run_handler(hook, self._target, seconds)
        if not outcome.succeeded:
            self._event("FailedPreStopHook", f"PreStopHook failed: {outcome.why}", True)

    async def _turn(self) -> None:
        """Wait for the containers that stop before this one."""
        for name in self._stop.after:
            await self._ended(name)

    async def _end(self, number: int, grace: float) -> None:
        failures = 0
        while True:
            try:
                await self._target.container.stop(number, grace)
                return
            except StillRunning as problem:
                failures += 1
                self._event("FailedKillPod", str(problem), True)
                await asyncio.sleep(_RETRY_BACKOFF.after(failures))
                grace = 0.0
