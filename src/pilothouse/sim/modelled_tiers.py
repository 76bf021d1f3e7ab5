"""A node's tiers: pools that grow when asked, and volumes that move when their class names another tier.

    tiers = ModelledTiers(server.api("tiers"), clock, random.Random(7))
    tiers.room = 100 * GIB                     # what a pool can grow to at most
    await tiers.run()                          # until cancelled
    tiers.provisioned("fast"), tiers.used("fast")

A pool is a StoragePool that a test creates with ``status.node`` and ``status.tier``. A volume is where its
claim's class says, else in the tier ``default``. A move is reported as a node does: copying, waiting for the
pod to stop once, done. What the data of a volume takes is in ``data``, by the name of its claim.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from random import Random
from typing import Final

from pilothouse.api.attributes_classes import current_class, parameters_of, requested_class
from pilothouse.api.kind_names import (
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    StoragePool,
    VolumeAttributesClass,
)
from pilothouse.api.local_volumes import AWAITING_RESTART, NODE, PROVISIONED_BY
from pilothouse.api.objects import Object, Tree
from pilothouse.api.owner_chain import claims_of_pod
from pilothouse.base.clock import Clock
from pilothouse.base.quantity import BINARY, NANO, Quantity, parse_quantity
from pilothouse.client.api import Api
from pilothouse.client.transport import TransportError
from pilothouse.meta.errors import StatusError
from pilothouse.node.volumes import claim_statuses

GIB: Final = 1024**3
DRIVER: Final = "pilothouse.io/loop"
_DEFAULT: Final = "default"
_STEP: Final = 2.0
_EXPANDED: Final = "Expanded"


class ModelledTiers:
    def __init__(self, api: Api, clock: Clock, rng: Random, *, node: str = "n1") -> None:
        self._api = api
        self._clock = clock
        self._rng = rng
        self._node = node
        self._due: dict[str, float] = {}
        self._places: dict[str, str] = {}
        """The tier of each volume, by the uid of its claim."""
        self._sizes: dict[str, int] = {}
        self._names: dict[str, str] = {}
        self.data: Mapping[str, int] = {}
        """Bytes that are written to the volume of a claim, by its name."""
        self.room = 0
        """How large a pool can get; 0 for no limit."""
        self.away = False
        """While the node is down."""
        self.moves: list[tuple[str, str]] = []
        """The claim and the tier of every move that was finished."""

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            if not self.away:
                # The server is down, or another client has changed the object.
                with suppress(StatusError, TransportError):
                    await self._step()
            await asyncio.sleep(_STEP)

    def place(self, claim_uid: str, tier: str) -> None:
        """The volume of a claim has been in this tier from the start."""
        self._places[claim_uid] = tier

    def provisioned(self, tier: str) -> int:
        return sum(self._sizes[uid] for uid, place in self._places.items() if place == tier)

    def used(self, tier: str) -> int:
        return sum(self.data.get(self._names[uid], 0) for uid, place in self._places.items() if place == tier)

    async def _step(self) -> None:
        claims = (await self._api.list(PersistentVolumeClaim)).objects
        present = {claim.uid for claim in claims}
        self._places = {uid: tier for uid, tier in self._places.items() if uid in present}
        for claim in claims:
            if claim.status.get("phase") == "Bound":
                await self._serve(claim)
        for pool in (await self._api.list(StoragePool)).objects:
            if pool.status.get("node") == self._node:
                await self._report(pool)

    async def _serve(self, claim: Object) -> None:
        volume = await self._api.find(PersistentVolume, str(claim.spec["volumeName"]))
        if volume is None:
            await self._api.create(PersistentVolume, _volume(claim, self._node))
        self._sizes[claim.uid] = _bytes(claim.at("status", "capacity", "storage"))
        self._names[claim.uid] = claim.name
        place = self._places.get(claim.uid)
        if place is None:
            place = self._places[claim.uid] = await self._tier_of(current_class(claim)) or _DEFAULT
        asked = requested_class(claim)
        if asked == current_class(claim):
            return
        tier = await self._tier_of(asked) or place
        if tier == place:
            if self._is_due(f"{claim.uid} {asked}", 1.0, 5.0):
                await self._set(claim, claim_statuses.modified(claim.status, asked))
        elif not self._is_due(f"{claim.uid} {asked} copied", 5.0, 20.0):
            await self._set(claim, self._moving(claim, asked, "Copying", f"40 % copied to the tier {tier}"))
        elif await self._is_mounted(claim):
            message = f"100 % copied to the tier {tier}: waiting for the pod to stop once, for the rest"
            await self._set(claim, self._moving(claim, asked, AWAITING_RESTART, message))
        else:
            self._places[claim.uid] = tier
            self.moves.append((claim.name, tier))
            settled = claim_statuses.settled(claim.status)
            await self._set(claim, {**settled, **claim_statuses.modified({**claim.status, **settled}, asked)})

    def _moving(self, claim: Object, asked: str, reason: str, message: str) -> Tree:
        return claim_statuses.moving(claim.status, asked, reason, message, self._clock.now())

    async def _is_mounted(self, claim: Object) -> bool:
        pods = (await self._api.list(Pod, claim.namespace)).objects
        return any(claim.name in claims_of_pod(one) and one.status.get("phase") == "Running" for one in pods)

    async def _tier_of(self, name: str) -> str:
        found = await self._api.find(VolumeAttributesClass, name) if name else None
        return parameters_of(found).get("tier", "")

    async def _report(self, pool: Object) -> None:
        tier, capacity = str(pool.status["tier"]), _bytes(pool.status.get("capacity"))
        asked = _bytes(pool.spec.get("capacity"))
        status: Tree = {"provisioned": _text(self.provisioned(tier)), "used": _text(self.used(tier))}
        condition: Tree | None = None
        if self.room and asked > max(self.room, capacity):
            message = f"its disk has {_text(self.room - capacity)} left"
            condition = {"type": _EXPANDED, "status": "False", "reason": "NoRoom", "message": message}
        elif asked > capacity and self._is_due(f"{pool.name} {asked}", 5.0, 30.0):
            status["capacity"] = _text(asked)
        if asked and condition is None:
            condition = {"type": _EXPANDED, "status": "True", "reason": _EXPANDED, "message": ""}
        known = pool.condition(_EXPANDED)
        if condition is not None and (known or {}).get("status") != condition["status"]:
            status["conditions"] = [condition]
        if any(pool.status.get(field) != value for field, value in status.items()):
            await self._api.patch(StoragePool, pool.name, "", {"status": status}, subresource="status")

    async def _set(self, claim: Object, fields: Tree) -> None:
        if not claim_statuses.says_so(claim.status, fields):
            await self._api.patch(
                PersistentVolumeClaim, claim.name, claim.namespace, {"status": fields}, subresource="status"
            )

    def _is_due(self, what: str, least: float, most: float) -> bool:
        now = self._clock.monotonic()
        return now >= self._due.setdefault(what, now + self._rng.uniform(least, most))


def _volume(claim: Object, node: str) -> Tree:
    return {
        "metadata": {
            "name": claim.spec["volumeName"],
            "annotations": {NODE: node, PROVISIONED_BY: DRIVER},
        },
        "spec": {
            "capacity": {"storage": claim.at("spec", "resources", "requests", "storage")},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": f"/volumes/{claim.uid}"},
        },
    }


def _bytes(text: str | None) -> int:
    return parse_quantity(text).to_int() if text else 0


def _text(size: int) -> str:
    return str(Quantity(size * NANO, BINARY))
