"""The plan for claims and volumes: a pure function of the objects.

    for step in plan_volumes("m1", claims, volumes, moves): ...

A claim whose pod is scheduled here, and whose class has one of our provisioners, gets a volume. A volume is
expanded when its claim asks for more, modified when its claim names another VolumeAttributesClass, and
deleted when its claim is gone and its policy is ``Delete``; otherwise only its object is released. A move to
another tier that has begun is continued first. Steps are idempotent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from pilothouse.api.local_volumes import (
    ASKED_FOR,
    FINALIZER,
    NODE,
    PROVISIONED_BY,
    PROVISIONERS,
    SELECTED_NODE,
    volume_name,
)
from pilothouse.api.objects import Object, Tree
from pilothouse.base.quantity import Quantity, parse_quantity
from pilothouse.node.volumes.move_journal import MovePhase, MoveRecord


class ProvisionVolume(msgspec.Struct, frozen=True):
    claim: Object
    provisioner: str


class ExpandVolume(msgspec.Struct, frozen=True):
    claim: Object
    volume: Object
    size: str


class ModifyVolume(msgspec.Struct, frozen=True):
    claim: Object
    volume: Object
    attributes: str


class MoveVolume(msgspec.Struct, frozen=True):
    """Continue a move to another tier; runs beside other steps of the volume."""

    volume: Object
    claim: Object | None
    """None if it is gone."""


class DeleteVolume(msgspec.Struct, frozen=True):
    """Delete a volume and its data."""

    volume: Object


class ReleaseVolume(msgspec.Struct, frozen=True):
    """Release a volume's object, and keep its data."""

    volume: Object


VolumeStep = ProvisionVolume | ExpandVolume | ModifyVolume | MoveVolume | DeleteVolume | ReleaseVolume


def plan_volumes(
    node: str,
    claims: Iterable[Object],
    volumes: Iterable[Object],
    moves: Mapping[str, MoveRecord] = {},
) -> Iterator[VolumeStep]:
    """``moves`` are those that have begun, by volume."""
    mine = {volume.name: volume for volume in volumes if is_ours(volume, node)}
    known = {claim.uid: claim for claim in claims}
    for claim in known.values():
        if claim.deleting:
            continue
        bound = mine.get(str(claim.spec.get("volumeName") or ""))
        if bound is not None and _has(bound, claim) and claim.status.get("phase") == "Bound":
            yield from _changes(claim, bound, moves.get(bound.name))
        elif (provisioner := wanted_of(claim, node)) and volume_name(claim.uid) not in mine:
            yield ProvisionVolume(claim, provisioner)
    for volume in mine.values():
        if volume.name in moves and _uid(volume) not in known:
            yield MoveVolume(volume, None)
        else:
            yield from _removal(volume, known)


def is_ours(volume: Object, node: str) -> bool:
    """Whether a volume is on this node, by one of our provisioners."""
    return volume.annotations.get(NODE) == node and volume.annotations.get(PROVISIONED_BY) in PROVISIONERS


def wanted_of(claim: Object, node: str) -> str:
    """The provisioner of ours that a claim waits for on this node; empty if none."""
    if claim.spec.get("volumeName") or claim.status.get("phase", "Pending") != "Pending":
        return ""
    if claim.annotations.get(SELECTED_NODE) != node:
        return ""
    asked = next((claim.annotations[name] for name in ASKED_FOR if name in claim.annotations), "")
    return asked if asked in PROVISIONERS else ""


def _has(volume: Object, claim: Object) -> bool:
    return _uid(volume) == claim.uid


def _uid(volume: Object) -> str:
    """The uid of the claim that a volume is for."""
    return str((volume.spec.get("claimRef") or {}).get("uid") or "")


def _changes(claim: Object, volume: Object, move: MoveRecord | None) -> Iterator[VolumeStep]:
    """What a claim asks of its volume, given the move that has begun."""
    has = _amount(claim.at("status", "capacity", "storage"))
    asked = claim.at("spec", "resources", "requests", "storage")
    capacity = volume.at("spec", "capacity", "storage")
    size = max((one for one in (asked, capacity) if one is not None), key=_amount, default=None)
    if size is not None and has < _amount(size):
        yield ExpandVolume(claim, volume, str(size))
    attributes = claim.spec.get("volumeAttributesClassName") or ""
    if move is not None and not _has_returned(move, attributes):
        yield MoveVolume(volume, claim)
    if not attributes or (move is not None and not move.allows_changes):
        return
    status = claim.status
    # Also the current class, after an attempt at another one that failed.
    if attributes != status.get("currentVolumeAttributesClassName") or status.get("modifyVolumeStatus"):
        yield ModifyVolume(claim, volume, attributes)


def _has_returned(move: MoveRecord, attributes: str) -> bool:
    """Whether nothing is left to do for a move after which the volume went back."""
    return move.phase is MovePhase.RETURNED and move.reported and move.attributes == attributes


def _removal(volume: Object, claims: Mapping[str, Object]) -> Iterator[VolumeStep]:
    if _uid(volume) in claims:
        return
    delete = volume.spec.get("persistentVolumeReclaimPolicy") == "Delete"
    if delete and volume.status.get("phase") == "Released":
        yield DeleteVolume(volume)
    elif volume.deleting and FINALIZER in volume.finalizers and not delete:
        yield ReleaseVolume(volume)


def persistent_volume(
    claim: Object,
    storage_class: Object,
    *,
    node: str,
    hostname: str,
    path: str,
    filesystem: str,
    provisioner: str,
) -> Tree:
    annotations = {PROVISIONED_BY: provisioner, NODE: node}
    source: dict[str, Any] = {"path": path}
    if filesystem:
        source["fsType"] = filesystem
    affinity = {"key": "kubernetes.io/hostname", "operator": "In", "values": [hostname]}
    spec = {
        "capacity": {"storage": claim.at("spec", "resources", "requests", "storage")},
        "accessModes": list(claim.spec.get("accessModes") or ()),
        "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy") or "Delete",
        "storageClassName": storage_class.name,
        "volumeMode": "Filesystem",
        "local": source,
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [affinity]}]}},
        "claimRef": {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": claim.namespace,
            "name": claim.name,
            "uid": claim.uid,
        },
    }
    if attributes := claim.spec.get("volumeAttributesClassName"):
        spec["volumeAttributesClassName"] = attributes
    return {
        "metadata": {"name": volume_name(claim.uid), "annotations": annotations, "finalizers": [FINALIZER]},
        "spec": spec,
    }


def _amount(value: Any) -> Quantity:
    return Quantity(0) if value is None else parse_quantity(value)
