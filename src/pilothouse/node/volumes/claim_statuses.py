"""The status of a claim while its volume is provisioned, expanded or modified, in Kubernetes' words.

    growing(claim.status, "640Mi", now)         # Resizing
    not_grown(claim.status, "640Mi", why, now)  # NodeResizeError, until a retry succeeds
    grown(claim.status, "640Mi")                # resized

``pilothouse.io/Provisioned`` is ours: while it is False, its message says why the chosen node can't make the
volume.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pilothouse.api.local_volumes import PROVISIONED
from pilothouse.api.objects import Tree
from pilothouse.base.rfc3339 import format_time

_RESIZING: Final = ("Resizing", "FileSystemResizePending", "NodeResizeError", "ControllerResizeError")
_MODIFYING: Final = ("ModifyingVolume", "ModifyVolumeError")
Status = Mapping[str, Any]


def not_provisioned(status: Status, reason: str, message: str, now: float) -> Tree:
    return {"conditions": _with(status, PROVISIONED, "False", reason, message, now)}


def provisioned(status: Status) -> Tree:
    return {"conditions": _without(status, (PROVISIONED,)) or None}


def growing(status: Status, size: str, now: float) -> Tree:
    """While a volume grows. The error of an earlier attempt at the same size stays until one succeeds."""
    if _failed_at(status, size):
        return {}
    kept = {**status, "conditions": _without(status, _RESIZING[1:])}
    return {
        "conditions": _with(kept, "Resizing", "True", "", "", now),
        "allocatedResources": {"storage": size},
        "allocatedResourceStatuses": {"storage": "NodeResizeInProgress"},
    }


def not_grown(status: Status, size: str, message: str, now: float) -> Tree:
    return {
        "conditions": _with(status, "NodeResizeError", "True", "VolumeResizeFailed", message, now),
        "allocatedResources": {"storage": size},
        "allocatedResourceStatuses": {"storage": "NodeResizeInfeasible"},
    }


def _failed_at(status: Status, size: str) -> bool:
    """Whether the last attempt failed, and was at this size."""
    errors = [one for one in status.get("conditions") or () if one["type"] == "NodeResizeError"]
    return bool(errors) and (status.get("allocatedResources") or {}).get("storage") == size


def grown(status: Status, size: str) -> Tree:
    return {
        "capacity": {"storage": size},
        "conditions": _without(status, _RESIZING) or None,
        "allocatedResources": {"storage": size},
        "allocatedResourceStatuses": None,
    }


def modified(status: Status, attributes: str) -> Tree:
    return {
        "currentVolumeAttributesClassName": attributes,
        "modifyVolumeStatus": None,
        "conditions": _without(status, _MODIFYING) or None,
    }


def not_modified(status: Status, attributes: str, message: str, now: float) -> Tree:
    return {
        "modifyVolumeStatus": {"targetVolumeAttributesClassName": attributes, "status": "Infeasible"},
        "conditions": _with(status, "ModifyVolumeError", "True", "ModifyVolumeFailed", message, now),
    }


def says_so(status: Status, fields: Tree) -> bool:
    """Whether a status has these fields, whatever the times of its conditions."""
    for field, value in fields.items():
        if field == "conditions":
            if _texts(status.get(field)) != _texts(value):
                return False
        elif (status.get(field) or None) != (value or None):
            return False
    return True


def _texts(conditions: Any) -> list[tuple[Any, ...]]:
    names = ("type", "status", "reason", "message")
    return [tuple(one.get(name) or "" for name in names) for one in conditions or ()]


def _with(status: Status, kind: str, value: str, reason: str, message: str, now: float) -> list[Tree]:
    before = next((one for one in status.get("conditions") or () if one["type"] == kind), None)
    since = before.get("lastTransitionTime") if before and before["status"] == value else None
    condition = {
        "type": kind,
        "status": value,
        "lastTransitionTime": since or format_time(now),
        "lastProbeTime": None,
        **({"reason": reason} if reason else {}),
        **({"message": message} if message else {}),
    }
    return [*_without(status, (kind,)), condition]


def _without(status: Status, kinds: tuple[str, ...]) -> list[Tree]:
    return [dict(one) for one in status.get("conditions") or () if one["type"] not in kinds]
