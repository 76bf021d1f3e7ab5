"""A control plane with a node that keeps volumes: server, controllers and volume controller in this process.

async with plane(tmp_path) as here:
    await here.claim("data", "320Mi", "loop")
    pod = await here.pod("db", "data")
    path = await here.mounted(pod)
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Any

from tests.kit.loopback import loopback
from tests.kit.waiting import eventually

from pilothouse.api.kind_names import (
    CoreEvent,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    ServiceAccount,
    StorageClass,
)
from pilothouse.api.objects import Object
from pilothouse.app.controller_list import all_controllers
from pilothouse.base.clock import Clock, SystemClock
from pilothouse.base.rfc3339 import format_time
from pilothouse.client.api import Api
from pilothouse.client.shared_informers import SharedInformers
from pilothouse.client.transport import Transport
from pilothouse.node.volumes.assembly import open_volumes
from pilothouse.node.volumes.mount_table import unmount_below
from pilothouse.node.volumes.pod_volumes import PodVolumes
from pilothouse.runtime.election import NoElection
from pilothouse.runtime.manager import Manager

NODE = "n1"
_CONTROLLERS = ("claims", "volumes", "claim-protection", "volume-protection", "scheduling")


class Plane:
    def __init__(
        self, transport: Transport, data: Path, tiers: dict[str, Path], sizes: dict[str, int]
    ) -> None:
        self._transport = transport
        self.api = Api(transport, Random(1), manager="test")
        self.data = data
        self._tiers = tiers
        self.tier_sizes = sizes
        self.volumes: PodVolumes
        self._keeping: asyncio.Task[None] | None = None

    def start_node(self, clock: Clock | None = None) -> None:
        """The node's volumes, as a new agent has them; by the time of the system, unless another clock is given."""
        api = Api(self._transport, Random(2), manager="pilothouse-node")
        self.volumes = open_volumes(
            api,
            node=NODE,
            data=self.data,
            clock=clock or SystemClock(),
            rng=Random(2),
            tiers=self._tiers,
            tier_sizes=self.tier_sizes,
            refresh=0.2,
        )
        self._keeping = asyncio.create_task(self.volumes.run())

    async def stop_node(self) -> None:
        assert self._keeping is not None
        self._keeping.cancel()
        await asyncio.gather(self._keeping, return_exceptions=True)
        self.volumes.close()

    async def storage_class(self, name: str, provisioner: str, **fields: Any) -> None:
        body = {
            "metadata": {"name": name},
            "provisioner": provisioner,
            "volumeBindingMode": "WaitForFirstConsumer",
            "allowVolumeExpansion": True,
            **fields,
        }
        await self.api.create(StorageClass, body)

    async def claim(self, name: str, size: str, storage_class: str, **spec: Any) -> Object:
        body = {
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": storage_class,
                "resources": {"requests": {"storage": size}},
                **spec,
            },
        }
        return await self.api.create(PersistentVolumeClaim, body)

    async def grow(self, name: str, size: str) -> None:
        fields = {"spec": {"resources": {"requests": {"storage": size}}}}
        await self.api.patch(PersistentVolumeClaim, name, "default", fields)

    async def pod(self, name: str, claim: str, **spec: Any) -> Object:
        volume = {"name": "data", "persistentVolumeClaim": {"claimName": claim}}
        container = {
            "name": "main",
            "image": "host/sleep",
            "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        }
        body = {
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "containers": [container],
                "volumes": [volume],
                "automountServiceAccountToken": False,
                **spec,
            },
        }
        return await self.api.create(Pod, body)

    async def find_claim(self, name: str) -> Object:
        return await self.api.get(PersistentVolumeClaim, name, "default")

    async def bound(self, name: str) -> Object:
        """A claim, once it has a volume."""

        async def look() -> Object | None:
            claim = await self.find_claim(name)
            return claim if claim.status.get("phase") == "Bound" else None

        return await eventually(look)

    async def volume_of(self, name: str) -> Object:
        claim = await self.bound(name)
        return await self.api.get(PersistentVolume, claim.spec["volumeName"])

    async def mounted(self, pod: Object) -> Path:
        """Where the volume of a pod is, once its claim has one and the pod this node."""
        await self.bound(pod.spec["volumes"][0]["persistentVolumeClaim"]["claimName"])

        async def here() -> Object | None:
            found = await self.api.get(Pod, pod.name, "default")
            return found if found.spec.get("nodeName") == NODE else None

        return (await self.volumes.prepare(await eventually(here)))["data"].path

    async def delete_pod(self, pod: Object) -> None:
        await self.api.delete(Pod, pod.name, "default", grace=0)
        await self.volumes.release(pod.uid)

    async def condition(self, claim: str, kind: str) -> dict[str, Any]:
        """The condition of a claim, once it has it."""

        async def look() -> dict[str, Any] | None:
            found = (await self.find_claim(claim)).condition(kind)
            return dict(found) if found else None

        return await eventually(look)

    async def events(self, about: str) -> list[str]:
        """The reasons of the events about an object."""
        found = (await self.api.list(CoreEvent, "default")).objects
        return [one["reason"] for one in found if one["involvedObject"]["name"] == about]

    async def gone(self, volume: str) -> None:
        async def look() -> bool:
            return await self.api.find(PersistentVolume, volume) is None

        await eventually(look)


@contextlib.asynccontextmanager
async def plane(
    folder: Path, tiers: dict[str, Path] | None = None, sizes: dict[str, int] | None = None
) -> AsyncIterator[Plane]:
    async with loopback() as transport:
        here = Plane(transport, folder / "node", tiers or {}, sizes or {})
        clock = SystemClock()
        await here.api.create(ServiceAccount, {"metadata": {"name": "default", "namespace": "default"}})
        node = await here.api.create(
            Node, {"metadata": {"name": NODE, "labels": {"kubernetes.io/hostname": NODE}}}
        )
        ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": format_time(clock.now())}
        amounts = {"cpu": "8", "memory": "16Gi", "pods": "100"}
        status = {"conditions": [ready], "capacity": amounts, "allocatable": amounts}
        await here.api.patch(Node, node.name, "", {"status": status}, subresource="status")
        manager_api = Api(transport, Random(3), manager="manager")
        informers = SharedInformers(manager_api, Random(3), clock)
        controllers = [one for one in all_controllers("") if one.name in _CONTROLLERS]
        assert len(controllers) == len(_CONTROLLERS)
        manager = Manager(manager_api, controllers, informers, NoElection(), clock, identity="m1")
        managing = asyncio.create_task(manager.run())
        here.start_node()
        try:
            yield here
        finally:
            await here.stop_node()
            managing.cancel()
            await asyncio.gather(managing, return_exceptions=True)
            unmount_below(folder)
