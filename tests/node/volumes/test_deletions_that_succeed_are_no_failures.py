from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pilothouse.api.kind_names import PersistentVolume
from pilothouse.api.local_volumes import DIRECTORY, FINALIZER, PROVISIONED_BY
from pilothouse.api.objects import Object
from pilothouse.base.clock import SystemClock
from pilothouse.client.api import Api
from pilothouse.meta.errors import StatusError
from pilothouse.node.volumes.claim_volumes import ClaimVolumes
from pilothouse.node.volumes.directory_backend import DirectoryBackend
from pilothouse.node.volumes.volume_mover import VolumeMover
from pilothouse.node.volumes.volume_owners import VolumeOwners
from pilothouse.node.volumes.volume_places import VolumePlaces
from pilothouse.node.volumes.volume_plan import DeleteVolume
from pilothouse.node.volumes.volume_plan_executor import VolumePlanExecutor

NAME = "pvc-one"


class Slow(DirectoryBackend):
    """Takes so long to put a volume away that somebody else deletes its object, or writes to it, meanwhile."""

    def __init__(self, api: Api, fields: dict[str, Any]) -> None:
        self._api = api
        self._fields = fields

    async def unmount(self, folder: Path) -> None:
        await self._api.patch(PersistentVolume, NAME, "", self._fields)
        if "finalizers" in self._fields["metadata"]:
            await self._api.delete(PersistentVolume, NAME)


def runner(api: Api, tier: Path, told: list[str], fields: dict[str, Any]) -> VolumePlanExecutor:
    keepers = {DIRECTORY: Slow(api, fields)}
    tiers = {"default": tier}
    claims = ClaimVolumes(api, "n1", keepers, tiers, VolumeOwners("n1", tier), root=os.geteuid() == 0)

    def tell(about: Object, reason: str, message: str, warning: bool) -> None:
        told.append(f"{reason}: {message}")

    mover = VolumeMover(api, VolumePlaces(tiers), claims, SystemClock())
    return VolumePlanExecutor(api, "n1", keepers, tiers, claims, mover, tell, SystemClock())


async def released(api: Api, tier: Path) -> Object:
    (tier / NAME / "data").mkdir(parents=True)
    body = {
        "metadata": {
            "name": NAME,
            "annotations": {PROVISIONED_BY: DIRECTORY},
            "finalizers": [FINALIZER],
        },
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Delete",
            "local": {"path": str(tier / NAME / "data")},
            "nodeAffinity": {
                "required": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "k", "operator": "In", "values": ["n1"]}]}
                    ]
                }
            },
        },
    }
    await api.create(PersistentVolume, body)
    return await api.patch(
        PersistentVolume, NAME, "", {"status": {"phase": "Released"}}, subresource="status"
    )


async def test_one_that_somebody_else_deleted_meanwhile_is_deleted(api: Api, tmp_path: Path) -> None:
    told: list[str] = []
    volume = await released(api, tmp_path)
    working = runner(api, tmp_path, told, {"metadata": {"finalizers": None}})
    assert await working.run(DeleteVolume(volume)) == []
    assert not (tmp_path / NAME).exists()
    assert told == []


async def test_a_write_of_somebody_else_is_no_failure_of_ours(api: Api, tmp_path: Path) -> None:
    told: list[str] = []
    volume = await released(api, tmp_path)
    working = runner(api, tmp_path, told, {"metadata": {"labels": {"a": "b"}}})
    conflict = StatusError(409, "Conflict", "the object has been modified")
    assert await working.report(DeleteVolume(volume), conflict) == []
    assert told == []
    await working.report(DeleteVolume(volume), OSError(16, "Device or resource busy"))
    assert told == ["VolumeFailedDelete: [Errno 16] Device or resource busy"]
