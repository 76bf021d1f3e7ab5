"""Registers this machine as a Node, and keeps its status and lease up to date.

    registration = NodeRegistration(api, settings, machine, conditions, clock)
    await registration.run()              # lease every 10 s; status when it changes, and every 5 minutes

The lease in ``kube-node-lease`` is the heartbeat. Labels and taints are set when the Node is created; later
the agent only restores its own labels. An existing Node is adopted; a deleted one is created again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from pilothouse.aio.task_group import together
from pilothouse.api.kind_names import Lease, Node
from pilothouse.api.node_images import DATA_FOLDER, MOST_IMAGES
from pilothouse.api.objects import Object, Tree
from pilothouse.base.backoff import Backoff
from pilothouse.base.clock import Clock
from pilothouse.base.rfc3339 import format_micro_time, format_time
from pilothouse.client.access import AccessError
from pilothouse.client.api import Api, Patch
from pilothouse.client.transport import TransportError
from pilothouse.meta.conditions import Condition, with_condition
from pilothouse.meta.errors import StatusError
from pilothouse.node.interfaces import StoredImage
from pilothouse.node.machine.machine_info import MachineInfo
from pilothouse.node.settings import NodeSettings

LEASE_NAMESPACE: Final = "kube-node-lease"
LEASE_INTERVAL: Final = 10.0
LEASE_SECONDS: Final = 40
STATUS_INTERVAL: Final = 300.0
"""Seconds between writes of an unchanged status."""
_RETRY_BACKOFF: Final = Backoff(first=0.2, factor=2.0, longest=7.0)
_FAILURES: Final = (StatusError, TransportError, AccessError, OSError)
"""OSError: the agent may have no file descriptors left to read the machine's state with."""

Conditions = Callable[[], Sequence[Mapping[str, str]]]
"""Type, status, reason and message of each current condition."""

log = logging.getLogger(__name__)


