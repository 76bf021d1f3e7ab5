"""The status of a claim while its volume is provisioned, expanded or modified, in Kubernetes' words.

    growing(claim.status, "640Mi", now)         # Resizing
    not_grown(claim.status, "640Mi", why, now)  # NodeResizeError, until a retry succeeds
    grown(claim.status, "640Mi")                # resized

``pilothouse.io/Provisioned`` is ours: while it is False, its message says why the chosen node can't make the
volume. ``pilothouse.io/VolumeMove`` is True while there is more than one copy of the volume: its reason is
``Copying``, ``AwaitingRestart`` (its pod has to stop once), ``Finishing``, ``AwaitingReady`` or
``Kept``. It is False with ``Failed``, to be retried, and ``Returned``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pilothouse.api.local_volumes import PROVISIONED, RETURNED, VOLUME_MOVE
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


def moving(status: Status, attributes: str, reason: str, message: str, now: float) -> Tree:
    """While a volume is moved to the tier of a class."""
    kept = {**status, "conditions": _without(status, ("ModifyVolumeError",))}
    kept["conditions"] = _with(kept, "ModifyingVolume", "True", reason, message, now)
    return {
        "modifyVolumeStatus": {"targetVolumeAttributesClassName": attributes, "status": "InProgress"},
        "conditions": _with(kept, VOLUME_MOVE, "True", reason, message, now),
    }


def kept(status: Status, reason: str, message: str, now: float) -> Tree:
    """After the switch, while the old copy is kept."""
    return {"conditions": _with(status, VOLUME_MOVE, "True", reason, message, now)}


def settled(status: Status) -> Tree:
    """After a move is over, or was undone before the switch."""
    under_way = (status.get("modifyVolumeStatus") or {}).get("status") == "InProgress"
    kinds = (VOLUME_MOVE, *_MODIFYING) if under_way else (VOLUME_MOVE,)
    fields: Tree = {"conditions": _without(status, kinds) or None}
    return {**fields, "modifyVolumeStatus": None} if under_way else fields


def not_moved(status: Status, attributes: str, reason: str, message: str, now: float) -> Tree:
    kept = {**status, "conditions": _without(status, ("ModifyingVolume",))}
    kept["conditions"] = _with(kept, VOLUME_MOVE, "False", reason, message, now)
    return not_modified(kept, attributes, message, now)


def returned(status: Status, attributes: str, previous: str, message: str, now: float) -> Tree:
    """After the old copy has become the volume again."""
    fields = not_moved(status, attributes, RETURNED, message, now)
    return {**fields, "currentVolumeAttributesClassName": previous or None}


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
