"""A modelled database whose pods have Pilots: members hold parts of its data, and give them away on request.

    sets = PilotedSets(server.api("pilots"), "db", "db", clock, random.Random(7))
    await sets.run()                        # until cancelled; raises InvariantViolated

Each pod of the StatefulSet is a member. A member whose Pilot is decommissioned moves its parts to the others,
one by one, and says ``Decommissioned`` when it has none. Posts to webhooks are answered here too: now and
then, as a server that fails.

It raises when a controller removes a member that holds data, or when fewer than a majority of three or more
members is left.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from random import Random
from typing import Final

from pilothouse.aio.task_group import together
from pilothouse.api.kind_names import ApplicationAction, Pilot, Pod, StatefulSet
from pilothouse.api.navigator.elasticsearch import quorum
from pilothouse.api.objects import Object, Tree
from pilothouse.api.openstorage.actions import WEBHOOKS
from pilothouse.base.clock import Clock
from pilothouse.base.rfc3339 import format_time
from pilothouse.client.api import Api
from pilothouse.client.informer import Informer
from pilothouse.client.transport import TransportError
from pilothouse.meta.conditions import with_condition
from pilothouse.meta.errors import StatusError
from pilothouse.sim.invariant_checker import InvariantViolated

_STEP: Final = 2.0
_PARTS: Final = 2
"""Of each of the first members."""
_MOVING: Final = (1.0, 6.0)
_POSTING: Final = (1.0, 8.0)
_SPARES_ONE: Final = 3
_MAY_FAIL: Final = ("1", "2")
_FAILING: Final = 0.4
"""How likely a post of these numbers is to fail."""


class PilotedSets:
    def __init__(self, api: Api, namespace: str, name: str, clock: Clock, rng: Random) -> None:
        self._api = api
        self._namespace = namespace
        self._name = name
        self._clock = clock
        self._rng = rng
        kinds = (ApplicationAction, Pilot, Pod, StatefulSet)
        self._caches = {noun: Informer(api, noun, rng, clock) for noun in kinds}
        self._due: dict[str, float] = {}
        self.parts: dict[str, int] = {}
        """How many parts of the data each member holds."""
        self.drained: dict[str, None] = {}
        """Members that are empty and do not count for a majority."""

    async def run(self) -> None:
        """Until cancelled. Raises ``InvariantViolated``."""
        await together({**{noun.kind: one.run() for noun, one in self._caches.items()}, "steps": self._go()})

    async def _go(self) -> None:
        while True:
            await asyncio.sleep(_STEP)
            # The server is down, or another client has changed the object.
            with suppress(StatusError, TransportError):
                await self._step()

    async def _step(self) -> None:
        owner = self._caches[StatefulSet].cache.get(self._namespace, self._name)
        if owner is None:
            return
        pods = {pod.name: pod for pod in self._caches[Pod].cache.list(self._namespace) if pod.owned_by(owner)}
        await self._remove_members(owner, pods)
        self._check_majority(pods)
        for name, pod in sorted(pods.items()):
            pilot = self._caches[Pilot].cache.get(self._namespace, name)
            if pilot is None:
                await self._api.create(Pilot, _pilot(name, self._namespace))
            elif pod.is_true("Ready") and not pod.deleting:
                self._join(name, pilot)
                await self._serve(pilot)
        for action in self._caches[ApplicationAction].cache.list(self._namespace):
            await self._post(action)

    async def _remove_members(self, owner: Object, pods: dict[str, Object]) -> None:
        by = owner.managers("spec", "replicas")[:1]
        for name in [each for each in self.parts if each not in pods]:
            if int(name.rpartition("-")[2]) < int(owner.spec["replicas"]):
                continue
            held = self.parts.pop(name)
            self.drained.pop(name, None)
            if held and by[0].startswith("pilothouse-"):
                raise InvariantViolated(f"{name} is gone, and held the last copy of {held} parts")
            with suppress(StatusError):
                # As the collector of Pilots does in time.
                await self._api.delete(Pilot, name, self._namespace)

    def _check_majority(self, pods: dict[str, Object]) -> None:
        voting = [name for name in self.parts if name not in self.drained]
        live = [name for name in voting if name in pods and not pods[name].deleting]
        if len(voting) >= _SPARES_ONE and len(live) < quorum(len(voting)):
            raise InvariantViolated(f"{', '.join(live) or 'none'} of {', '.join(voting)} are no majority")

    def _join(self, name: str, pilot: Object) -> None:
        """A member that comes later gets a part of one that has several."""
        if name not in self.parts:
            self.parts[name] = _PARTS if len(self.parts) < _SPARES_ONE else 0
        fullest = max(self.parts, key=lambda each: self.parts[each])
        leaves = pilot.spec.get("decommission")
        if not leaves and not self.parts[name] and self.parts[fullest] > 1:
            self.parts[fullest] -= 1
            self.parts[name] += 1

    async def _serve(self, pilot: Object) -> None:
        name, leaves = pilot.name, bool(pilot.spec.get("decommission"))
        others = [each for each in sorted(self.parts) if each != name and each not in self.drained]
        key = f"{name} {self.parts[name]} {pilot.generation}"
        if leaves and self.parts[name] and others and self._is_due(key, _MOVING):
            self.parts[name] -= 1
            self.parts[others[0]] += 1
        if leaves and not self.parts[name]:
            self.drained[name] = None
        elif not leaves:
            self.drained.pop(name, None)
        if leaves or pilot.condition("Decommissioned") is not None:
            await self._report(pilot, empty=leaves and not self.parts[name])

    async def _report(self, pilot: Object, *, empty: bool) -> None:
        condition = {
            "type": "Decommissioned",
            "status": "True" if empty else "False",
            "reason": "Empty" if empty else "Holds",
            "message": f"{self.parts[pilot.name]} parts are left",
            "observedGeneration": pilot.generation,
        }
        before = pilot.condition("Decommissioned") or {}
        if any(before.get(field) != value for field, value in condition.items()):
            conditions = with_condition(
                pilot.status.get("conditions"), condition, now=format_time(self._clock.now())
            )
            status = {"status": {"conditions": list(conditions)}}
            await self._api.patch(Pilot, pilot.name, pilot.namespace, status, subresource="status")

    async def _post(self, action: Object) -> None:
        """Answer what is posted to a webhook."""
        progress = action.status.get("progress") or {}
        number = str(progress.get("post", ""))
        answered = str(progress.get("answer", "")).partition(" ")[0]
        is_asked = action.spec.get("action") in WEBHOOKS and action.status.get("phase") == "Running"
        if is_asked and number != answered and self._is_due(f"{action.uid} {number}", _POSTING):
            fails = number in _MAY_FAIL and self._rng.random() < _FAILING
            answer = "failed: it answers 503" if fails else "200"
            fields = {"status": {"progress": {**progress, "answer": f"{number} {answer}"}}}
            await self._api.patch(
                ApplicationAction, action.name, action.namespace, fields, subresource="status"
            )

    def _is_due(self, what: str, between: tuple[float, float]) -> bool:
        now = self._clock.monotonic()
        return now >= self._due.setdefault(what, now + self._rng.uniform(*between))


def _pilot(name: str, namespace: str) -> Tree:
    meta = {"name": name, "namespace": namespace}
    return {"apiVersion": Pilot.api_version, "kind": Pilot.kind, "metadata": meta, "spec": {}}
