"""Answers the questions of the plan that runs: what a decision must know from outside the API.

    observer = PlanObserver(api, informers.get(Plan), clock, checks)
    await observer.run(election.fence)          # until cancelled

The plan asks in ``status.questions``; the answer, with the same number, goes into ``status.answers``. A
question that can't be answered gets an answer that says why, so that the plan never waits without a reason.
Written under the fence of the leading manager: an earlier leader's late answer is refused.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final, Protocol

import msgspec

from pilothouse.api.k0s.rollout import Gate
from pilothouse.api.k0s.v1beta2 import (
    RUNNING_PLAN,
    GateAnswer,
    PlanAnswers,
    PlanQuestions,
    PlanStatus,
    ReadinessAnswer,
    RemovedApisAnswer,
)
from pilothouse.api.kind_names import Plan
from pilothouse.api.objects import Object, Tree
from pilothouse.base.clock import Clock
from pilothouse.base.rfc3339 import format_time
from pilothouse.client.access import AccessError
from pilothouse.client.api import Api, Patch
from pilothouse.client.informer import Informer
from pilothouse.client.transport import TransportError
from pilothouse.meta.errors import StatusError
from pilothouse.runtime.intent_executor import FenceOf

_RETRY: Final = 1.0

log = logging.getLogger(__name__)


class PlanChecks(Protocol):
    """How questions are answered. None of these raises: what can't be found out is an answer too."""

    async def readiness(self) -> tuple[ReadinessAnswer, ...]:
        """Of every ControlNode, by name."""

    async def removed_apis(self, version: str) -> RemovedApisAnswer:
        """Which objects this version makes unreadable."""

    async def gate(self, gate: Gate) -> GateAnswer:
        """Whether it is open."""


class PlanObserver:
    """Follows the plan, and writes answers."""

    def __init__(self, api: Api, plans: Informer, clock: Clock, checks: PlanChecks) -> None:
        self._api = api
        self._plans = plans
        self._clock = clock
        self._checks = checks

    async def run(self, fence: FenceOf) -> None:
        """Answer until cancelled. ``fence`` raises when this process leads no more."""
        changed = asyncio.Event()
        unsubscribe = self._plans.subscribe(lambda _: changed.set())
        try:
            while True:
                await changed.wait()
                changed.clear()
                plan = self._plans.cache.get("", RUNNING_PLAN)
                status = _unanswered(plan) if plan is not None else None
                if plan is None or status is None or status.questions is None:
                    continue
                try:
                    await self._write(plan, await self._answers(status.questions, status), fence)
                except (StatusError, TransportError, AccessError) as problem:
                    log.warning("the answers to plan %s can't be written, retrying: %s", plan.name, problem)
                    await asyncio.sleep(_RETRY)
                    changed.set()
        finally:
            unsubscribe()

    async def _answers(self, asked: PlanQuestions, status: PlanStatus) -> PlanAnswers:
        rollout = status.spec.rollout if status.spec is not None else None
        gates = rollout.gates if asked.gates and rollout is not None else ()
        async with asyncio.TaskGroup() as group:
            ready = group.create_task(self._checks.readiness()) if asked.readiness else None
            removed = [group.create_task(self._checks.removed_apis(one)) for one in asked.removed_apis]
            opened = [group.create_task(self._checks.gate(one)) for one in gates]
        return PlanAnswers(
            number=asked.number,
            time=format_time(self._clock.now()),
            readiness=ready.result() if ready is not None else (),
            removed_apis=tuple(one.result() for one in removed),
            gates=tuple(one.result() for one in opened),
        )

    async def _write(self, plan: Object, answers: PlanAnswers, fence: FenceOf) -> None:
        # Only if the plan still asks this: not if it was created anew, or asks something else by now.
        patch: list[Tree] = [
            {"op": "test", "path": "/metadata/uid", "value": plan.uid},
            {"op": "test", "path": "/status/questions/number", "value": answers.number},
            {"op": "add", "path": "/status/answers", "value": msgspec.to_builtins(answers)},
        ]
        try:
            await self._api.patch(
                Plan, plan.name, "", patch, kind=Patch.JSON, subresource="status", fence=fence()
            )
        except StatusError as refusal:
            if refusal.code not in (404, 422):
                raise
            log.info("an answer that plan %s no longer asks for is discarded: %s", plan.name, refusal)


def _unanswered(plan: Object) -> PlanStatus | None:
    """The status of a plan that waits for answers."""
    status = plan.status
    asked = (status.get("questions") or {}).get("number")
    if asked is None or asked == (status.get("answers") or {}).get("number"):
        return None
    try:
        return msgspec.convert(status, PlanStatus)
    except msgspec.ValidationError as problem:
        # The server validates what is written: only a status of another version comes here.
        log.error("the status of plan %s can't be read: %s", plan.name, problem)
        return None
