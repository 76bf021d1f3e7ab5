"""Volumes and claims."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from pilothouse.api.kind_names import PersistentVolume, PersistentVolumeClaim
from pilothouse.api.objects import Tree
from pilothouse.client.api import Api
from pilothouse.controllers.invariants import PROMISES
from pilothouse.controllers.service_accounts import service_accounts
from pilothouse.controllers.storage.claim_binder import claims
from pilothouse.controllers.storage.protection import claim_protection, volume_protection
from pilothouse.controllers.storage.volume_lifecycle import volumes
from pilothouse.sim.fleet import Scenario, UserAction
from pilothouse.sim.scenarios.user_actions import SPACE, create, delete, given_space


def volume_users(rng: Random) -> Sequence[UserAction]:
    doing = [given_space()]
    for _ in range(rng.randint(5, 12)):
        after, number, size = rng.uniform(0, 15), rng.randint(0, 3), rng.randint(1, 3)
        match rng.choice(("volume", "volume", "claim", "claim", "delete")):
            case "volume":
                do = create(PersistentVolume, _volume(f"v{number}", size))
                what = f"create volume v{number} of {size}Gi"
            case "claim":
                do = create(PersistentVolumeClaim, _claim(f"c{number}", size))
                what = f"create claim c{number} of {size}Gi"
            case _:
                do = delete(PersistentVolumeClaim, f"c{number}", SPACE)
                what = f"delete claim c{number}"
        doing.append(UserAction(after, what, do))
    return doing


async def volumes_settled(api: Api) -> str:
    """No claim is pending while a volume fits, and each bound claim is named by its volume."""
    held = {one.name: one for one in (await api.list(PersistentVolume)).objects}
    waiting = []
    for claim in (await api.list(PersistentVolumeClaim, SPACE)).objects:
        if claim.status.get("phase") != "Bound":
            waiting.append(claim)
            continue
        volume = held.get(claim.spec["volumeName"])
        if volume is None or volume.at("spec", "claimRef", "uid") != claim.uid:
            return f"claim {claim.name} is bound to {claim.spec['volumeName']}, which does not know it"
    free = [one for one in held.values() if not one.spec.get("claimRef") and not one.deleting]
    for claim in waiting:
        wanted = _size(claim.at("spec", "resources", "requests", "storage"))
        for volume in free:
            if wanted <= _size(volume.at("spec", "capacity", "storage")):
                return f"claim {claim.name} waits, and volume {volume.name} would do"
    return ""


def _volume(name: str, size: int) -> Tree:
    return {
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": f"{size}Gi"},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": f"/{name}"},
        },
    }


def _claim(name: str, size: int) -> Tree:
    return {
        "metadata": {"name": name, "namespace": SPACE},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "",
            "resources": {"requests": {"storage": f"{size}Gi"}},
        },
    }


def _size(text: str) -> int:
    return int(text.removesuffix("Gi"))


VOLUMES = Scenario(
    "volumes",
    (claims, volumes, claim_protection, volume_protection, service_accounts),
    volume_users,
    volumes_settled,
    PROMISES["claims"],
    nodes=0,
)
