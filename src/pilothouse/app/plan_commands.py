"""The composition of ``pilothouse plan status``, ``pause``, ``resume`` and ``abort``."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from pilothouse.aio.race import unless
from pilothouse.api.k0s.v1beta2 import RUNNING_PLAN
from pilothouse.api.kind_names import Plan
from pilothouse.api.objects import Object, Trees
from pilothouse.base.clock import SystemClock
from pilothouse.client.access import Access
from pilothouse.client.api import Api
from pilothouse.client.http_transport import HttpTransport
from pilothouse.client.watch_machine import Applied, Change, Deleted, Restarted
from pilothouse.client.watcher import WatchRunner
from pilothouse.controllers.plans import run_lifecycle

_AGENT = "pilothouse-plan"


@asynccontextmanager
async def connected(access: Access) -> AsyncIterator[Api]:
    """A client for one command."""
    async with HttpTransport.open(access, SystemClock(), agent=_AGENT) as transport:
        yield Api(transport, random.Random(), manager=_AGENT, wait_for_server=False)


async def read_plan(access: Access) -> Object | None:
    """The plan that is carried out, if there is one. Raises ``StatusError``, ``TransportError``."""
    async with connected(access) as api:
        return await api.find(Plan, RUNNING_PLAN)


async def follow_plan(access: Access, show: Callable[[Object | None], None]) -> Object | None:
    """Show the plan, and each change of it, until its run has ended. Returns it as it was shown last."""
    over = asyncio.Event()
    last: Object | None = None

    async def deliver(changes: list[Change]) -> None:
        nonlocal last
        for change in changes:
            match change:
                case Restarted():
                    shown = change.objects[0] if change.objects else None
                case Applied():
                    shown = change.object
                case Deleted():
                    shown = None
                case _:
                    continue
            show(shown)
            last = shown
            if shown is None or has_ended(shown):
                over.set()

    async with connected(access) as api:
        await api.find(Plan, RUNNING_PLAN)  # A server that can't be reached is an error, not a wait.
        fields = f"metadata.name={RUNNING_PLAN}"
        runner = WatchRunner(api, Plan, random.Random(), Trees(), fields=fields)
        await unless(runner.run(deliver), over.wait())
    return last


async def set_rollout(access: Access, **fields: bool) -> Object:
    """Change what may change in a run: paused, aborted. Raises ``StatusError``, ``TransportError``."""
    async with connected(access) as api:
        return await api.patch(Plan, RUNNING_PLAN, "", {"spec": {"rollout": fields}})


def is_running(plan: Object) -> bool:
    """Whether a run has started and has not ended."""
    status = run_lifecycle.read_status(plan)
    return status.spec is not None and not run_lifecycle.has_ended(status)


def has_ended(plan: Object) -> bool:
    """Whether its last run has ended, and none follows."""
    status = run_lifecycle.read_status(plan)
    return run_lifecycle.has_ended(status) and not run_lifecycle.wants_run(
        run_lifecycle.read_spec(plan), status
    )
