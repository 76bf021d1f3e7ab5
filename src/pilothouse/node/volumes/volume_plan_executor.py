"""Executes the steps of a volume plan: the disk first, then the API, so that only existing volumes are announced.

    runner = VolumePlanExecutor(api, "m1", backends, tiers, claims, record_event, clock)
    for written in await runner.run(step): ...        # the objects that were written
    await runner.complain(step, problem)

Each is a few steps that may all have been done before: by an earlier agent, which was killed in between, or a moment ago.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from pilothouse.api.kind_names import (
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttributesClass,
)
from pilothouse.api.local_volumes import FINALIZER, PROVISIONED_BY, volume_name
from pilothouse.api.objects import Object, Tree
from pilothouse.api.topologies import allows
from pilothouse.base.clock import Clock
from pilothouse.base.quantity import parse_quantity
from pilothouse.client.access import AccessError
from pilothouse.client.api import Api
from pilothouse.client.transport import TransportError
from pilothouse.meta.errors import StatusError
from pilothouse.node.files.directory_handles import make_directory
from pilothouse.node.files.path_names import is_uid
from pilothouse.node.volumes import claim_statuses
from pilothouse.node.volumes.claim_volumes import ClaimVolumes
from pilothouse.node.volumes.cluster_identity import read_identity
from pilothouse.node.volumes.orphaned_volumes import folders, is_marked, leftovers, mark
from pilothouse.node.volumes.removal import remove
from pilothouse.node.volumes.throttles import ThrottleError, throttle
from pilothouse.node.volumes.volume_backend import (
    VolumeBackend,
    VolumeBackendError,
    VolumeRecord,
    folder_of,
    outside_tiers,
    read_record,
    write_record,
)
from pilothouse.node.volumes.volume_plan import (
    DeleteVolume,
    ExpandVolume,
    ModifyVolume,
    ProvisionVolume,
    ReleaseVolume,
    VolumeStep,
    persistent_volume,
)

RecordEvent = Callable[[Object, str, str, bool], None]
"""About an object: a reason, a message, and whether it is a warning."""
_OLD_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
_TIER: Final = "tier"
_STEP: Final = "errand"
"""As whom a step uses a volume."""

log = logging.getLogger(__name__)


class VolumePlanExecutor:
    """Runs steps. All raise VolumeBackendError, StatusError, TransportError or OSError."""

    def __init__(
        self,
        api: Api,
        node: str,
        backends: Mapping[str, VolumeBackend],
        tiers: Mapping[str, Path],
        claims: ClaimVolumes,
        event: RecordEvent,
        clock: Clock,
    ) -> None:
        self._api = api
        self._node = node
        self._backends = backends
        self._tiers = tiers
        self._claims = claims
        self._event = event
        self._clock = clock

    async def run(self, step: VolumeStep) -> list[Object]:
        """The objects that were written."""
        match step:
            case ProvisionVolume():
                return await self._make(step)
            case ExpandVolume():
                return await self._grow(step)
            case ModifyVolume():
                return await self._modify(step)
            case DeleteVolume(volume) | ReleaseVolume(volume):
                try:
                    return await (
                        self._reclaim(volume) if isinstance(step, DeleteVolume) else self._let_go(volume)
                    )
                except StatusError as refusal:
                    # Another client was faster: the volume is gone, or no longer this node's.
                    if refusal.code in (403, 404, 409) and await self._is_gone(volume):
                        return []
                    raise

    async def complain(self, step: VolumeStep, problem: Exception) -> list[Object]:
        """Say on the claim, and in an event, what is wrong."""
        message, now = str(problem), self._clock.now()
        match step:
            case ProvisionVolume(claim):
                said = f"node {self._node}: {message}"
                self._event(claim, "ProvisioningFailed", said, True)
                fields = claim_statuses.not_provisioned(claim.status, "ProvisioningFailed", said, now)
            case ExpandVolume(planned, _, size):
                self._event(planned, "VolumeResizeFailed", message, True)
                fresh = await self._fresh(planned)
                if fresh is None:
                    return []
                claim = fresh
                fields = claim_statuses.not_grown(claim.status, size, message, now)
            case ModifyVolume(claim, _, attributes):
                self._event(claim, "VolumeModifyFailed", message, True)
                fields = claim_statuses.not_modified(claim.status, attributes, message, now)
            case DeleteVolume(volume) | ReleaseVolume(volume):
                # A conflict with another writer is no failure: the step is retried.
                if not (isinstance(problem, StatusError) and problem.code == 409):
                    self._event(volume, "VolumeFailedDelete", message, True)
                return []
        return [] if claim_statuses.says_so(claim.status, fields) else [await self._say(claim, fields)]

    async def _fresh(self, claim: Object) -> Object | None:
        """A claim as the server has it: the step that failed may have written to it. None if it is gone."""
        fresh = await self._api.find(PersistentVolumeClaim, claim.name, claim.namespace)
        return fresh if fresh is not None and fresh.uid == claim.uid else None

    async def _make(self, step: ProvisionVolume) -> list[Object]:
        claim = step.claim
        if not is_uid(claim.uid):
            raise VolumeBackendError(f"metadata.uid: {claim.uid[:80]!r} is not valid as a directory name")
        storage_class = await self._class(claim)
        provisioner = self._provisioner(storage_class)
        node = await self._api.get(Node, self._node)
        if not allows(storage_class, node.labels):
            raise VolumeBackendError(
                f"class {storage_class.name} has no volumes on this node: its allowedTopologies are elsewhere",
                elsewhere=True,
            )
        parameters = storage_class.get("parameters") or {}
        if claim.spec.get("volumeMode") == "Block":
            raise VolumeBackendError(
                "it asks for a block device (volumeMode: Block), and our volumes are filesystems"
            )
        if claim.spec.get("dataSource") or claim.spec.get("dataSourceRef"):
            raise VolumeBackendError("dataSource is not supported: volumes of this provisioner begin empty")
        folder = self._tier(parameters) / volume_name(claim.uid)
        backend = self._backends[provisioner]
        if obstacle := backend.obstacle():
            raise VolumeBackendError(obstacle, elsewhere=True)
        await asyncio.to_thread(_make_folder, folder)
        async with self._acquired(folder):
            path, record = await self._made(claim, backend, provisioner, parameters, folder)
            volume = await self._announced(claim, storage_class, node, path, record)
            await asyncio.to_thread(mark, folder)
        self._event(claim, "ProvisioningSucceeded", f"Successfully provisioned volume {volume.name}", False)
        fields = claim_statuses.provisioned(claim.status)
        return (
            [volume]
            if claim_statuses.says_so(claim.status, fields)
            else [volume, await self._say(claim, fields)]
        )

    async def _made(
        self,
        claim: Object,
        backend: VolumeBackend,
        provisioner: str,
        parameters: Mapping[str, str],
        folder: Path,
    ) -> tuple[Path, VolumeRecord]:
        """The volume's path and record, made here or by an earlier attempt."""
        record = await asyncio.to_thread(read_record, folder)
        if record is None:
            size = parse_quantity(claim.at("spec", "resources", "requests", "storage")).to_int()
            filesystem = await backend.make(folder, size, parameters)
            record = VolumeRecord(folder.name, provisioner, claim.uid, size, filesystem)
            await asyncio.to_thread(write_record, folder, record)
        return folder / self._backends[record.provisioner].inner, record

    @asynccontextmanager
    async def _acquired(self, folder: Path) -> AsyncIterator[None]:
        """The volume is ours meanwhile. Raises VolumeBackendError if it is another control plane's."""
        identity, owners = await read_identity(self._api), self._claims.owners
        await asyncio.to_thread(owners.acquire, folder, identity, _STEP)
        try:
            yield
        finally:
            owners.release(folder, _STEP)

    async def sweep(self, claims: Collection[str], volumes: Collection[str]) -> None:
        """Take away what was begun for claims that are gone, by the uids of all claims and the names of all volumes."""
        try:
            found = await self._own_folders()
        except (VolumeBackendError, StatusError, TransportError, AccessError) as problem:
            log.warning("failed to clean up after claims that are gone: %s", problem)
            return
        for folder in found:
            if folder.name in volumes and not is_marked(folder):
                await asyncio.to_thread(mark, folder)
        for folder in leftovers(found, claims, volumes):
            log.info("%s was created for a claim that is gone, and is removed", folder)
            try:
                async with self._acquired(folder):
                    for backend in self._backends.values():
                        await backend.put_away(folder)
                    await asyncio.to_thread(remove, folder)
            except (VolumeBackendError, StatusError, TransportError, AccessError, OSError) as problem:
                log.warning("%s can't be removed: %s", folder, problem)

    async def _own_folders(self) -> list[Path]:
        """Of volumes that are not another control plane's."""
        identity, owners = await read_identity(self._api), self._claims.owners

        def look() -> list[Path]:
            return [each for each in folders(self._tiers.values()) if owners.is_ours(each, identity)]

        return await asyncio.to_thread(look)

    async def _class(self, claim: Object) -> Object:
        name = str(claim.annotations.get(_OLD_CLASS) or claim.spec.get("storageClassName") or "")
        found = await self._api.find(StorageClass, name) if name else None
        if found is None:
            raise VolumeBackendError(f'storageclass.storage.k8s.io "{name}" not found')
        return found

    def _tier(self, parameters: Mapping[str, str]) -> Path:
        name = parameters.get(_TIER) or "default"
        if name not in self._tiers:
            known = ", ".join(sorted(self._tiers))
            raise VolumeBackendError(
                f"the class asks for the tier {name!r}, and this node has {known}: start it with --tier {name}=FOLDER",
                elsewhere=True,
            )
        return self._tiers[name]

    def _provisioner(self, storage_class: Object) -> str:
        """The class decides: what a claim says of it in an annotation, whoever made the claim could have written."""
        provisioner = str(storage_class.get("provisioner") or "")
        if provisioner not in self._backends:
            raise VolumeBackendError(
                f"class {storage_class.name} is of {provisioner}, not of this node's provisioners"
            )
        return provisioner

    async def _announced(
        self, claim: Object, storage_class: Object, node: Object, path: Path, record: VolumeRecord
    ) -> Object:
        """The PersistentVolume, created here or by an earlier attempt."""
        body = persistent_volume(
            claim,
            storage_class,
            node=self._node,
            hostname=node.labels.get("kubernetes.io/hostname", self._node),
            path=str(path),
            filesystem=record.filesystem,
            provisioner=record.provisioner,
        )
        try:
            return await self._api.create(PersistentVolume, body)
        except StatusError as refusal:
            if refusal.reason != "AlreadyExists":
                raise
            return await self._api.get(PersistentVolume, body["metadata"]["name"])

    async def _grow(self, step: ExpandVolume) -> list[Object]:
        claim, volume, size = step.claim, step.volume, step.size
        backend, folder = self._kept(volume)
        await self._check_growth(claim)
        status = claim_statuses.growing(claim.status, size, self._clock.now())
        if not claim_statuses.says_so(claim.status, status):
            claim = await self._say(claim, status)
        async with self._acquired(folder):
            await backend.grow(folder, parse_quantity(size).to_int())
        if volume.at("spec", "capacity", "storage") != size:
            fields = {"spec": {"capacity": {"storage": size}}}
            volume = await self._api.patch(PersistentVolume, volume.name, "", fields)
        claim = await self._say(claim, claim_statuses.grown(claim.status, size))
        self._claims.grew(volume.name, size)
        self._event(
            claim,
            "FileSystemResizeSuccessful",
            f'MountVolume.NodeExpandVolume succeeded for volume "{volume.name}": {size}',
            False,
        )
        return [volume, claim]

    async def _check_growth(self, claim: Object) -> None:
        storage_class = await self._class(claim)
        if not storage_class.get("allowVolumeExpansion"):
            raise VolumeBackendError(
                f"class {storage_class.name} does not let claims grow: set allowVolumeExpansion: true in it"
            )

    async def _modify(self, step: ModifyVolume) -> list[Object]:
        claim, volume, name = step.claim, step.volume, step.attributes
        backend, folder = self._kept(volume)
        attributes = await self._api.find(VolumeAttributesClass, name)
        if attributes is None:
            raise VolumeBackendError(f'volumeattributesclass.storage.k8s.io "{name}" not found')
        provisioner = volume.annotations[PROVISIONED_BY]
        if attributes.get("driverName") != provisioner:
            driver = attributes.get("driverName")
            raise VolumeBackendError(
                f"class {name} is for volumes of {driver}, and this is one of {provisioner}"
            )
        async with self._acquired(folder):
            await backend.bring(folder)
            device = backend.device(folder)
        if not device:
            raise VolumeBackendError(
                "a directory shares its disk with everything else: only loop volumes can have limits"
            )
        try:
            limits = throttle(attributes.get("parameters") or {}, device)
        except ThrottleError as problem:
            raise VolumeBackendError(f"class {name}: {problem}") from None
        if volume.spec.get("volumeAttributesClassName") != name:
            fields = {"spec": {"volumeAttributesClassName": name}}
            volume = await self._api.patch(PersistentVolume, volume.name, "", fields)
        self._claims.throttled(volume.name, limits)
        claim = await self._say(claim, claim_statuses.modified(claim.status, name))
        self._event(
            claim,
            "VolumeModifySuccessful",
            f"modified volume {volume.name} with vac {name} successfully",
            False,
        )
        return [volume, claim]

    async def _reclaim(self, volume: Object) -> list[Object]:
        """Asked of the server itself before anything is deleted: a cache may be behind."""
        fresh = await self._api.find(PersistentVolume, volume.name)
        if fresh is None or fresh.uid != volume.uid or fresh.status.get("phase") != "Released":
            return []
        if fresh.spec.get("persistentVolumeReclaimPolicy") != "Delete":
            return []
        if any(used.volume == volume.name for used in self._claims.in_use):
            raise VolumeBackendError(f"persistentvolume {volume.name} is still attached to node {self._node}")
        backend, folder = self._kept(fresh)
        async with self._acquired(folder):
            await backend.put_away(folder)
            await asyncio.to_thread(remove, folder)
        await self._api.delete(PersistentVolume, volume.name, uid=volume.uid)
        return await self._let_go(volume)

    async def _is_gone(self, volume: Object) -> bool:
        fresh = await self._api.find(PersistentVolume, volume.name)
        return fresh is None or fresh.uid != volume.uid

    async def _let_go(self, volume: Object) -> list[Object]:
        """Take our finalizer away."""
        fresh = await self._api.find(PersistentVolume, volume.name)
        if fresh is None or fresh.uid != volume.uid or FINALIZER not in fresh.finalizers:
            return []
        kept = [one for one in fresh.finalizers if one != FINALIZER]
        fields: Tree = {"metadata": {"finalizers": kept or None, "resourceVersion": fresh.resource_version}}
        return [await self._api.patch(PersistentVolume, volume.name, "", fields)]

    def _kept(self, volume: Object) -> tuple[VolumeBackend, Path]:
        path = str(volume.at("spec", "local", "path", default=""))
        folder = folder_of(path, self._tiers)
        if folder is None:
            raise VolumeBackendError(outside_tiers(path, self._tiers))
        return self._backends[volume.annotations[PROVISIONED_BY]], folder

    async def _say(self, claim: Object, status: Tree) -> Object:
        """Write into a claim's status; only if it is what it was when we decided."""
        body = {"metadata": {"resourceVersion": claim.resource_version}, "status": status}
        return await self._api.patch(
            PersistentVolumeClaim, claim.name, claim.namespace, body, subresource="status"
        )


def _make_folder(folder: Path) -> None:
    """Closed to all others on the machine: a pod's files belong to real users there, and may be set-user-id."""
    try:
        make_directory(folder, 0o700, own=True)
    except OSError as problem:
        raise VolumeBackendError(
            f"{problem.filename or folder}: {problem.strerror}", elsewhere=True
        ) from None
