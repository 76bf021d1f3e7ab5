"""Modelled volumes on a node with two tiers: what its agent and its pods do, without a disk.

    volumes = TieredVolumes(server.api("volumes"), clock, random.Random(7))
    await volumes.run()                     # until cancelled; raises InvariantViolated

Claims are bound at once. One that asks for another class gets it after a while; if that names another tier,
the volume is copied as ``node.volumes.volume_mover`` does it: the pod has to stop once, the record switches,
and the old copy stays until a pod has been ready for ``keep``. If none is within the deadline, the pod has to
stop again, and the old copy is the volume. Pods of claims are started, held and ended here; the StoragePools
of the node grow to the size that is asked for. What is to happen is in the ConfigMap ``model``: ``volumes``
follow or refuse, and pods whose volume is in the tier ``unready`` do not become ready. Where no action waits
for a move any more, a person restarts the pod, and asks for the class that a returned volume has.

It raises when a volume has no whole copy, two pods have one volume, or an action has succeeded whose change
never was.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from random import Random
from typing import Final

import msgspec

from pilothouse.aio.task_group import together
from pilothouse.api.attributes_classes import current_class, parameters_of, requested_class
from pilothouse.api.kind_names import (
    ApplicationAction,
    ConfigMap,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    StoragePool,
    VolumeAttributesClass,
)
from pilothouse.api.local_volumes import (
    AWAITING_READY,
    AWAITING_RESTART,
    KEPT,
    LOOP,
    PROVISIONED_BY,
    RETURNED,
    volume_name,
)
from pilothouse.api.objects import Object, Tree
from pilothouse.api.openstorage.actions import EXPAND_POOL, MOVE, REBALANCE_POOL, SET_IOPS
from pilothouse.api.owner_chain import claims_of_pod
from pilothouse.api.pod_health import ready
from pilothouse.base.clock import Clock
from pilothouse.base.quantity import parse_quantity
from pilothouse.base.rfc3339 import format_time
from pilothouse.client.api import Api
from pilothouse.client.informer import Informer
from pilothouse.client.transport import TransportError
from pilothouse.meta.conditions import with_condition
from pilothouse.meta.errors import StatusError
from pilothouse.node.volumes.claim_statuses import (
    kept,
    modified,
    moving,
    not_modified,
    returned,
    says_so,
    settled,
)
from pilothouse.sim.invariant_checker import InvariantViolated
from pilothouse.sim.metered_volumes import MODEL

TIERS: Final = ("default", "fast")
CAPACITY: Final = "8Gi"
"""Of a pool, at first."""
_STEP: Final = 2.0
_COPYING: Final = (3.0, 12.0)
_COMPARING: Final = (1.0, 6.0)
_STARTING: Final = (1.0, 5.0)
_ANSWERING: Final = (1.0, 10.0)
_BY_HAND: Final = (20.0, 40.0)
_GIVING_UP: Final = (60.0, 90.0)
_KEEP: Final = 10.0
"""How long a pod has to be ready before the old copy goes."""
_DEADLINE: Final = 20.0
"""How soon a pod has to be ready after it got the copy."""
_SWITCHED: Final = (AWAITING_READY, KEPT)


class TierMove(msgspec.Struct):
    """A move under way. ``reason`` is that of the claim's condition."""

    attributes: str
    source: str
    target: str
    previous: str
    """The class that the volume had before."""
    reason: str = "Copying"
    mounted: float | None = None
    """When a pod first had the copy."""
    ready_since: float | None = None


class TieredVolume(msgspec.Struct):
    """A volume. The copy in ``tier`` is the volume."""

    attributes: str
    tier: str = TIERS[0]
    copies: dict[str, bool] = msgspec.field(default_factory=lambda: {TIERS[0]: True})
    """By tier, whether it is whole."""
    move: TierMove | None = None
    user: str = ""
    """The uid of the pod that has it."""


