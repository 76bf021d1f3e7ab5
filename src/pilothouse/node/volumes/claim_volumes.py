"""Persistent volumes, as the pods of this node use them.

    prepared = await claims.prepare(pod, "data-db-0", read_only=False)
    await claims.release(pod.uid)

The claim says which PersistentVolume it has, and that is looked at anew each time: it must be the claim's, and be on this node. One that a
backend of ours made is mounted by it; another one of the kinds ``local`` and ``hostPath`` is a path of the machine. A volume that belongs to
another control plane (``volume_owners``) is not mounted.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from pilothouse.aio.daemon_threads import DaemonThreads
from pilothouse.api.kind_names import PersistentVolume, PersistentVolumeClaim, VolumeAttributesClass
from pilothouse.api.local_volumes import NODE, PROVISIONED_BY
from pilothouse.api.objects import Object
from pilothouse.client.api import Api
from pilothouse.node.interfaces import VolumeNotReady
from pilothouse.node.volumes import ownership
from pilothouse.node.volumes.cluster_identity import read_identity
from pilothouse.node.volumes.container_mounts import MountableVolume
from pilothouse.node.volumes.throttles import ThrottleError, throttle
from pilothouse.node.volumes.volume_backend import VolumeBackend, VolumeBackendError, folder_of, outside_tiers
from pilothouse.node.volumes.volume_owners import VolumeOwners, owned_folder
from pilothouse.supervise.cgroup_settings import Throttle

_FAILED: Final = "FailedMount"
_GIVING: Final = 4


class VolumeInUse(msgspec.Struct, frozen=True):
    """A volume that a pod of this node uses."""

    volume: str
    namespace: str
    claim: str
    path: Path
    backend: str = ""
    """The provisioner that keeps it; empty for a path of the machine."""
    capacity: str = ""
    throttle: Throttle | None = None
    """How much its users may read and write."""


class ClaimVolumes:
    """The claims of this node's pods."""

    def __init__(
        self,
        api: Api,
        node: str,
        backends: Mapping[str, VolumeBackend],
        tiers: Mapping[str, Path],
        owners: VolumeOwners,
        *,
        root: bool,
    ) -> None:
        self.owners = owners
        self._api = api
        self._node = node
        self._backends = backends
        self._tiers = tiers
        self._root = root
        self._used: dict[str, dict[str, VolumeInUse]] = {}
        self.giving = DaemonThreads("fsGroup", _GIVING)
        """Where the files of volumes are given to groups, which takes as long as there are files."""

    def grew(self, volume: str, capacity: str) -> None:
        """A volume has become larger."""
        self._replace(volume, capacity=capacity)

    def throttled(self, volume: str, throttle: Throttle) -> None:
        """A volume has got other limits."""
        self._replace(volume, throttle=throttle)

    def _replace(self, volume: str, **fields: Any) -> None:
        for used in self._used.values():
            if volume in used:
                used[volume] = msgspec.structs.replace(used[volume], **fields)

    @property
    def in_use(self) -> list[VolumeInUse]:
        """The volumes that pods use, each once."""
        return list({one.volume: one for used in self._used.values() for one in used.values()}.values())

    def of_pod(self, pod_uid: str) -> list[VolumeInUse]:
        """The volumes that a pod uses."""
        return list(self._used.get(pod_uid, {}).values())

    async def prepare(self, pod: Object, name: str, *, read_only: bool) -> MountableVolume:
        """Have the volume of a claim mounted. Raises VolumeNotReady, StatusError, TransportError, OSError."""
        claim = await self._api.find(PersistentVolumeClaim, name, pod.namespace)
        if claim is None:
            raise VolumeNotReady(_FAILED, f'persistentvolumeclaim "{name}" not found')
        volume = await self._volume(claim)
        if "ReadWriteOncePod" in (claim.spec.get("accessModes") or ()):
            self._check_alone(pod, volume)
        path, backend = await self._brought(volume, pod.uid)
        if self._root and (group := ownership.group_of(pod)) is not None and not read_only:
            policy = (pod.spec.get("securityContext") or {}).get("fsGroupChangePolicy")
            once = policy == "OnRootMismatch"
            await self.giving.run(lambda: ownership.give(path, group, only_on_mismatch=once))
        capacity = str(volume.at("spec", "capacity", "storage", default=""))
        throttle = await self._throttle(volume, path, backend)
        used = VolumeInUse(volume.name, pod.namespace, name, path, backend, capacity, throttle)
        self._used.setdefault(pod.uid, {})[volume.name] = used
        return MountableVolume(path, read_only, host=not backend)

    async def _volume(self, claim: Object) -> Object:
        where = f'persistentvolumeclaim "{claim.name}"'
        bound = claim.spec.get("volumeName")
        if claim.status.get("phase") != "Bound" or not bound:
            raise VolumeNotReady(
                _FAILED, f"{where} is not bound to a volume yet: kubectl describe pvc {claim.name}"
            )
        volume = await self._api.find(PersistentVolume, bound)
        if volume is None:
            raise VolumeNotReady(_FAILED, f'{where}: its persistentvolume "{bound}" not found')
        if (volume.spec.get("claimRef") or {}).get("uid") != claim.uid:
            raise VolumeNotReady(_FAILED, f'{where}: persistentvolume "{bound}" is bound to another claim')
        return volume

    async def _brought(self, volume: Object, pod_uid: str) -> tuple[Path, str]:
        """The path of a volume, and who keeps it."""
        where = f'persistentvolume "{volume.name}"'
        home = volume.annotations.get(NODE)
        if home and home != self._node:
            raise VolumeNotReady(_FAILED, f"{where} is on node {home}, and can't be used on {self._node}")
        source = volume.spec.get("local") or volume.spec.get("hostPath")
        if not source:
            raise VolumeNotReady(
                _FAILED, f"{where}: our nodes mount volumes of the kinds local and hostPath alone"
            )
        provisioner = volume.annotations.get(PROVISIONED_BY, "")
        backend = self._backends.get(provisioner)
        folder = folder_of(source["path"], self._tiers)
        try:
            if backend is None:
                path = _present(Path(source["path"]), where)
                folder = await asyncio.to_thread(owned_folder, path)
                if folder is None and volume.spec.get("local"):
                    identity = await read_identity(self._api)
                    await asyncio.to_thread(self.owners.acquire_path, path, identity)
                await self._acquire(folder, pod_uid)
                return path, ""
            if folder is None:
                raise VolumeBackendError(outside_tiers(source["path"], self._tiers))
            await self._acquire(folder, pod_uid)
            return await backend.bring(folder), provisioner
        except VolumeBackendError as problem:
            raise VolumeNotReady(_FAILED, f"{where}: {problem}") from None

    async def _acquire(self, folder: Path | None, pod_uid: str) -> None:
        if folder is not None:
            identity = await read_identity(self._api)
            await asyncio.to_thread(self.owners.acquire, folder, identity, pod_uid)

    async def _throttle(self, volume: Object, path: Path, provisioner: str) -> Throttle | None:
        """The limits of a volume's VolumeAttributesClass. One that means nothing is told of on the claim, by who was to set it."""
        name = volume.spec.get("volumeAttributesClassName")
        device = self._backends[provisioner].device(path.parent) if provisioner else ""
        attributes = await self._api.find(VolumeAttributesClass, name) if name and device else None
        if attributes is None:
            return None
        try:
            return throttle(attributes.get("parameters") or {}, device)
        except ThrottleError:
            return None

    def _check_alone(self, pod: Object, volume: Object) -> None:
        for uid, used in self._used.items():
            if uid != pod.uid and volume.name in used:
                raise VolumeNotReady(
                    _FAILED, f'persistentvolume "{volume.name}" is ReadWriteOncePod, and another pod uses it'
                )

    async def release(self, pod_uid: str) -> None:
        """A pod uses its volumes no more. One that no other pod uses is put away; what can't be is left for the next time."""
        for used in self._used.pop(pod_uid, {}).values():
            backend = self._backends.get(used.backend)
            if backend is not None and not any(used.volume in others for others in self._used.values()):
                try:
                    await backend.put_away(used.path.parent)
                except VolumeBackendError as problem:
                    raise OSError(errno.EBUSY, str(problem), str(used.path)) from None
        # All that it had acquired, also of a volume that could not be mounted then.
        self.owners.release_user(pod_uid)


def _present(path: Path, where: str) -> Path:
    if not path.exists():
        raise VolumeNotReady(_FAILED, f"{where}: {path} is not on this node")
    return path
