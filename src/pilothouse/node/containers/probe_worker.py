"""The probe worker: runs the probes of one instance of a container, and counts their results.

    probes = ProbeWorker(container, target, since, clock, rng, changed=..., unhealthy=...)
    probes.score("readinessProbe").verdict
    await probes.run()                             # until cancelled, with the instance

The others start once the startup probe has passed. A failed startup or liveness probe stops. An adopted
instance keeps its reported scores, and its first probe is delayed by a random part of the period, so that a
restarted agent does not probe all containers at once; an unready one is probed at once.
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
"""Called with kubelet's message for each failed probe, unless the pod is terminating."""


class ProbeWorker:
    def __init__(
        self,
        container: PodContainer,
        target: HandlerTarget,
        since: float,
        clock: Clock,
        rng: Random,
        *,
        changed: Callable[[], None],
        unhealthy: Unhealthy,
        initial_scores: Mapping[str, ProbeScore] | None = None,
    ) -> None:
        """``initial_scores`` are those of an adopted instance; None for one that has just started."""
        self._container = container
        self._target = target
        self._since = since
        self._clock = clock
        self._rng = rng
        self._changed = changed
        self._unhealthy = unhealthy
        self._adopted = initial_scores is not None
        fresh = {STARTUP: UNKNOWN, LIVENESS: PASSED, READINESS: FAILED}
        self._scores = {**fresh, **(initial_scores or {})}
        self._started = asyncio.Event()
        if container.probe(STARTUP) is None or self._scores[STARTUP].verdict is True:
            self._started.set()
        self._ending = asyncio.Event()

    def score(self, kind: str) -> ProbeScore:
        return self._scores[kind]

    def pod_terminating(self) -> None:
        """Run only the readiness probe from here on, and report no failures."""
        self._ending.set()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for kind in (STARTUP, LIVENESS, READINESS):
                probe = self._container.probe(kind)
                if probe is not None:
                    group.create_task(self._probe_loop(kind, probe), name=f"{kind} of {self._container.name}")

    async def _probe_loop(self, kind: str, probe: Mapping[str, Any]) -> None:
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
            await self._probe(kind, probe)
            verdict = self._scores[kind].verdict
            if kind == STARTUP and verdict is not None:
                if verdict:
                    self._started.set()
                return
            if kind == LIVENESS and verdict is False:
                return
            await asyncio.sleep(period)

    async def _probe(self, kind: str, probe: Mapping[str, Any]) -> None:
        timeout = float(probe.get("timeoutSeconds") or _TIMEOUT)
        outcome = await run_handler(probe, self._target, timeout)
        name = kind.removesuffix("Probe").capitalize()
        if not outcome.asked:
            self._warn(f"{name} probe errored and resulted in unknown state: {outcome.why}")
            return
        output = outcome.output if outcome.succeeded or outcome.output else outcome.why
        before = self._scores[kind]
        after = self._scores[kind] = with_result(before, outcome.succeeded, probe, output)
        if not outcome.succeeded:
            self._warn(f"{name} probe failed: {output}")
        if after.verdict != before.verdict:
            self._changed()

    def _warn(self, message: str) -> None:
        if not self._ending.is_set():
            self._unhealthy(message)
