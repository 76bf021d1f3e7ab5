"""The Node of this machine in the API: made, kept true, and made anew when somebody deletes it.

    registration = NodeRegistration(api, settings, machine, conditions, clock)
    await registration.run()              # lease every 10 s; status when it changes, and every 5 minutes

The lease in ``kube-node-lease`` is the sign of life; the status tells what the machine has and how it is. Labels and taints are the node's
when it is made; later it sets only labels of its own that are missing, and never touches taints. A Node that is there already
(from an earlier agent, or made by hand) is taken over.
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

LEASES: Final = "kube-node-lease"
RENEWED: Final = 10.0
HELD: Final = 40
TOLD: Final = 300.0
"""Seconds between statuses that say nothing new."""
_AGAIN: Final = Backoff(first=0.2, factor=2.0, longest=7.0)
_FAILURES: Final = (StatusError, TransportError, AccessError, OSError)
"""OSError: there may be no open files left to look at the machine with."""

Conditions = Callable[[], Sequence[Mapping[str, str]]]
"""Type, status, reason and message of each condition, as things are."""

log = logging.getLogger(__name__)


class NodeRegistration:
    """Keeps the Node."""

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
        self._told = 0.0
        self._registered = asyncio.Event()
        self._news = asyncio.Event()
        self.node: Object | None = None
        """As it was last written."""
        self.problem = ""

    async def registered(self) -> None:
        """Wait until the API has the Node."""
        await self._registered.wait()

    def refresh(self) -> None:
        """Something about the node may have changed: say so now."""
        self._news.set()

    async def run(self) -> None:
        """Until cancelled."""
        keeping = self._repeat(self._keep, "can't tell of itself", self._news)
        await together({"node": keeping, "lease": self._beat()})

    async def _beat(self) -> None:
        """The sign of life, which nothing else holds up."""
        await self._registered.wait()
        # By an event of its own: what is news to one of the two must not be taken away by the other.
        await self._repeat(self._renew, "can't renew its lease", asyncio.Event())

    async def _repeat(self, act: Callable[[], Awaitable[None]], failure: str, news: asyncio.Event) -> None:
        failures = 0
        while True:
            news.clear()
            try:
                await act()
                failures, self.problem = 0, ""
            except _FAILURES as problem:
                failures += 1
                self.problem = str(problem)
                log.warning("the node %s %s: %s", self._settings.name, failure, problem)
            try:
                async with asyncio.timeout(RENEWED if not failures else _AGAIN.after(failures)):
                    await news.wait()
            except TimeoutError:
                continue

    async def _keep(self) -> None:
        node = await self._api.find(Node, self._settings.name)
        if node is None:
            node = await self._make()
            log.info("registered as node %s", node.name)
        node = await self._label(node)
        self.node = await self._tell(node)
        self._registered.set()

    async def _make(self) -> Object:
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
        missing = {
            name: value for name, value in self._machine.labels.items() if node.labels.get(name) != value
        }
        fields: Tree = {"metadata": {"labels": missing}} if missing else {}
        folder = str(self._settings.data.absolute().parent)
        if node.annotations.get(DATA_FOLDER) != folder:
            fields.setdefault("metadata", {})["annotations"] = {DATA_FOLDER: folder}
        if self._settings.pod_cidr and not node.spec.get("podCIDR"):
            cidr = self._settings.pod_cidr
            fields["spec"] = {"podCIDR": cidr, "podCIDRs": [cidr]}
        return await self._api.patch(Node, node.name, "", fields) if fields else node

    async def _tell(self, node: Object) -> Object:
        status = self._status(node)
        now = self._clock.now()
        if _same(node.status, status) and now - self._told < TOLD:
            return node
        moment = format_time(now)
        for condition in status["conditions"]:
            condition["lastHeartbeatTime"] = moment
        body: Tree = {"status": status}
        written = await self._api.patch(Node, node.name, "", body, kind=Patch.STRATEGIC, subresource="status")
        self._told = now
        return written

    def _status(self, node: Object) -> Tree:
        conditions: list[Condition] = [dict(each) for each in node.status.get("conditions") or ()]
        moment = format_time(self._clock.now())
        for told in self._conditions():
            conditions = with_condition(conditions, told, now=moment)
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
        """The sign of life."""
        name = self._settings.name
        spec = {
            "holderIdentity": name,
            "leaseDurationSeconds": HELD,
            "renewTime": format_micro_time(self._clock.now()),
        }
        try:
            await self._api.patch(Lease, name, LEASES, {"spec": spec}, deadline=RENEWED)
        except StatusError as refusal:
            if refusal.code != 404:
                raise
            metadata: Tree = {"name": name, "namespace": LEASES}
            if self.node is not None:
                owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": self.node.uid}
                metadata["ownerReferences"] = [owner]
            await self._api.create(Lease, {"metadata": metadata, "spec": spec}, deadline=RENEWED)


def _same(known: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether a status says what it should; addresses and conditions of others don't count."""
    return all(known.get(name) == value for name, value in wanted.items())
