"""Background tasks that run for the lifetime of a context and are restarted when they fail.

    tasks = BackgroundTasks({"cache": cache.run, "compactor": compactor.run})
    async with tasks.running():
        tasks.problem                # "" or "compactor stopped: OSError: disk full"

A task that fails or ends is logged and restarted with back-off. It counts as failed until it has run for
``STEADY`` seconds, so that one that fails repeatedly is never reported healthy in between.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

Part = Callable[[], Awaitable[None]]

STEADY = 10.0
"""Seconds after which a restarted task counts as healthy."""
_PAUSE = (0.5, 30.0)

log = logging.getLogger(__name__)


class BackgroundTasks:
    """Coroutine functions that run until cancelled, by name."""

    def __init__(self, parts: Mapping[str, Part]) -> None:
        self._parts = dict(parts)
        self._failed: dict[str, str] = {}

    @property
    def problem(self) -> str:
        """The tasks that failed recently, and why; empty if all are healthy."""
        return "; ".join(f"{name} stopped: {why}" for name, why in sorted(self._failed.items()))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(self._keep(name, part)) for name, part in self._parts.items()]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _keep(self, name: str, part: Part) -> None:
        shortest, longest = _PAUSE
        wait = shortest
        while True:
            attempt = asyncio.ensure_future(part())
            try:
                done, _ = await asyncio.wait((attempt,), timeout=STEADY)
                if not done:
                    self._failed.pop(name, None)
                    wait = shortest
                    await asyncio.wait((attempt,))
            finally:
                attempt.cancel()
                await asyncio.gather(attempt, return_exceptions=True)
            error = None if attempt.cancelled() else attempt.exception()
            self._failed[name] = f"{type(error).__name__}: {error}" if error is not None else "it ended"
            log.error("%s stopped; it goes on in %g seconds", name, wait, exc_info=error)
            await asyncio.sleep(wait)
            wait = min(wait * 2, longest)
