"""A simulated node: its pods become ready after a while, and end when they are deleted; nothing runs.

    node = SimulatedNode(api, "n1", clock, random.Random(7), NodeTiming(starting=(1, 5)))
    await node.run()                      # until cancelled

It registers itself, renews its lease, and writes the status of its pods as a kubelet does, through the API.
"""

from __future__ import annotations

import asyncio
import logging
from random import Random
from typing import Final

import msgspec

from pilothouse.aio.task_group import together
from pilothouse.api.kind_names import Node, Pod
from pilothouse.api.objects import Object, Tree
from pilothouse.base.clock import Clock
from pilothouse.base.rfc3339 import format_time
from pilothouse.client.api import Api
from pilothouse.client.informer import Informer
from pilothouse.client.object_cache import CacheChange
from pilothouse.client.subresources import bind
from pilothouse.client.transport import TransportError
from pilothouse.meta.conditions import with_condition
from pilothouse.meta.errors import StatusError
from pilothouse.sim import heartbeats

LEASES: Final = "kube-node-lease"
_AGAIN: Final = 1.0

log = logging.getLogger(__name__)


class NodeTiming(msgspec.Struct, frozen=True):
    """How long a node takes, as ranges in seconds."""

    starting: tuple[float, float] = (1.0, 4.0)
    stopping: tuple[float, float] = (0.5, 3.0)
    failing: float = 0.0
    """The share of starts that end in a failed pod."""
    unready: str = ""
    """Pods whose image has this prefix run and never become ready; empty for none."""


