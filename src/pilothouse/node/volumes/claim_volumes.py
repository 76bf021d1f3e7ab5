"""Persistent volumes, as the pods of this node use them.

    prepared = await claims.prepare(pod, "data-db-0", read_only=False)
    await claims.release(pod.uid)

The PersistentVolume of a claim is read each time: it must be bound to the claim and on this node. One of our
provisioners is mounted by its backend; another one of the kinds ``local`` and ``hostPath`` is a path of the
machine. A volume of another control plane (``volume_owners``) is not mounted.
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
from pilothouse.base.quantity import parse_quantity
from pilothouse.client.api import Api
from pilothouse.node.interfaces import PreparedVolume, VolumeNotReady
from pilothouse.node.volumes import ownership
from pilothouse.node.volumes.cluster_identity import read_identity
from pilothouse.node.volumes.mount_holders import mount_users
from pilothouse.node.volumes.move_journal import read_move
from pilothouse.node.volumes.throttles import ThrottleError, throttle
from pilothouse.node.volumes.volume_backend import VolumeBackend, VolumeBackendError, folder_of, outside_tiers
from pilothouse.node.volumes.volume_owners import VolumeOwners, owned_folder
from pilothouse.supervise.cgroup_settings import DeviceThrottle

_FAILED: Final = "FailedMount"
_MOVING: Final = "VolumeMoving"
_MOVE_RETRY: Final = 0.5
"""Seconds until a pod asks again for a volume that is being moved."""
_GROUP_THREADS: Final = 4


class VolumeInUse(msgspec.Struct, frozen=True):
    volume: str
    namespace: str
    claim: str
    path: Path
    backend: str = ""
    """Its provisioner; empty for a path of the machine."""
    capacity: str = ""
    throttle: DeviceThrottle | None = None


class ClaimVolumes:
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
        self._names: dict[str, tuple[str, str]] = {}
        """Namespace and name of the pods, by uid."""
        self.pinned: set[str] = set()
        """Volumes that stay mounted when their last pod goes: they are being moved."""
        self.moving: dict[str, str] = {}
        """How far the moves are for which pods wait, by volume."""
        self.awaited: dict[str, asyncio.Event] = {}
        """Volumes whose moves wait until no pod has them; set when a pod goes or comes."""
        self.group_threads = DaemonThreads("fsGroup", _GROUP_THREADS)
        """Set the group of volumes' files, which takes as long as there are files."""

    def grew(self, volume: str, capacity: str) -> None:
        self._replace(volume, capacity=capacity)

    def throttled(self, volume: str, throttle: DeviceThrottle | None) -> None:
        self._replace(volume, throttle=throttle)

    async def limit(self, volume: Object) -> None:
        """Apply the limits of a volume's class to the pods that have it."""
        used = next((one for one in self.in_use if one.volume == volume.name), None)
        if used is not None:
            self.throttled(volume.name, await self._throttle(volume, used.path, used.backend))

    def pods_with(self, volume: str) -> dict[str, tuple[str, str]]:
        """Namespace and name of the pods that have a volume, by uid."""
        return {uid: self._names[uid] for uid, used in self._used.items() if volume in used}

    def _replace(self, volume: str, **fields: Any) -> None:
        for used in self._used.values():
            if volume in used:
                used[volume] = msgspec.structs.replace(used[volume], **fields)

    @property
    def in_use(self) -> list[VolumeInUse]:
        """The volumes that pods use, each once."""
        return list({one.volume: one for used in self._used.values() for one in used.values()}.values())

    def of_pod(self, pod_uid: str) -> list[VolumeInUse]:
        return list(self._used.get(pod_uid, {}).values())

    async def prepare(self, pod: Object, name: str, *, read_only: bool) -> PreparedVolume:
        """Mount the volume of a claim. Raises VolumeNotReady, StatusError, TransportError, OSError."""
        claim = await self._api.find(PersistentVolumeClaim, name, pod.namespace)
        if claim is None:
            raise VolumeNotReady(_FAILED, f'persistentvolumeclaim "{name}" not found')
        volume = await self._volume(claim)
        if "ReadWriteOncePod" in (claim.spec.get("accessModes") or ()):
            self._check_alone(pod, volume)
        path, backend = await self._mount(volume, pod.uid)
        if self._root and (group := ownership.group_of(pod)) is not None and not read_only:
            policy = (pod.spec.get("securityContext") or {}).get("fsGroupChangePolicy")
            once = policy == "OnRootMismatch"
            await self.group_threads.run(lambda: ownership.set_group(path, group, only_on_mismatch=once))
        capacity = str(volume.at("spec", "capacity", "storage", default=""))
        throttle = await self._throttle(volume, path, backend)
        used = VolumeInUse(volume.name, pod.namespace, name, path, backend, capacity, throttle)
        self._names[pod.uid] = pod.namespace, pod.name
        self._used.setdefault(pod.uid, {})[volume.name] = used
        return PreparedVolume(path, read_only, host=not backend)

    async def _volume(self, claim: Object) -> Object:
        where = f'persistentvolumeclaim "{claim.name}"'
        bound = claim.spec.get("volumeName")
        if claim.status.get("phase") != "Bound" or not bound:
            why = f"{where} is not bound to a volume yet: kubectl describe pvc {claim.name}"
            raise VolumeNotReady(_FAILED, why)
        volume = await self._api.find(PersistentVolume, bound)
        if volume is None:
            raise VolumeNotReady(_FAILED, f'{where}: its persistentvolume "{bound}" not found')
        if (volume.spec.get("claimRef") or {}).get("uid") != claim.uid:
            raise VolumeNotReady(_FAILED, f'{where}: persistentvolume "{bound}" is bound to another claim')
        return volume

    async def _mount(self, volume: Object, pod_uid: str) -> tuple[Path, str]:
        """The path of a volume, and its provisioner."""
        where = f'persistentvolume "{volume.name}"'
        home = volume.annotations.get(NODE)
        if home and home != self._node:
            raise VolumeNotReady(_FAILED, f"{where} is on node {home}, and can't be used on {self._node}")
        source = volume.spec.get("local") or volume.spec.get("hostPath")
        if not source:
            why = f"{where}: our nodes mount volumes of the kinds local and hostPath alone"
            raise VolumeNotReady(_FAILED, why)
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
            await self._check_move(folder, volume.name, pod_uid)
            return await backend.mount(folder), provisioner
        except VolumeBackendError as problem:
            raise VolumeNotReady(_FAILED, f"{where}: {problem}") from None

    async def _check_move(self, folder: Path, volume: str, pod_uid: str) -> None:
        """Raises VolumeNotReady while a volume is being switched to its copy in another tier, or is about to
        be and no pod has it. The move looks for users after it has written its journal; this reads the
        journal after the pod became a user."""
        move = await asyncio.to_thread(read_move, folder)
        is_awaited = volume in self.awaited and not await self._has_users(folder, volume, pod_uid)
        if move is not None and (move.is_held or is_awaited):
            self.owners.release(folder, pod_uid)
            if (waiting := self.awaited.get(volume)) is not None:
                waiting.set()
            why = self.moving.get(volume) or f"it is moved to the tier {move.target or 'of its directory'}"
            raise VolumeNotReady(_MOVING, f'persistentvolume "{volume}": {why}', retry=_MOVE_RETRY)

    async def _has_users(self, folder: Path, volume: str, pod_uid: str) -> bool:
        """Whether a pod has the volume: this one, another, or a container of an earlier agent."""
        if volume in self._used.get(pod_uid, {}) or any(volume in used for used in self._used.values()):
            return True
        return await asyncio.to_thread(lambda: any(True for _ in mount_users(folder)))

    async def _acquire(self, folder: Path | None, pod_uid: str) -> None:
        if folder is not None:
            identity = await read_identity(self._api)
            await asyncio.to_thread(self.owners.acquire, folder, identity, pod_uid)

    async def _throttle(self, volume: Object, path: Path, provisioner: str) -> DeviceThrottle | None:
        """The limits of a VolumeAttributesClass. The volume controller reports an invalid one."""
        name, capacity = (
            volume.spec.get("volumeAttributesClassName"),
            volume.at("spec", "capacity", "storage"),
        )
        home = folder_of(str(volume.at("spec", "local", "path", default="")), self._tiers)
        device = self._backends[provisioner].device(home) if provisioner and home is not None else ""
        attributes = await self._api.find(VolumeAttributesClass, name) if name and device else None
        if attributes is None:
            return None
        try:
            return throttle(attributes.get("parameters") or {}, device, parse_quantity(capacity).to_int())
        except ThrottleError:
            return None

    def _check_alone(self, pod: Object, volume: Object) -> None:
        for uid, used in self._used.items():
            if uid != pod.uid and volume.name in used:
                why = f'persistentvolume "{volume.name}" is ReadWriteOncePod, and another pod uses it'
                raise VolumeNotReady(_FAILED, why)

    async def release(self, pod_uid: str) -> None:
        """Unmount the volumes of a pod that no other pod uses. Raises OSError, to be retried."""
        self._names.pop(pod_uid, None)
        for used in self._used.pop(pod_uid, {}).values():
            backend = self._backends.get(used.backend)
            is_used = any(used.volume in others for others in self._used.values())
            if backend is not None and not is_used and used.volume not in self.pinned:
                try:
                    await backend.unmount(used.path.parent)
                except VolumeBackendError as problem:
                    raise OSError(errno.EBUSY, str(problem), str(used.path)) from None
            if used.volume in self.awaited:
                self.awaited[used.volume].set()
        # All that it had acquired, also volumes that could not be mounted.
        self.owners.release_user(pod_uid)


def _present(path: Path, where: str) -> Path:
    if not path.exists():
        raise VolumeNotReady(_FAILED, f"{where}: {path} is not on this node")
    return path
