"""The VolumeAttributesClass that a claim's volume has, as targets that change it see it.

match present_class(claim, world):
    case PresentClass() as present: present.parameters["iops"]
    case other: return other            # declined, or not ready
"""

from __future__ import annotations

from typing import Final

import msgspec

from pilothouse.api.attributes_classes import current_class, driver_of, parameters_of, requested_class
from pilothouse.api.kind_names import PersistentVolume, StorageClass, VolumeAttributesClass
from pilothouse.api.local_volumes import DIRECTORY, NODE
from pilothouse.api.objects import Object
from pilothouse.rules.action_targets import ObjectLookup, TargetDeclined, TargetNotReady, is_bound

CLASS_READS: Final = (PersistentVolume, StorageClass, VolumeAttributesClass)
"""The kinds that are looked up here."""
DEFAULT_TIER: Final = "default"
_OF_DIRECTORIES: Final = frozenset({"tier", "keep", "deadline"})
"""The parameters that a class for directory volumes may have."""


class PresentClass(msgspec.Struct, frozen=True):
    """A volume and its class."""

    driver: str
    name: str
    """Empty if the volume has no class."""
    parameters: dict[str, str]
    node: str
    """The node whose own storage it is on; empty if it is elsewhere."""
    tier: str
    """The tier of that node."""


def present_class(claim: Object, world: ObjectLookup) -> PresentClass | TargetDeclined | TargetNotReady:
    """The class of a claim's volume, if no other one is asked for."""
    if not is_bound(claim):
        return TargetNotReady("the claim is not bound to a volume")
    volume = world.find(PersistentVolume, "", str(claim.spec["volumeName"]))
    if volume is None:
        return TargetNotReady(f"volume {claim.spec['volumeName']} is not known")
    name, asked = current_class(claim), requested_class(claim)
    if asked != name:
        return TargetNotReady(_under_way(claim, asked, name))
    driver = driver_of(volume)
    if not driver:
        return TargetDeclined(f"volume {volume.name} has no driver that could change it")
    found = world.find(VolumeAttributesClass, "", name) if name else None
    if name and found is None:
        return TargetDeclined(f"class {name} of the volume does not exist, so its parameters are not known")
    parameters = parameters_of(found)
    return PresentClass(
        driver, name, parameters, volume.annotations.get(NODE, ""), tier_of(claim, parameters, world)
    )


def tier_of(claim: Object, parameters: dict[str, str], world: ObjectLookup) -> str:
    """The tier of a volume on a node's own storage: by its class, else by its storage class."""
    if tier := parameters.get("tier"):
        return tier
    storage_class = world.find(StorageClass, "", str(claim.spec.get("storageClassName") or ""))
    parameters = storage_class.get("parameters") or {} if storage_class is not None else {}
    return str(parameters.get("tier") or DEFAULT_TIER)


def class_problem(name: str, driver: str, world: ObjectLookup) -> str:
    """Why a class can't be given to a volume of this driver; empty if it can."""
    found = world.find(VolumeAttributesClass, "", name)
    if found is None:
        return f"class {name} does not exist"
    if found.get("driverName") != driver:
        return f"class {name} is for volumes of {found.get('driverName')}, and this is one of {driver}"
    others = sorted(parameters_of(found).keys() - _OF_DIRECTORIES) if driver == DIRECTORY else ()
    if others:
        why = "a directory shares its disk with everything else: only loop volumes can have that"
        return f"class {name} has {', '.join(others)}, and {why}"
    return ""


def _under_way(claim: Object, asked: str, name: str) -> str:
    error = claim.condition("ModifyVolumeError") or {}
    why = f": {error.get('message', '')}" if error.get("status") == "True" else ": a change is under way"
    return f"class {asked or 'none'} is requested and the volume has {name or 'none'}{why}"
