"""The composition of ``pilothouse plan preview``: the server validates the file, and nothing is stored."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from pilothouse.api.k0s.v1beta2 import RUNNING_PLAN, PlanAnswers, PlanSpec
from pilothouse.api.kind_names import KindName, Plan
from pilothouse.api.objects import Object, Tree
from pilothouse.apiserver.endpoints import yaml_decoding
from pilothouse.app.plan_commands import connected, has_ended
from pilothouse.base.clock import SystemClock
from pilothouse.base.rfc3339 import format_time
from pilothouse.client.access import Access
from pilothouse.client.api import Api
from pilothouse.controllers.plans.preview import PlanPreview, preview, versions_to_ask_about
from pilothouse.meta.errors import StatusError
from pilothouse.runtime.snapshot import Snapshot, StaticView
from pilothouse.sim.forked_state import FORKED, ForkedState
from pilothouse.updates.plan_checks import ServerChecks
from pilothouse.updates.readiness_probe import ReadinessProbe, Scheme

_DEEPEST = 64
"""Levels of nesting, of which a plan has about ten."""


class NoPlanInFile(ValueError):
    """The file has no Plan that could be carried out."""


class LivePreview(msgspec.Struct, frozen=True):
    """What a plan would do, and the state that this was found out from."""

    preview: PlanPreview
    state: ForkedState


async def preview_file(
    access: Access, content: bytes, exclude: frozenset[str], *, ready_path: str, ready_scheme: Scheme
) -> LivePreview:
    """What the plan in a file, as YAML or JSON, would do.

    Raises ``NoPlanInFile``, ``StatusError``, ``TransportError``.
    """
    tree = _plan_in(content)
    async with connected(access) as api:
        live = await api.find(Plan, RUNNING_PLAN)
        plan = await _validated(api, tree, live)
        probe = ReadinessProbe(access, agent="pilothouse-plan", path=ready_path, scheme=ready_scheme)
        answers = await _answers(ServerChecks(api, probe), plan)
        objects = {noun: await _all(api, noun) for noun in FORKED}
        now = SystemClock().now()
        views = {noun: StaticView(found) for noun, found in objects.items()}
        found = preview(plan, Snapshot(views, now=now), answers, exclude)
        if live is not None and live.at("status", "startedTime") and not has_ended(live):
            waits = "a run is in progress: this one would start when it has ended"
            found = msgspec.structs.replace(found, obstacles=(waits, *found.obstacles))
        if kept := _kept_holds(live, tree):
            found = msgspec.structs.replace(found, obstacles=(*kept, *found.obstacles))
        everything = [one for found in objects.values() for one in found]
        return LivePreview(found, ForkedState.of(everything, plan, answers, now=now))


def _kept_holds(live: Object | None, tree: Tree) -> Sequence[str]:
    """What ``plan pause`` and ``plan abort`` have set, and `kubectl apply` of a file without it leaves."""
    given = (tree.get("spec") or {}).get("rollout") or {}
    return [
        f"spec.rollout.{name} is true on the server, and stays so if a file without the field is applied"
        for name in ("aborted", "paused")
        if live is not None and live.at("spec", "rollout", name) is True and name not in given
    ]


async def _all(api: Api, noun: KindName) -> Sequence[Object]:
    try:
        return (await api.list(noun)).objects
    except StatusError as refusal:
        if refusal.code != 404:
            raise
        return ()  # A server without this kind.


def _plan_in(content: bytes) -> Tree:
    try:
        tree, _ = yaml_decoding.load(content, _DEEPEST)
    except ValueError as problem:
        raise NoPlanInFile(f"it can't be read: {problem}") from None
    if not isinstance(tree, dict) or tree.get("kind") != "Plan":
        raise NoPlanInFile("it has no Plan")
    name = (tree.get("metadata") or {}).get("name")
    if name != RUNNING_PLAN:
        raise NoPlanInFile(f"only the plan named {RUNNING_PLAN} is carried out, and this one is {name}")
    return tree


async def _validated(api: Api, tree: Tree, live: Object | None) -> Object:
    """The plan as the server would store it, with its defaults."""
    if live is None:
        return await api.create(Plan, tree, dry_run=True, validation="Strict")
    replaced = {**tree, "metadata": {**tree["metadata"], "resourceVersion": live.resource_version}}
    return await api.update(Plan, replaced, dry_run=True, validation="Strict")


async def _answers(checks: ServerChecks, plan: Object) -> PlanAnswers:
    """What the observer would answer at this moment."""
    rollout = msgspec.convert(plan.spec, PlanSpec).rollout
    gates = rollout.gates if rollout is not None else ()
    readiness, removed, opened = await asyncio.gather(
        checks.readiness(),
        asyncio.gather(*map(checks.removed_apis, versions_to_ask_about(plan))),
        asyncio.gather(*map(checks.gate, gates)),
    )
    return PlanAnswers(
        number=1,
        time=format_time(SystemClock().now()),
        readiness=readiness,
        removed_apis=tuple(removed),
        gates=tuple(opened),
    )
