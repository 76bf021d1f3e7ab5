"""The probes of one instance of a container: asked when their time comes, their results added up.

    probes = ProbeWorker(part, target, since, clock, rng, changed, ...)
    probes.score("readinessProbe").verdict
    await probes.run()                             # until cancelled, with the instance

The startup probe goes first, the others once it has passed. When a probe has condemned an instance nothing more is asked; the next instance
has probes of its own. An instance that was taken up from an earlier agent keeps the standing that it had, and is first
asked after a random part of the period, so that a restarted agent does not ask everybody at once; one that does not count as ready
is asked at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Final

from pilothouse.base.clock import Clock
from pilothouse.node.containers.handlers import HandlerTarget, run_handler
from pilothouse.node.lifecycle.container_roles import PodContainer
from pilothouse.node.lifecycle.probe_results import FAILED, PASSED, UNKNOWN, ProbeScore, with_result

STARTUP, LIVENESS, READINESS = "startupProbe", "livenessProbe", "readinessProbe"
_PERIOD: Final = 10.0
_TIMEOUT: Final = 1.0

Unhealthy = Callable[[str], None]
"""Told in kubelet's words of each failure of one that is to stay."""


class ProbeWorker:
    """Of one instance."""

    def __init__(
        self,
        part: PodContainer,
        target: HandlerTarget,
        since: float,
        clock: Clock,
        rng: Random,
        *,
        changed: Callable[[], None],
        unhealthy: Unhealthy,
        standing: Mapping[str, ProbeScore] | None = None,
    ) -> None:
        """``standing`` is what an earlier agent had found; without it the instance is new."""
        self._part = part
        self._target = target
        self._since = since
        self._clock = clock
        self._rng = rng
        self._changed = changed
        self._unhealthy = unhealthy
        self._adopted = standing is not None
        fresh = {STARTUP: UNKNOWN, LIVENESS: PASSED, READINESS: FAILED}
        self._scores = {**fresh, **(standing or {})}
        self._started = asyncio.Event()
        if part.probe(STARTUP) is None or self._scores[STARTUP].verdict is True:
            self._started.set()
        self._ending = asyncio.Event()

    def score(self, kind: str) -> ProbeScore:
        return self._scores[kind]

    def is_ending(self) -> None:
        """The pod ends: only its readiness is of interest any more, and that it is lost is nothing to warn of."""
        self._ending.set()

    async def run(self) -> None:
        """Ask until cancelled."""
        async with asyncio.TaskGroup() as group:
            for kind in (STARTUP, LIVENESS, READINESS):
                probe = self._part.probe(kind)
                if probe is not None:
                    group.create_task(self._keep(kind, probe), name=f"{kind} of {self._part.name}")

    async def _keep(self, kind: str, probe: Mapping[str, Any]) -> None:
        if kind == STARTUP and self._started.is_set():
            return
        period = float(probe.get("periodSeconds") or _PERIOD)
        delay = float(probe.get("initialDelaySeconds") or 0) - (self._clock.now() - self._since)
        if self._adopted and self._scores[kind].verdict is not False:
            delay = max(delay, self._rng.random() * period)
        if delay > 0:
            await asyncio.sleep(delay)
        if kind != STARTUP:
            await self._started.wait()
        while not (self._ending.is_set() and kind != READINESS):
            await self._ask(kind, probe)
            verdict = self._scores[kind].verdict
            if kind == STARTUP and verdict is not None:
                if verdict:
                    self._started.set()
                return
            if kind == LIVENESS and verdict is False:
                return
            await asyncio.sleep(period)

    async def _ask(self, kind: str, probe: Mapping[str, Any]) -> None:
        timeout = float(probe.get("timeoutSeconds") or _TIMEOUT)
        outcome = await run_handler(probe, self._target, timeout)
        name = kind.removesuffix("Probe").capitalize()
        if not outcome.asked:
            self._warn(f"{name} probe errored and resulted in unknown state: {outcome.why}")
            return
        said = outcome.output if outcome.well or outcome.output else outcome.why
        before = self._scores[kind]
        after = self._scores[kind] = with_result(before, outcome.well, probe, said)
        if not outcome.well:
            self._warn(f"{name} probe failed: {said}")
        if after.verdict != before.verdict:
            self._changed()

    def _warn(self, message: str) -> None:
        if not self._ending.is_set():
            self._unhealthy(message)
