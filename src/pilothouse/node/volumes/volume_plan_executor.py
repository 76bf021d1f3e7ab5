"""Executes the steps of a volume plan: the disk first, then the API, so that only existing volumes are
announced.

    executor = VolumePlanExecutor(api, "m1", backends, tiers, claims, mover, record_event, clock)
    for written in await executor.run(step): ...        # the objects that were written
    await executor.report(step, problem)

Each part of a step may have been done before, by a killed agent or a moment ago.
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
from pilothouse.api.local_volumes import FAILED, FINALIZER, MOVE_KEEP, PROVISIONED_BY, volume_name
from pilothouse.api.objects import Object, Tree
from pilothouse.api.topologies import allows
from pilothouse.base.clock import Clock
from pilothouse.base.quantity import parse_quantity
from pilothouse.base.terminal_text import escape_control_characters
from pilothouse.client.access import AccessError
from pilothouse.client.api import Api
from pilothouse.client.transport import TransportError
from pilothouse.meta.errors import StatusError
from pilothouse.node.files.directory_handles import make_directory
from pilothouse.node.files.path_names import is_uid
from pilothouse.node.volumes import claim_statuses
from pilothouse.node.volumes.claim_volumes import ClaimVolumes
from pilothouse.node.volumes.cluster_identity import read_identity
from pilothouse.node.volumes.move_journal import MovePhase, MoveRecord
from pilothouse.node.volumes.move_status import MovedVolume
from pilothouse.node.volumes.orphaned_volumes import folders, is_marked, leftovers, mark
from pilothouse.node.volumes.removal import remove
from pilothouse.node.volumes.throttles import throttle
from pilothouse.node.volumes.volume_attributes import (
    AttributesError,
    VolumeAttributes,
    check_seconds,
    read_attributes,
)
from pilothouse.node.volumes.volume_backend import (
    VolumeBackend,
    VolumeBackendError,
    VolumeRecord,
    folder_of,
    outside_tiers,
    read_record,
    write_record,
)
from pilothouse.node.volumes.volume_mover import STEP, VolumeMover
from pilothouse.node.volumes.volume_plan import (
    DeleteVolume,
    ExpandVolume,
    ModifyVolume,
    MoveVolume,
    ProvisionVolume,
    ReleaseVolume,
    VolumeStep,
    persistent_volume,
)
from pilothouse.supervise.cgroup_settings import DeviceThrottle

RecordEvent = Callable[[Object, str, str, bool], None]
"""Object, reason, message, whether it is a warning."""
_OLD_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
_TIER: Final = "tier"

log = logging.getLogger(__name__)


class VolumePlanExecutor:
    """Runs steps. All methods raise VolumeBackendError, StatusError, TransportError or OSError."""

    def __init__(
        self,
        api: Api,
        node: str,
        backends: Mapping[str, VolumeBackend],
        tiers: Mapping[str, Path],
        claims: ClaimVolumes,
        mover: VolumeMover,
        event: RecordEvent,
        clock: Clock,
    ) -> None:
        self._api = api
        self._node = node
        self._backends = backends
        self._tiers = tiers
        self._claims = claims
        self.mover = mover
        self._event = event
        self._clock = clock

    async def run(self, step: VolumeStep) -> list[Object]:
        """Run a step; returns the objects that were written."""
        match step:
            case ProvisionVolume():
                return await self._provision(step)
            case ExpandVolume():
                return await self._expand(step)
            case ModifyVolume():
                return await self._modify(step)
            case MoveVolume(volume):
                await self.mover.run(self._moved(volume))
                return []
            case DeleteVolume(volume) | ReleaseVolume(volume):
                try:
                    is_deletion = isinstance(step, DeleteVolume)
                    return await (self._delete(volume) if is_deletion else self._release(volume))
                except StatusError as refusal:
                    # Another client has already deleted or released it.
                    if refusal.code in (403, 404, 409) and await self._is_gone(volume):
                        return []
                    raise

    async def report(self, step: VolumeStep, problem: Exception) -> list[Object]:
        """Report a failure in the claim's status and in an event."""
        # It may quote the name of a file, which is the pod's.
        message, now = escape_control_characters(str(problem)), self._clock.now()
        match step:
            case ProvisionVolume(claim):
                text = f"node {self._node}: {message}"
                self._event(claim, "ProvisioningFailed", text, True)
                fields = claim_statuses.not_provisioned(claim.status, "ProvisioningFailed", text, now)
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
            case MoveVolume(volume, moved):
                move = self.mover.moves.get(volume.name)
                fresh = await self._fresh(moved) if moved is not None else None
                # Problems of the API itself are in the log.
                if fresh is None or move is None or not isinstance(problem, VolumeBackendError | OSError):
                    return []
                claim = fresh
                self._event(claim, "VolumeMoveFailed", message, True)
                fields = claim_statuses.not_moved(claim.status, move.attributes, FAILED, message, now)
            case DeleteVolume(volume) | ReleaseVolume(volume):
                # A conflict with another writer is no failure: the step is retried.
                if not (isinstance(problem, StatusError) and problem.code == 409):
                    self._event(volume, "VolumeFailedDelete", message, True)
                return []
        return await self._write_status(claim, fields)

    async def _fresh(self, claim: Object) -> Object | None:
        """The claim as stored now: the step that failed may have written to it. None if it is gone."""
        fresh = await self._api.find(PersistentVolumeClaim, claim.name, claim.namespace)
        return fresh if fresh is not None and fresh.uid == claim.uid else None

    async def _provision(self, step: ProvisionVolume) -> list[Object]:
        claim = step.claim
        if not is_uid(claim.uid):
            raise VolumeBackendError(f"metadata.uid: {claim.uid[:80]!r} is not valid as a directory name")
        storage_class = await self._class(claim)
        provisioner = self._provisioner(storage_class)
        node = await self._api.get(Node, self._node)
        if not allows(storage_class, node.labels):
            why = (
                f"class {storage_class.name} has no volumes on this node: its allowedTopologies are elsewhere"
            )
            raise VolumeBackendError(why, elsewhere=True)
        parameters = {
            **(storage_class.get("parameters") or {}),
            **await self._asked_place(claim, provisioner),
        }
        if claim.spec.get("volumeMode") == "Block":
            why = "it asks for a block device (volumeMode: Block), and our volumes are filesystems"
            raise VolumeBackendError(why)
        if claim.spec.get("dataSource") or claim.spec.get("dataSourceRef"):
            raise VolumeBackendError("dataSource is not supported: volumes of this provisioner begin empty")
        folder = self._tier(parameters) / volume_name(claim.uid)
        backend = self._backends[provisioner]
        if obstacle := backend.obstacle():
            raise VolumeBackendError(obstacle, elsewhere=True)
        await asyncio.to_thread(_make_folder, folder)
        async with self._acquired(folder):
            path, record = await self._create(claim, backend, provisioner, parameters, folder)
            volume = await self._announce(claim, storage_class, node, path, record)
            await asyncio.to_thread(mark, folder)
        self._event(claim, "ProvisioningSucceeded", f"Successfully provisioned volume {volume.name}", False)
        return [volume, *await self._write_status(claim, claim_statuses.provisioned(claim.status))]

    async def _asked_place(self, claim: Object, provisioner: str) -> dict[str, str]:
        """Tier and allocation of the VolumeAttributesClass that a claim names; they precede those of its
        StorageClass. What else is wrong with that class is reported once the volume is bound."""
        name = str(claim.spec.get("volumeAttributesClassName") or "")
        found = await self._api.find(VolumeAttributesClass, name) if name else None
        if found is None or found.get("driverName") != provisioner:
            return {}
        parameters = found.get("parameters") or {}
        return {one: str(parameters[one]) for one in (_TIER, "allocation") if parameters.get(one)}

    async def _create(
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
        """Own the volume meanwhile. Raises VolumeBackendError if it is another control plane's."""
        identity, owners = await read_identity(self._api), self._claims.owners
        await asyncio.to_thread(owners.acquire, folder, identity, STEP)
        try:
            yield
        finally:
            owners.release(folder, STEP)

    async def sweep(self, claims: Collection[str], volumes: Collection[str]) -> None:
        """Remove what was begun for deleted claims. ``claims`` are uids, ``volumes`` are names."""
        try:
            found = await self._own_folders()
        except (VolumeBackendError, StatusError, TransportError, AccessError) as problem:
            log.warning("failed to list volumes of deleted claims: %s", problem)
            return
        for folder in found:
            if folder.name in volumes and not is_marked(folder):
                await asyncio.to_thread(mark, folder)
        for folder in leftovers(found, claims, volumes):
            log.info("removing %s, which was begun for a deleted claim", folder)
            try:
                async with self._acquired(folder):
                    for backend in self._backends.values():
                        await backend.unmount(folder)
                    await asyncio.to_thread(remove, folder)
            except (VolumeBackendError, StatusError, TransportError, AccessError, OSError) as problem:
                log.warning("failed to remove %s: %s", folder, problem)

    async def _own_folders(self) -> list[Path]:
        """The directories of volumes that are not another control plane's."""
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
            why = f"the class asks for the tier {name!r}, and this node has {known}"
            raise VolumeBackendError(f"{why}: start it with --tier {name}=FOLDER", elsewhere=True)
        return self._tiers[name]

    def _provisioner(self, storage_class: Object) -> str:
        """The class's own provisioner: the author of a claim could write anything into its annotation."""
        provisioner = str(storage_class.get("provisioner") or "")
        if provisioner not in self._backends:
            why = f"class {storage_class.name} is of {provisioner}, not of this node's provisioners"
            raise VolumeBackendError(why)
        return provisioner

    async def _announce(
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

    async def _expand(self, step: ExpandVolume) -> list[Object]:
        claim, volume, size = step.claim, step.volume, step.size
        backend, folder = self._location(volume)
        storage_class = await self._class(claim)
        if not storage_class.get("allowVolumeExpansion"):
            why = f"class {storage_class.name} does not let claims grow: set allowVolumeExpansion: true in it"
            raise VolumeBackendError(why)
        status = claim_statuses.growing(claim.status, size, self._clock.now())
        for written in await self._write_status(claim, status):
            claim = written
        async with self._acquired(folder), self.mover.lock(volume.name):
            await backend.expand(folder, parse_quantity(size).to_int())
        if volume.at("spec", "capacity", "storage") != size:
            fields = {"spec": {"capacity": {"storage": size}}}
            volume = await self._api.patch(PersistentVolume, volume.name, "", fields)
        claim = await self._patch_status(claim, claim_statuses.grown(claim.status, size))
        self._claims.grew(volume.name, size)
        await self._scale_limits(volume)
        message = f'MountVolume.NodeExpandVolume succeeded for volume "{volume.name}": {size}'
        self._event(claim, "FileSystemResizeSuccessful", message, False)
        return [volume, claim]

    async def _modify(self, step: ModifyVolume) -> list[Object]:
        claim, volume, name = step.claim, step.volume, step.attributes
        backend, folder = self._location(volume)
        attributes = await self._attributes(volume, name)
        async with self._acquired(folder):
            await backend.mount(folder)
            if attributes.tier and self._tier({_TIER: attributes.tier}) != self._data(folder).parent:
                return await self._begin_move(step, attributes, backend, folder)
            if attributes.allocation:
                await backend.allocate(folder, attributes.allocation)
            limits = _limits(attributes, backend.device(folder), _size(volume))
        if volume.spec.get("volumeAttributesClassName") != name:
            fields = {"spec": {"volumeAttributesClassName": name}}
            volume = await self._api.patch(PersistentVolume, volume.name, "", fields)
        self._claims.throttled(volume.name, limits)
        claim = await self._patch_status(claim, claim_statuses.modified(claim.status, name))
        message = f"modified volume {volume.name} with vac {name} successfully"
        self._event(claim, "VolumeModifySuccessful", message, False)
        return [volume, claim]

    async def _begin_move(
        self, step: ModifyVolume, attributes: VolumeAttributes, backend: VolumeBackend, folder: Path
    ) -> list[Object]:
        """Write the journal of a move to the tier of a class."""
        claim, places = step.claim, self.mover.places
        keep = attributes.keep
        if (text := claim.annotations.get(MOVE_KEEP)) is not None:
            try:
                keep = check_seconds(text)
            except ValueError as problem:
                raise VolumeBackendError(f"metadata.annotations[{MOVE_KEEP}]: {problem}") from None
        await self.mover.drop_old(folder)
        move = MoveRecord(
            folder.name,
            step.attributes,
            str(claim.status.get("currentVolumeAttributesClassName") or ""),
            places.tier(folder),
            places.relative(folder, attributes.tier),
            MovePhase.REPLACING if backend.moves_online(folder) else MovePhase.COPYING,
            attributes.allocation or backend.allocation(folder),
            keep,
            attributes.deadline,
        )
        message = f"0 % moved to the tier {attributes.tier}"
        fields = claim_statuses.moving(claim.status, step.attributes, "Copying", message, self._clock.now())
        written = await self._write_status(claim, fields)
        self.mover.begin(folder, move)
        return written

    def _data(self, folder: Path) -> Path:
        return self.mover.places.data(folder)

    def _moved(self, volume: Object) -> MovedVolume:
        backend, folder = self._location(volume)
        reference = volume.spec.get("claimRef") or {}
        namespace, claim, uid = (str(reference.get(field) or "") for field in ("namespace", "name", "uid"))
        return MovedVolume(volume.name, folder, backend, namespace, claim, uid)

    async def _attributes(self, volume: Object, name: str) -> VolumeAttributes:
        """The VolumeAttributesClass of this name, for a volume. Raises VolumeBackendError."""
        found = await self._api.find(VolumeAttributesClass, name)
        if found is None:
            raise VolumeBackendError(f'volumeattributesclass.storage.k8s.io "{name}" not found')
        provisioner, driver = volume.annotations[PROVISIONED_BY], found.get("driverName")
        if driver != provisioner:
            why = f"class {name} is for volumes of {driver}, and this is one of {provisioner}"
            raise VolumeBackendError(why)
        try:
            return read_attributes(found.get("parameters") or {}, provisioner, _size(volume))
        except AttributesError as problem:
            raise VolumeBackendError(f"class {name}: {problem}") from None

    async def _scale_limits(self, volume: Object) -> None:
        """Apply the limits of a volume anew: some depend on its size."""
        name = str(volume.spec.get("volumeAttributesClassName") or "")
        if not name or not any(used.volume == volume.name for used in self._claims.in_use):
            return
        try:
            attributes = await self._attributes(volume, name)
        except VolumeBackendError as problem:
            # A change of the class, or its absence, is for the step that applies it to report.
            log.warning("the limits of volume %s stay as they are: %s", volume.name, problem)
            return
        backend, folder = self._location(volume)
        self._claims.throttled(volume.name, _limits(attributes, backend.device(folder), _size(volume)))

    async def _delete(self, volume: Object) -> list[Object]:
        """Reads the volume from the server before anything is deleted: a cache may be behind."""
        fresh = await self._api.find(PersistentVolume, volume.name)
        if fresh is None or fresh.uid != volume.uid or fresh.status.get("phase") != "Released":
            return []
        if fresh.spec.get("persistentVolumeReclaimPolicy") != "Delete":
            return []
        if any(used.volume == volume.name for used in self._claims.in_use):
            raise VolumeBackendError(f"persistentvolume {volume.name} is still attached to node {self._node}")
        backend, folder = self._location(fresh)
        async with self._acquired(folder):
            await backend.unmount(folder)
            # The record is removed last, which says where the data is.
            await asyncio.to_thread(remove, self._data(folder))
            await asyncio.to_thread(remove, folder)
        await self._api.delete(PersistentVolume, volume.name, uid=volume.uid)
        return await self._release(volume)

    async def _is_gone(self, volume: Object) -> bool:
        fresh = await self._api.find(PersistentVolume, volume.name)
        return fresh is None or fresh.uid != volume.uid

    async def _release(self, volume: Object) -> list[Object]:
        """Remove our finalizer."""
        fresh = await self._api.find(PersistentVolume, volume.name)
        if fresh is None or fresh.uid != volume.uid or FINALIZER not in fresh.finalizers:
            return []
        kept = [one for one in fresh.finalizers if one != FINALIZER]
        fields: Tree = {"metadata": {"finalizers": kept or None, "resourceVersion": fresh.resource_version}}
        return [await self._api.patch(PersistentVolume, volume.name, "", fields)]

    def _location(self, volume: Object) -> tuple[VolumeBackend, Path]:
        path = str(volume.at("spec", "local", "path", default=""))
        folder = folder_of(path, self._tiers)
        if folder is None:
            raise VolumeBackendError(outside_tiers(path, self._tiers))
        return self._backends[volume.annotations[PROVISIONED_BY]], folder

    async def _write_status(self, claim: Object, status: Tree) -> list[Object]:
        """Write fields of a claim's status that differ; returns the claim if it was written."""
        if claim_statuses.says_so(claim.status, status):
            return []
        return [await self._patch_status(claim, status)]

    async def _patch_status(self, claim: Object, status: Tree) -> Object:
        """Write a claim's status, unless it has changed since we decided."""
        body = {"metadata": {"resourceVersion": claim.resource_version}, "status": status}
        return await self._api.patch(
            PersistentVolumeClaim, claim.name, claim.namespace, body, subresource="status"
        )


def _size(volume: Object) -> int:
    return parse_quantity(volume.at("spec", "capacity", "storage")).to_int()


def _limits(attributes: VolumeAttributes, device: str, size: int) -> DeviceThrottle | None:
    """The limits on a volume's own device; None if it has none, and so no limits."""
    return throttle(attributes.limits, device, size) if device else None


def _make_folder(folder: Path) -> None:
    """Closed to other users of the machine: files of pods may be set-user-id."""
    try:
        make_directory(folder, 0o700, own=True)
    except OSError as problem:
        why = f"{problem.filename or folder}: {problem.strerror}"
        raise VolumeBackendError(why, elsewhere=True) from None