class SimulatedNode:
    def __init__(
        self,
        api: Api,
        name: str,
        clock: Clock,
        rng: Random,
        timing: NodeTiming = NodeTiming(),
        *,
        labels: dict[str, str] | None = None,
        capacity: dict[str, str] | None = None,
        subnet: str = "127.8.1",
        takes_all: bool = False,
    ) -> None:
        """With ``takes_all`` it binds every unbound pod to itself, and is cordoned against schedulers."""
        self.name = name
        self._api = api
        self._clock = clock
        self._rng = rng
        self._timing = timing
        self._labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", **(labels or {})}
        self._capacity = {"cpu": "8", "memory": "32Gi", "pods": "110", **(capacity or {})}
        self._subnet = subnet
        self._given = 0
        self._busy: dict[str, asyncio.Task[None]] = {}
        self._pods = Informer(api, Pod, rng, clock, fields=f"spec.nodeName={name}")
        self._unbound = Informer(api, Pod, rng, clock, fields="spec.nodeName=") if takes_all else None

    async def run(self) -> None:
        await self._register()
        try:
            parts = {"pods": self._pods.run(), "heartbeat": self._beat(), "kubelet": self._keep()}
            if self._unbound is not None:
                self._unbound.subscribe(self._offered)
                parts["unbound"] = self._unbound.run()
            await together(parts)
        finally:
            for task in self._busy.values():
                task.cancel()
            await asyncio.gather(*self._busy.values(), return_exceptions=True)

    async def _register(self) -> None:
        now = format_time(self._clock.now())
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "KubeletReady",
            "message": "",
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        }
        tree: Tree = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": self.name, "labels": self._labels},
            "spec": {"unschedulable": True} if self._unbound is not None else {},
        }
        status = {"capacity": self._capacity, "allocatable": self._capacity, "conditions": [ready]}
        while True:
            try:
                if await self._api.find(Node, self.name) is None:
                    await self._api.create(Node, tree)
                await self._api.patch(Node, self.name, "", {"status": status}, subresource="status")
                return
            except (StatusError, TransportError):
                await asyncio.sleep(_AGAIN)

    async def _beat(self) -> None:
        """Renew the lease, and the Ready condition if it was set to another status."""
        while True:
            try:
                await heartbeats.renew(self._api, self.name, LEASES, self.name, self._clock)
                node = await self._api.find(Node, self.name)
                if node is None:
                    await self._register()
                elif not node.is_true("Ready"):
                    conditions = with_condition(
                        list(node.status.get("conditions") or ()),
                        {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""},
                        now=format_time(self._clock.now()),
                    )
                    fields = {"status": {"conditions": conditions}}
                    await self._api.patch(Node, self.name, "", fields, subresource="status")
            except (StatusError, TransportError):
                await asyncio.sleep(_AGAIN)
                continue
            await asyncio.sleep(heartbeats.EVERY)

    async def _keep(self) -> None:
        unsubscribe = self._pods.subscribe(self._changed)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            unsubscribe()

    def _offered(self, difference: CacheChange) -> None:
        pod = difference.new
        if pod is not None and pod.uid not in self._busy:
            self._busy[pod.uid] = asyncio.ensure_future(self._bind(pod))

    async def _bind(self, pod: Object) -> None:
        try:
            await bind(self._api, pod.name, pod.namespace, self.name, uid=pod.uid)
        except (StatusError, TransportError) as problem:
            log.info("%s: can't bind pod %s: %s", self.name, pod.name, problem)
        finally:
            self._busy.pop(pod.uid, None)
            # Changes that came meanwhile were left to this task.
            if (bound := self._pods.cache.get(pod.namespace, pod.name)) is not None:
                self._start_worker(bound)

    def _changed(self, difference: CacheChange) -> None:
        if difference.new is not None:
            self._start_worker(difference.new)

    def _start_worker(self, pod: Object) -> None:
        if pod.uid not in self._busy:
            task = asyncio.ensure_future(self._work(pod.uid, pod.namespace, pod.name))
            task.set_name(f"{self.name} {pod.name}")
            self._busy[pod.uid] = task

    async def _work(self, uid: str, namespace: str, name: str) -> None:
        """Step a pod until nothing is left to do."""
        try:
            while True:
                pod = self._pods.cache.get(namespace, name)
                if pod is None or pod.uid != uid:
                    return
                try:
                    if not await self._step(pod):
                        return
                except (StatusError, TransportError):
                    await asyncio.sleep(_AGAIN)
        finally:
            self._busy.pop(uid, None)

    async def _step(self, pod: Object) -> bool:
        """Advance a pod by one step. False if there is none."""
        seen = self._pods.revision
        if pod.deleting:
            await asyncio.sleep(self._rng.uniform(*self._timing.stopping))
            await self._api.delete(Pod, pod.name, pod.namespace, uid=pod.uid, grace=0)
        elif (
            pod.status.get("phase") in ("Succeeded", "Failed")
            or pod.is_true("Ready")
            or (pod.status.get("phase") == "Running" and self._never_ready(pod))
        ):
            return False
        else:
            await asyncio.sleep(self._rng.uniform(*self._timing.starting))
            fails = self._rng.random() < self._timing.failing
            written = await self._api.patch(
                Pod, pod.name, pod.namespace, {"status": self._status(pod, fails)}, subresource="status"
            )
            seen = written.revision - 1
        await self._pods.until(seen + 1)
        return True

    def _status(self, pod: Object, fails: bool) -> Tree:
        now = format_time(self._clock.now())
        conditions = list(pod.status.get("conditions") or ())
        well = not fails and not self._never_ready(pod)
        for kind in ("Initialized", "ContainersReady", "Ready"):
            condition = {"type": kind, "status": "True" if well else "False", "reason": "", "message": ""}
            conditions = with_condition(conditions, condition, now=now)
        if fails:
            return {"phase": "Failed", "reason": "Error", "conditions": conditions}
        return {
            "phase": "Running",
            "conditions": conditions,
            "podIP": pod.status.get("podIP") or self._address(),
            "startTime": pod.status.get("startTime") or now,
        }

    def _never_ready(self, pod: Object) -> bool:
        unready = self._timing.unready
        return bool(unready) and any(one["image"].startswith(unready) for one in pod.spec["containers"])

    def _address(self) -> str:
        self._given += 1
        return f"{self._subnet}.{self._given % 250 + 1}"
