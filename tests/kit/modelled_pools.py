"""Nodes with storage pools, as a model: pools that grow or can't, volumes that move between them, and metrics.

    pools = ModelledPools(server.api("pools"), clock, volumes)
    pools.data["w1-fast"] = 6.0              # GiB in a pool, besides its volumes
    await pools.run()                        # until cancelled
    await pools.query(["px_pool_stats_total_bytes"], now)

Expressions are evaluated as they stand, over the series that a node reports of its pools; those of volumes are
answered by the model of volumes. A pool grows some seconds after it is asked to, unless its disk lacks the
room, and a volume moves some seconds after its claim asks for a class with another tier.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from pilothouse.api.attributes_classes import current_class, parameters_of, requested_class
from pilothouse.api.kind_names import (
    PersistentVolume,
    PersistentVolumeClaim,
    StoragePool,
    VolumeAttributesClass,
)
from pilothouse.api.local_volumes import NODE, VOLUME_MOVE
from pilothouse.api.objects import Object, Tree
from pilothouse.base.clock import Clock
from pilothouse.base.rfc3339 import format_time
from pilothouse.client.api import Api
from pilothouse.client.shared_informers import SharedInformers
from pilothouse.client.transport import TransportError
from pilothouse.meta.conditions import with_condition
from pilothouse.meta.errors import StatusError
from pilothouse.rules.action_targets import bytes_of, size_text
from pilothouse.rules.promql.label_sets import NAME
from pilothouse.rules.promql.memory_series import MemorySeries
from pilothouse.rules.promql.queries import compile_query
from pilothouse.rules.promql.query_evaluation import evaluate
from pilothouse.rules.rule_controllers import rule_controllers
from pilothouse.rules.samples import Answer, Sample
from pilothouse.rules.targets.volume_class import DEFAULT_TIER
from pilothouse.runtime.controller import Controller
from pilothouse.runtime.manager import Observer
from pilothouse.sim.metered_volumes import MeteredVolumes, ModelledProvider

GIB: Final = 1024**3
_STEP: Final = 2.0
_GROWING: Final = 6.0
"""Seconds from the request for a larger pool to its answer."""
_MOVING: Final = 20.0
_METRICS: Final = "px_pool_stats_"


class ModelledPools:
    def __init__(self, api: Api, clock: Clock, volumes: MeteredVolumes) -> None:
        self._api = api
        self._clock = clock
        self._volumes = volumes
        self._pools: Sequence[Object] = ()
        self._since: dict[str, float] = {}
        """When a pool was first seen to be asked for a size, or a claim for a class."""
        self.data: dict[str, float] = defaultdict(float)
        """GiB that are used of a pool besides its volumes, by its name."""
        self.written: dict[str, float] = defaultdict(float)
        """GiB of a volume that are used, by the name of its claim."""
        self.room: dict[str, float] = {}
        """GiB that the disk of a pool could hold, by its name; others have no end."""
        self.away = False
        """Whether the nodes are down: they answer nothing."""
        self.changing: set[tuple[str, ...]] = set()
        """The pools that were being changed at a time, as often as there were any."""

    @property
    def controllers(self) -> Sequence[Controller]:
        return rule_controllers(self)

    def observers(self, api: Api, informers: SharedInformers, clock: Clock) -> Mapping[str, Observer]:
        return {}

    def get(self, name: str) -> ModelledProvider:
        return ModelledProvider(self)

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._volumes.run())
            group.create_task(self._follow())

    async def query(self, expressions: Sequence[str], now: float) -> Mapping[str, Answer]:
        of_pools = [text for text in expressions if _METRICS in text]
        series = self._series(now)
        answers: dict[str, Answer] = {text: _evaluated(text, series, now) for text in of_pools}
        if others := [text for text in expressions if text not in answers]:
            answers |= await self._volumes.query(others, now)
        return answers

    def _series(self, now: float) -> MemorySeries:
        series = MemorySeries()
        for pool in self._pools:
            status = pool.status
            sizes = {each: bytes_of(status.get(each)) for each in ("capacity", "provisioned", "used")}
            values = {
                "total": sizes["capacity"],
                "provisioned": sizes["provisioned"],
                "used": sizes["used"],
                "available": sizes["capacity"] - sizes["used"],
            }
            for name, value in values.items():
                labels = {NAME: f"{_METRICS}{name}_bytes", "pool": pool.name, "node": str(status.get("node"))}
                series.add(labels, [round(now * 1000)], [value])
        return series

    async def _follow(self) -> None:
        while True:
            if not self.away:
                # The server is down, or another client has changed the object.
                with suppress(StatusError, TransportError):
                    await self._step()
            await asyncio.sleep(_STEP)

    async def _step(self) -> None:
        claims = (await self._api.list(PersistentVolumeClaim)).objects
        classes = {one.name: one for one in (await self._api.list(VolumeAttributesClass)).objects}
        for claim in claims:
            await self._move(claim, classes)
        pools = (await self._api.list(StoragePool)).objects
        growing = [one.name for one in pools if bytes_of(one.spec.get("capacity")) > _capacity(one)]
        moving = [one.name for one in claims if requested_class(one) != current_class(one)]
        self.changing.add((*growing, *moving))
        volumes = (await self._api.list(PersistentVolume)).objects
        nodes = {one.name: one.annotations.get(NODE, "") for one in volumes}
        here: dict[tuple[str, str], list[Object]] = defaultdict(list)
        for claim in claims:
            tier = parameters_of(classes.get(current_class(claim))).get("tier", DEFAULT_TIER)
            here[nodes.get(claim.spec.get("volumeName", ""), ""), tier].append(claim)
        for pool in pools:
            await self._report(pool, here[pool.status["node"], pool.status["tier"]])
        self._pools = (await self._api.list(StoragePool)).objects

    async def _report(self, pool: Object, claims: Sequence[Object]) -> None:
        status = dict(pool.status)
        status |= self._grown(pool, status)
        sizes = [bytes_of(one.at("status", "capacity", "storage")) for one in claims]
        status["provisioned"] = size_text(sum(sizes))
        used = self.data[pool.name] + sum(self.written[one.name] for one in claims)
        status["used"] = size_text(round(used * GIB))
        if status != pool.status:
            await self._api.patch(StoragePool, pool.name, "", {"status": status}, subresource="status")

    def _grown(self, pool: Object, status: Tree) -> Tree:
        """The capacity and the condition of a pool, once it is asked for one."""
        asked = bytes_of(pool.spec.get("capacity"))
        if asked <= _capacity(pool) or not self._is_due(f"{pool.name} {asked}", _GROWING):
            return {}
        lacking = asked - round(self.room.get(pool.name, asked / GIB) * GIB)
        if lacking > 0:
            problem = f"there is no room for {size_text(asked)}: {size_text(lacking)} are missing"
            return self._condition(status, "False", "NoRoom", problem)
        holds = f"the tier holds {size_text(asked)}"
        return {
            "capacity": size_text(asked),
            **self._condition(status, "True", "Expanded", holds),
        }

    def _condition(self, status: Tree, value: str, reason: str, message: str) -> Tree:
        condition = {"type": "Expanded", "status": value, "reason": reason, "message": message}
        now = format_time(self._clock.now())
        return {"conditions": with_condition(status.get("conditions"), condition, now=now)}

    async def _move(self, claim: Object, classes: Mapping[str, Object]) -> None:
        to = requested_class(claim)
        if to == current_class(claim) or to not in classes:
            return
        done = self._is_due(f"{claim.uid} {current_class(claim)} {to}", _MOVING)
        tier = parameters_of(classes[to]).get("tier", "")
        status: Tree = {}
        if tier != parameters_of(classes.get(current_class(claim))).get("tier", ""):
            condition = {"type": VOLUME_MOVE, "status": "True", "reason": "Kept" if done else "Copying"}
            condition["message"] = f"in tier {tier}" if done else f"to tier {tier}: 40 %"
            now = format_time(self._clock.now())
            status["conditions"] = with_condition(claim.status.get("conditions"), condition, now=now)
        target = {"targetVolumeAttributesClassName": to, "status": "InProgress"}
        status |= (
            {"currentVolumeAttributesClassName": to, "modifyVolumeStatus": None}
            if done
            else {"modifyVolumeStatus": target}
        )
        await self._api.patch(
            PersistentVolumeClaim, claim.name, claim.namespace, {"status": status}, subresource="status"
        )

    def _is_due(self, what: str, seconds: float) -> bool:
        now = self._clock.monotonic()
        return now - self._since.setdefault(what, now) >= seconds


def _evaluated(text: str, series: MemorySeries, now: float) -> list[Sample]:
    found = evaluate(compile_query(text), series, now)
    return [
        Sample(labels.labels, value, now)
        for labels, value in zip(found.labels, found.values.tolist(), strict=True)
    ]


def _capacity(pool: Object) -> int:
    return bytes_of(pool.status.get("capacity"))
