"""Reports the tiers of a node as StoragePools, and lets them grow as those ask.

    reporter = StoragePoolReporter(api, "m1", pools, clock, rng)
    await reporter.run()

A StoragePool has the labels of its Node, which owns it, and is written when it has changed noticeably: at
once if sizes did, at most once a minute if only usage did. ``spec.capacity`` is what is asked of a tier; the
condition ``Expanded`` says whether it has grown to that, or why it has not. Pools of tiers that the node does
not have any more are deleted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any, Final

import msgspec

from pilothouse.api.kind_names import Node, StoragePool
from pilothouse.api.objects import Object, Tree
from pilothouse.api.storage_pools import POOL_NODE, POOL_TIER
from pilothouse.base.clock import Clock
from pilothouse.base.quantity import BINARY, NANO, Quantity, QuantityError, parse_quantity
from pilothouse.base.rfc3339 import format_time
from pilothouse.client.access import AccessError
from pilothouse.client.api import Api
from pilothouse.client.informer import Informer
from pilothouse.client.transport import TransportError
from pilothouse.meta.conditions import with_condition
from pilothouse.meta.errors import StatusError
from pilothouse.node.volumes.block_devices import device_of, disk_below, medium_of
from pilothouse.node.volumes.storage_pools import GrowthRefused, PoolUsage, StoragePools

EXPANDED: Final = "Expanded"
_PAUSE: Final = 10.0
"""Seconds between measurements."""
_USAGE: Final = 60.0
"""Seconds between writes of a status of which only usage has changed."""
_LABELS: Final = 300.0
"""Seconds between looks at the labels of the Node."""
_NOTICEABLE: Final = 0.01
"""The part of a tier's capacity by which its usage has to change."""
_MI: Final = 1 << 20

log = logging.getLogger(__name__)


class PoolDevice(msgspec.Struct, frozen=True):
    device: str = ""
    medium: str = ""


