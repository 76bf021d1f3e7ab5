"""The pods of a forked cluster: one that is evicted ends, and returns elsewhere if it has an owner.

    pods = ForkedPods(server, clock, random.Random(7), PodTiming())
    await pods.run()                       # until cancelled

What the owners of pods and the kubelets do is modelled here; the real scheduler places the new pods. A pod
that was not ready when the state was forked stays so.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Coroutine
from random import Random
from typing import Any, Final

import msgspec

from pilothouse.aio.task_group import together
from pilothouse.api.kind_names import Pod
from pilothouse.api.objects import Object, Tree
from pilothouse.api.pod_health import ended
from pilothouse.base.clock import Clock
from pilothouse.base.rfc3339 import format_time
from pilothouse.client.informer import Informer
from pilothouse.client.object_cache import CacheChange
from pilothouse.client.transport import TransportError
from pilothouse.meta.conditions import with_condition
from pilothouse.meta.errors import StatusError
from pilothouse.sim.forked_state import store_entry
from pilothouse.sim.simulated_server import SimulatedServer
from pilothouse.sim.update_machines import Seconds

_KEPT: Final = ("labels", "annotations", "ownerReferences")
"""The metadata that a pod has in common with the one that it replaces."""
_REFUSED: Final = (StatusError, TransportError)


class PodTiming(msgspec.Struct, frozen=True):
    """How long pods take to become ready, and to end."""

    start: Seconds = (5.0, 30.0)
    stop: Seconds = (1.0, 10.0)


class ForkedPods:
    def __init__(self, server: SimulatedServer, clock: Clock, rng: Random, timing: PodTiming) -> None:
        self._server = server
        self._api = server.api("pods")
        self._clock = clock
        self._rng = rng
        self._timing = timing
        self._pods = Informer(self._api, Pod, rng, clock)
        self._new: set[str] = set()
        """The uids of pods that were created here."""
        self._busy: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        self._pods.subscribe(self._changed)
        try:
            await together({"pods": self._pods.run()})
        finally:
            for task in self._busy.values():
                task.cancel()
            await asyncio.gather(*self._busy.values(), return_exceptions=True)

    def _changed(self, change: CacheChange) -> None:
        pod = change.new
        if pod is None:
            if change.old is not None and change.old.controller is not None and not ended(change.old):
                self._begin(f"replace {change.old.uid}", self._replace(change.old))
        elif pod.deleting:
            self._begin(f"stop {pod.uid}", self._stop(pod))
        elif pod.uid in self._new and pod.spec.get("nodeName") and not pod.is_true("Ready"):
            self._begin(f"start {pod.uid}", self._start(pod))

    def _begin(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        if name in self._busy:
            work.close()
            return
        task = asyncio.ensure_future(work)
        self._busy[name] = task
        task.add_done_callback(lambda _: self._busy.pop(name, None))

    async def _stop(self, pod: Object) -> None:
        await asyncio.sleep(self._rng.uniform(*self._timing.stop))
        while self._pods.cache.get(*pod.key) is not None:
            try:
                await self._api.delete(Pod, pod.name, pod.namespace, uid=pod.uid, grace=0)
                return
            except _REFUSED:
                await asyncio.sleep(1)

    async def _start(self, pod: Object) -> None:
        await asyncio.sleep(self._rng.uniform(*self._timing.start))
        now = format_time(self._clock.now())
        conditions = list(pod.status.get("conditions") or ())
        for kind in ("Initialized", "ContainersReady", "Ready"):
            condition = {"type": kind, "status": "True", "reason": "", "message": ""}
            conditions = with_condition(conditions, condition, now=now)
        status = {"phase": "Running", "conditions": conditions, "startTime": now}
        while (found := self._pods.cache.get(*pod.key)) is not None and found.uid == pod.uid:
            try:
                await self._api.patch(Pod, pod.name, pod.namespace, {"status": status}, subresource="status")
                return
            except _REFUSED:
                await asyncio.sleep(1)

    async def _replace(self, gone: Object) -> None:
        """As its owner would: a pod with a number has the same name again."""
        uid = str(uuid.UUID(int=self._rng.getrandbits(128), version=4))
        name = gone.name if gone.name.rpartition("-")[2].isdigit() else f"{gone.name[:240]}-{uid[:5]}"
        metadata: Tree = {key: gone.tree["metadata"][key] for key in _KEPT if key in gone.tree["metadata"]}
        metadata |= {
            "name": name,
            "namespace": gone.namespace,
            "uid": uid,
            "creationTimestamp": format_time(self._clock.now()),
        }
        spec = {key: value for key, value in gone.spec.items() if key != "nodeName"}
        tree: Tree = {
            "apiVersion": Pod.api_version,
            "kind": Pod.kind,
            "metadata": metadata,
            "spec": spec,
            "status": {"phase": "Pending"},
        }
        self._new.add(uid)
        # Not through the API: what admission has added to the pod is in it already.
        await self._server.store.create(*store_entry(Pod, tree))