class NodeRegistration:
    def __init__(
        self,
        api: Api,
        settings: NodeSettings,
        machine: MachineInfo,
        conditions: Conditions,
        clock: Clock,
        images: Callable[[], Sequence[StoredImage]] = tuple,
    ) -> None:
        self._api = api
        self._settings = settings
        self._machine = machine
        self._conditions = conditions
        self._images = images
        self._clock = clock
        self._status_written = 0.0
        self._registered = asyncio.Event()
        self._ready = asyncio.Event()
        self._wakeup = asyncio.Event()
        self.node: Object | None = None
        """As it was last written."""
        self.problem = ""

    async def registered(self) -> None:
        """Wait until the API has the Node."""
        await self._registered.wait()

    async def ready(self) -> None:
        """Wait until the API has the Node, and has it as ready."""
        await self._ready.wait()

    @property
    def why_not_ready(self) -> str:
        """The message of the Node's condition ``Ready``, or why the API does not have it; empty if it is
        ready."""
        if self.node is None:
            return self.problem or "the API does not have it yet"
        condition = self.node.condition("Ready") or {}
        return (
            ""
            if condition.get("status") == "True"
            else str(condition.get("message") or "it has not reported")
        )

    def refresh(self) -> None:
        """Update the status soon: something about the node may have changed."""
        self._wakeup.set()

    async def run(self) -> None:
        status = self._repeat(self._sync, "failed to update the status of", self._wakeup)
        await together({"node": status, "lease": self._heartbeat()})

    async def _heartbeat(self) -> None:
        """Renew the lease, independently of the status."""
        await self._registered.wait()
        # An event of its own: one loop must not clear the event that wakes the other.
        await self._repeat(self._renew, "failed to renew the lease of", asyncio.Event())

    async def _repeat(self, act: Callable[[], Awaitable[None]], failure: str, wakeup: asyncio.Event) -> None:
        failures = 0
        while True:
            wakeup.clear()
            try:
                await act()
                failures, self.problem = 0, ""
            except _FAILURES as problem:
                failures += 1
                self.problem = str(problem)
                log.warning("%s node %s: %s", failure, self._settings.name, problem)
            try:
                delay = _RETRY_BACKOFF.after(failures) if failures else LEASE_INTERVAL
                async with asyncio.timeout(delay):
                    await wakeup.wait()
            except TimeoutError:
                continue

    async def _sync(self) -> None:
        node = await self._api.find(Node, self._settings.name)
        if node is None:
            node = await self._create()
            log.info("registered as node %s", node.name)
        node = await self._label(node)
        self.node = await self._update_status(node)
        self._registered.set()
        if self.node.is_true("Ready"):
            self._ready.set()
        else:
            self._ready.clear()

    async def _create(self) -> Object:
        settings = self._settings
        spec: Tree = {"taints": [dict(taint) for taint in settings.taints]} if settings.taints else {}
        if settings.unschedulable:
            spec["unschedulable"] = True
        if settings.pod_cidr:
            spec |= {"podCIDR": settings.pod_cidr, "podCIDRs": [settings.pod_cidr]}
        tree = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": settings.name, "labels": dict(self._machine.labels)},
            "spec": spec,
        }
        try:
            return await self._api.create(Node, tree)
        except StatusError as refusal:
            if refusal.code != 409:
                raise
            return await self._api.get(Node, settings.name)

    async def _label(self, node: Object) -> Object:
        labels = self._machine.labels.items()
        missing = {name: value for name, value in labels if node.labels.get(name) != value}
        fields: Tree = {"metadata": {"labels": missing}} if missing else {}
        folder = str(self._settings.data.absolute().parent)
        if node.annotations.get(DATA_FOLDER) != folder:
            fields.setdefault("metadata", {})["annotations"] = {DATA_FOLDER: folder}
        if self._settings.pod_cidr and not node.spec.get("podCIDR"):
            cidr = self._settings.pod_cidr
            fields["spec"] = {"podCIDR": cidr, "podCIDRs": [cidr]}
        return await self._api.patch(Node, node.name, "", fields) if fields else node

    async def _update_status(self, node: Object) -> Object:
        status = self._status(node)
        now = self._clock.now()
        if _same(node.status, status) and now - self._status_written < STATUS_INTERVAL:
            return node
        moment = format_time(now)
        for condition in status["conditions"]:
            condition["lastHeartbeatTime"] = moment
        body: Tree = {"status": status}
        written = await self._api.patch(Node, node.name, "", body, kind=Patch.STRATEGIC, subresource="status")
        self._status_written = now
        return written

    def _status(self, node: Object) -> Tree:
        conditions: list[Condition] = [dict(each) for each in node.status.get("conditions") or ()]
        moment = format_time(self._clock.now())
        for condition in self._conditions():
            conditions = with_condition(conditions, condition, now=moment)
        settings, machine = self._settings, self._machine
        images = [{"names": list(each.names), "sizeBytes": each.size} for each in self._images()]
        listed: Tree = {"images": images[:MOST_IMAGES]} if images or node.status.get("images") else {}
        return {
            **listed,
            "capacity": dict(machine.capacity),
            "allocatable": dict(machine.allocatable),
            "addresses": [
                {"type": "InternalIP", "address": settings.address},
                {"type": "Hostname", "address": settings.name},
            ],
            "conditions": conditions,
            "nodeInfo": dict(machine.info),
            "daemonEndpoints": {"kubeletEndpoint": {"Port": settings.port}},
        }

    async def _renew(self) -> None:
        name = self._settings.name
        spec = {
            "holderIdentity": name,
            "leaseDurationSeconds": LEASE_SECONDS,
            "renewTime": format_micro_time(self._clock.now()),
        }
        try:
            await self._api.patch(Lease, name, LEASE_NAMESPACE, {"spec": spec}, deadline=LEASE_INTERVAL)
        except StatusError as refusal:
            if refusal.code != 404:
                raise
            metadata: Tree = {"name": name, "namespace": LEASE_NAMESPACE}
            if self.node is not None:
                owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": self.node.uid}
                metadata["ownerReferences"] = [owner]
            await self._api.create(Lease, {"metadata": metadata, "spec": spec}, deadline=LEASE_INTERVAL)


def _same(known: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether a status has the wanted fields; fields of others don't count."""
    return all(known.get(name) == value for name, value in wanted.items())