class StoragePoolReporter:
    def __init__(self, api: Api, node: str, pools: StoragePools, clock: Clock, rng: Random) -> None:
        self._api = api
        self._node = node
        self._pools = pools
        self._clock = clock
        self._informer = Informer(api, StoragePool, rng, clock, labels=f"{POOL_NODE}={node}")
        self._written: dict[str, float] = {}
        """By tier, when the status was last written, by the monotonic clock."""
        self._owner: tuple[float, Object] | None = None
        self._problem = ""

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._informer.run())
            self._informer.subscribe(lambda _: self._pools.changed.set())
            with suppress(TimeoutError):
                async with asyncio.timeout(_PAUSE):
                    await self._informer.synced()
            while True:
                self._pools.changed.clear()
                usage = await self._pools.measure()
                if self._informer.is_synced:
                    await self._report(usage)
                try:
                    async with asyncio.timeout(_PAUSE):
                        await self._pools.changed.wait()
                except TimeoutError:
                    continue

    async def _report(self, usage: list[PoolUsage]) -> None:
        problems = []
        reports: list[Callable[[], Awaitable[None]]] = [partial(self._report_tier, each) for each in usage]
        for report in (*reports, self._delete_others):
            try:
                await report()
            except (StatusError, TransportError, AccessError) as refusal:
                problems.append(str(refusal))
        problem = "; ".join(problems)
        if problem and problem != self._problem:
            log.warning("not all storage pools of this node can be reported: %s", problem)
        self._problem = problem

    async def _report_tier(self, usage: PoolUsage) -> None:
        pool = self._informer.cache.get("", self._pools.name(usage.tier))
        node = await self._read_node(fresh=pool is None)
        if node is None:
            return
        labels = {**node.labels, POOL_NODE: self._node, POOL_TIER: usage.tier}
        if pool is None:
            pool = await self._create(usage.tier, node, labels)
        elif dict(pool.labels) != labels:
            changes = {name: labels.get(name) for name in pool.labels.keys() | labels.keys()}
            pool = await self._api.patch(StoragePool, pool.name, "", {"metadata": {"labels": changes}})
        conditions, usage = await self._expand(pool, usage)
        device = await asyncio.to_thread(_device, usage)
        status = pool_status(self._node, usage, device, conditions)
        now = self._clock.monotonic()
        if is_due(pool.status, status, now - self._written.get(usage.tier, -_USAGE)):
            await self._api.patch(StoragePool, pool.name, "", {"status": status}, subresource="status")
            self._written[usage.tier] = now

    async def _create(self, tier: str, node: Object, labels: Mapping[str, str]) -> Object:
        owner = {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.uid}
        metadata = {"name": self._pools.name(tier), "labels": dict(labels), "ownerReferences": [owner]}
        body = {"apiVersion": StoragePool.api_version, "kind": StoragePool.kind, "metadata": metadata}
        try:
            return await self._api.create(StoragePool, body)
        except StatusError as refusal:
            if refusal.reason != "AlreadyExists":
                raise
            return await self._api.get(StoragePool, self._pools.name(tier))

    async def _expand(self, pool: Object, usage: PoolUsage) -> tuple[list[Tree], PoolUsage]:
        """Let the tier grow to what is asked; the conditions, and the usage with its capacity."""
        before = [dict(each) for each in pool.status.get("conditions") or ()]
        asked = str(pool.spec.get("capacity") or "")
        if not asked:
            return [each for each in before if each.get("type") != EXPANDED], usage
        outcome = ("True", EXPANDED, f"the tier holds {asked}")
        try:
            size = parse_quantity(asked).to_int()
            await self._pools.grow(usage.tier, size)
            usage = msgspec.structs.replace(usage, capacity=max(usage.capacity, size))
        except QuantityError as problem:
            outcome = ("False", "Invalid", f"spec.capacity: {problem}")
        except GrowthRefused as refusal:
            outcome = ("False", refusal.reason, refusal.message)
        except OSError as problem:
            outcome = ("False", "Failed", f"the size can't be kept: {problem.strerror}")
        status, reason, message = outcome
        condition = {
            "type": EXPANDED,
            "status": status,
            "reason": reason,
            "message": message,
            "observedGeneration": pool.tree["metadata"].get("generation"),
        }
        return with_condition(before, condition, now=format_time(self._clock.now())), usage

    async def _delete_others(self) -> None:
        for pool in self._informer.cache.list():
            if not self._pools.has(pool.labels.get(POOL_TIER, "")) and not pool.deleting:
                await self._api.delete(StoragePool, pool.name, uid=pool.uid)

    async def _read_node(self, *, fresh: bool) -> Object | None:
        now = self._clock.monotonic()
        if fresh or self._owner is None or now - self._owner[0] >= _LABELS:
            found = await self._api.find(Node, self._node)
            self._owner = (now, found) if found is not None else None
        return self._owner[1] if self._owner is not None else None


def pool_status(node: str, usage: PoolUsage, device: PoolDevice, conditions: list[Tree]) -> Tree:
    return {
        "node": node,
        "tier": usage.tier,
        "device": device.device,
        "medium": device.medium,
        "expandable": usage.expandable,
        "capacity": amount(usage.capacity),
        "provisioned": amount(usage.provisioned),
        # Rounded up, as it never stands still.
        "used": amount(-(-usage.used // _MI) * _MI),
        "conditions": conditions,
    }


def amount(size: int) -> str:
    return str(Quantity(size * NANO, BINARY))


def is_due(known: Mapping[str, Any], status: Tree, age: float) -> bool:
    """Whether a status is to be written, ``age`` seconds after the last one was."""
    moving = ("used",) if status["expandable"] else ("used", "capacity")
    for field, value in status.items():
        if field not in moving and (known.get(field) or None) != (value or None):
            return True
    capacity = parse_quantity(status["capacity"]).to_int()
    changes = [abs(_bytes(known.get(field)) - _bytes(status[field])) for field in moving]
    return age >= _USAGE and max(changes) >= max(1.0, _NOTICEABLE * capacity)


def _bytes(value: Any) -> int:
    return parse_quantity(value).to_int() if value else 0


def _device(usage: PoolUsage) -> PoolDevice:
    folder = next(each for each in (usage.folder, *usage.folder.parents) if each.exists())
    try:
        return PoolDevice(disk_below(device_of(folder)), medium_of(folder))
    except OSError as problem:
        log.warning("the device of the tier %s is not known: %s", usage.tier, problem)
        return PoolDevice()