class TieredVolumes:
    def __init__(self, api: Api, clock: Clock, rng: Random, *, namespace: str = "db") -> None:
        self._api = api
        self._clock = clock
        self._rng = rng
        self._namespace = namespace
        kinds = (
            *(ApplicationAction, ConfigMap, PersistentVolumeClaim, Pod, StoragePool),
            VolumeAttributesClass,
        )
        self._caches = {noun: Informer(api, noun, rng, clock) for noun in kinds}
        self._due: dict[str, float] = {}
        self._had: dict[str, set[str]] = {}
        """The classes that a volume has had, and the sizes of a pool, by uid."""
        self.volumes: dict[str, TieredVolume] = {}
        """By the uid of the claim."""
        self.restarted_by_hand: list[str] = []
        """The pods, by name."""

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
        pods = self._caches[Pod].cache.list(self._namespace)
        present = {pod.uid for pod in pods}
        for volume in self.volumes.values():
            if volume.user not in present:
                volume.user = ""
        claims = {one.name: one for one in self._caches[PersistentVolumeClaim].cache.list(self._namespace)}
        for pod in pods:
            await self._serve_pod(pod, claims)
        for claim in claims.values():
            await self._serve_claim(claim, pods)
        for pool in self._caches[StoragePool].cache.list():
            await self._serve_pool(pool)
        for action in self._caches[ApplicationAction].cache.list():
            self._check_success(action)

    async def _serve_pod(self, pod: Object, claims: Mapping[str, Object]) -> None:
        volumes = [self.volumes.get(claims[name].uid) for name in claims_of_pod(pod) if name in claims]
        if pod.deleting:
            if self._is_due(f"{pod.uid} stops", _STARTING):
                await self._api.delete(Pod, pod.name, pod.namespace, uid=pod.uid, grace=0)
        elif not ready(pod) and len(volumes) == len(claims_of_pod(pod)):
            for volume in volumes:
                if volume is None or self._is_held(volume, pod):
                    return
                if volume.user not in ("", pod.uid):
                    raise InvariantViolated(f"pod {pod.name} gets a volume that another pod has")
                volume.user = pod.uid
            if self._is_due(f"{pod.uid} starts", _STARTING):
                is_ready = all(
                    volume is not None and volume.tier != self._model("unready") for volume in volumes
                )
                if not is_ready and pod.status.get("phase") == "Running":
                    return
                status = {"phase": "Running", "conditions": self._readiness(pod, is_ready)}
                await self._api.patch(Pod, pod.name, pod.namespace, {"status": status}, subresource="status")

    def _is_held(self, volume: TieredVolume, pod: Object) -> bool:
        """Whether the start of a pod is held: until its volume is copied as it was when the last pod stopped,
        or is back."""
        move = volume.move
        waits = move is not None and (move.reason in (AWAITING_RESTART, "Finishing") or self._is_late(move))
        return waits and volume.user != pod.uid

    def _readiness(self, pod: Object, is_ready: bool) -> list[Tree]:
        condition = {"type": "Ready", "status": str(is_ready), "reason": "", "message": ""}
        found = pod.status.get("conditions")
        return list(with_condition(found, condition, now=format_time(self._clock.now())))

    async def _serve_claim(self, claim: Object, pods: list[Object]) -> None:
        asked, volume = requested_class(claim), self.volumes.get(claim.uid)
        if claim.status.get("phase") != "Bound":
            await self._bind(claim)
        elif volume is None:
            self._is_given_class(claim, TieredVolume(current_class(claim)))
        elif volume.move is not None:
            await self._advance(claim, volume, volume.move, pods)
        elif asked == volume.attributes:
            await self._report(claim, modified(_without_move(claim), asked))
        elif (attributes := self._caches[VolumeAttributesClass].cache.get("", asked)) is not None:
            await self._change(claim, volume, attributes)

    async def _bind(self, claim: Object) -> None:
        name, size = volume_name(claim.uid), claim.at("spec", "resources", "requests")
        if not claim.spec.get("volumeName"):
            if await self._api.find(PersistentVolume, name) is None:
                await self._api.create(PersistentVolume, _volume(name, claim))
            fields = {"spec": {"volumeName": name}}
            await self._api.patch(PersistentVolumeClaim, claim.name, claim.namespace, fields)
            return
        status = {"phase": "Bound", "capacity": size}
        await self._report(claim, {**status, "currentVolumeAttributesClassName": requested_class(claim)})

    async def _change(self, claim: Object, volume: TieredVolume, attributes: Object) -> None:
        """Begin to give a volume another class."""
        tier = parameters_of(attributes).get("tier", volume.tier)
        if not self._is_due(f"{claim.uid} {claim.generation} {attributes.name}", _ANSWERING):
            return
        if self._refuses:
            message, now = "the node refuses it", self._clock.now()
            await self._report(claim, not_modified(_without_move(claim), attributes.name, message, now))
        elif tier == volume.tier:
            volume.attributes = attributes.name
            self._is_given_class(claim, volume)
        else:
            volume.move = TierMove(attributes.name, volume.tier, tier, volume.attributes)
            volume.copies[tier] = False

    async def _advance(self, claim: Object, volume: TieredVolume, move: TierMove, pods: list[Object]) -> None:
        now, key = self._clock.now(), f"{claim.uid} {claim.generation} {move.attributes} {move.reason}"
        if move.reason in ("Copying", AWAITING_RESTART):
            if requested_class(claim) != move.attributes:
                self._drop(claim, volume, move.target)
                await self._report(claim, settled(claim.status))
                return
            if move.reason == "Copying" and self._is_due(key, _COPYING):
                move.reason = AWAITING_RESTART
            elif move.reason == AWAITING_RESTART and not volume.user:
                move.reason = "Finishing"
            elif move.reason == AWAITING_RESTART and not self._is_acted_on:
                await self._restart_by_hand(key, volume, pods)
        elif move.reason == "Finishing" and self._is_due(key, _COMPARING):
            volume.copies[move.target] = True
            volume.tier, volume.attributes, move.reason = move.target, move.attributes, AWAITING_READY
        elif move.reason in _SWITCHED and await self._is_over(claim, volume, move, pods):
            return
        elif move.reason == RETURNED and requested_class(claim) != move.attributes:
            volume.move = None
            await self._report(claim, settled(claim.status))
            return
        elif move.reason == RETURNED and not self._is_acted_on:
            await self._give_up_by_hand(f"{key} is given up", claim, move)
        if move.reason == RETURNED:
            message = "its pod was not ready in time"
            await self._report(claim, returned(claim.status, move.attributes, move.previous, message, now))
        elif move.reason in _SWITCHED:
            fields = modified(claim.status, volume.attributes)
            status = {**claim.status, "conditions": fields["conditions"]}
            reason = AWAITING_RESTART if self._is_late(move) else move.reason
            await self._report(claim, {**fields, **kept(status, reason, "the old copy is kept", now)})
        else:
            await self._report(claim, moving(claim.status, move.attributes, move.reason, "a copy", now))

    async def _is_over(self, claim: Object, volume: TieredVolume, move: TierMove, pods: list[Object]) -> bool:
        """Follow the pod that has the copy: whether the old one is dropped. If it does not become ready in
        time, the old one becomes the volume, once the pod has stopped."""
        now = self._clock.now()
        users = [pod for pod in pods if pod.uid == volume.user and ready(pod) and not pod.deleting]
        if volume.user and move.mounted is None:
            move.mounted = now
        if users:
            move.reason = KEPT
            self._is_given_class(claim, volume)
        move.ready_since = (move.ready_since or now) if users else None
        if move.ready_since is not None and now - move.ready_since >= _KEEP:
            self._drop(claim, volume, move.source)
            await self._report(claim, settled(claim.status))
            return True
        if self._is_late(move) and not volume.user:
            volume.tier, volume.attributes, move.reason = move.source, move.previous, RETURNED
            volume.copies.pop(move.target)
        elif self._is_late(move) and not self._is_acted_on:
            await self._restart_by_hand(f"{claim.uid} {claim.generation} returns", volume, pods)
        return False

    def _is_late(self, move: TierMove) -> bool:
        """Whether no pod was ready on the copy in time."""
        late = move.mounted is not None and self._clock.now() - move.mounted >= _DEADLINE
        return move.reason == AWAITING_READY and late

    @property
    def _is_acted_on(self) -> bool:
        """Whether an action may restart pods for a move."""
        actions = self._caches[ApplicationAction].cache.list()
        return any(one.spec.get("action") in (MOVE, REBALANCE_POOL) and one.status.get("phase") == "Running"
                   for one in actions)  # fmt: skip

    async def _restart_by_hand(self, key: str, volume: TieredVolume, pods: list[Object]) -> None:
        """As a person does for a move that no action waits for, such as one that was refused at first."""
        for pod in pods:
            if pod.uid == volume.user and self._is_due(f"{key} by hand", _BY_HAND):
                self.restarted_by_hand.append(pod.name)
                await self._api.delete(Pod, pod.name, pod.namespace, uid=pod.uid)

    async def _give_up_by_hand(self, key: str, claim: Object, move: TierMove) -> None:
        """As a person does who finds that a volume has returned: ask for the class that it has."""
        if self._is_due(key, _GIVING_UP):
            fields = {"spec": {"volumeAttributesClassName": move.previous}}
            await self._api.patch(PersistentVolumeClaim, claim.name, claim.namespace, fields)

    def _drop(self, claim: Object, volume: TieredVolume, tier: str) -> None:
        """Remove a copy, at the end of a move."""
        volume.move = None
        volume.copies.pop(tier, None)
        if not volume.copies.get(volume.tier):
            raise InvariantViolated(f"the volume of claim {claim.name} has no whole copy in {volume.tier}")

    def _is_given_class(self, claim: Object, volume: TieredVolume) -> None:
        self.volumes[claim.uid] = volume
        self._had.setdefault(claim.uid, set()).add(volume.attributes)

    async def _serve_pool(self, pool: Object) -> None:
        asked, capacity = str(pool.spec.get("capacity") or CAPACITY), str(pool.status.get("capacity") or "")
        if not capacity:
            size = {"node": "n0", "tier": pool.name.removeprefix("n0-"), "expandable": True}
            await self._set_pool(pool, {**size, "capacity": asked})
        elif _size(asked) <= _size(capacity):
            self._had.setdefault(pool.uid, set()).add(capacity)
            await self._set_pool(pool, self._expanded(pool, "True", f"the tier holds {capacity}"))
        elif self._refuses:
            await self._set_pool(pool, self._expanded(pool, "False", "its disk is full"))
        elif self._is_due(f"{pool.uid} {asked}", _COPYING):
            self._had.setdefault(pool.uid, set()).add(asked)
            await self._set_pool(pool, {"capacity": asked})

    def _expanded(self, pool: Object, status: str, message: str) -> Tree:
        condition = {"type": "Expanded", "status": status, "reason": "Expanded", "message": message}
        conditions = with_condition(
            pool.status.get("conditions"), condition, now=format_time(self._clock.now())
        )
        return {"conditions": list(conditions)}

    async def _set_pool(self, pool: Object, status: Tree) -> None:
        if any(pool.status.get(name) != value for name, value in status.items()):
            await self._api.patch(StoragePool, pool.name, "", {"status": status}, subresource="status")

    def _check_success(self, action: Object) -> None:
        """Raise if an action has succeeded and what it is about never had what it aims at."""
        if action.status.get("phase") != "Succeeded":
            return
        target, uid = action.at("spec", "target", default={}), action.at("spec", "object", "uid", default="")
        match action.spec.get("action"):
            case name if name in (MOVE, SET_IOPS):
                wanted = target.get("class") or target.get("to")
            case name if name == EXPAND_POOL:
                wanted = target.get("to")
            case _:
                return
        had = self._had.get(uid, {wanted})
        larger = action.spec.get("action") == EXPAND_POOL and max(map(_size, had)) >= _size(wanted)
        if wanted not in had and not larger:
            raise InvariantViolated(f"{action.name} has succeeded, and {wanted} never was there")

    async def _report(self, claim: Object, fields: Tree) -> None:
        if not says_so(claim.status, fields):
            await self._api.patch(
                PersistentVolumeClaim, claim.name, claim.namespace, {"status": fields}, subresource="status"
            )

    @property
    def _refuses(self) -> bool:
        return self._model("volumes") == "refuse"

    def _model(self, what: str) -> str:
        found = self._caches[ConfigMap].cache.get(self._namespace, MODEL)
        data = found.tree.get("data") or {} if found is not None else {}
        return str(data.get(what) or "")

    def _is_due(self, what: str, between: tuple[float, float]) -> bool:
        now = self._clock.monotonic()
        return now >= self._due.setdefault(what, now + self._rng.uniform(*between))


def _without_move(claim: Object) -> Tree:
    """The status of a claim whose volume is not moved."""
    return {**claim.status, "conditions": settled(claim.status)["conditions"] or []}


def _volume(name: str, claim: Object) -> Tree:
    reference = {"kind": "PersistentVolumeClaim", "name": claim.name, "namespace": claim.namespace}
    return {
        "metadata": {"name": name, "annotations": {PROVISIONED_BY: LOOP}},
        "spec": {
            "capacity": claim.at("spec", "resources", "requests"),
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": f"/{name}"},
            "claimRef": {**reference, "apiVersion": "v1", "uid": claim.uid},
        },
    }


def _size(text: str) -> int:
    return parse_quantity(text).to_int()
