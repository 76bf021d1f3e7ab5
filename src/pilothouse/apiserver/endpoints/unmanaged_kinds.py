"""A condition for objects that no controller acts on.

    mark(kind, obj)         # status.conditions: Reconciled is False, NoController

It is set on create and when the spec changes, without a manager, unless a client has written the status. No
tool takes this condition type for progress.
"""

from __future__ import annotations

from pilothouse.meta.kind import Kind, Object

TYPE = "Reconciled"
REASON = "NoController"


def mark(kind: Kind, obj: Object) -> None:
    """Add the condition to an object that no controller acts on, if its kind has conditions."""
    described = kind.schema.properties.get("status")
    if not kind.unattended or described is None or "conditions" not in described.properties:
        return
    status = obj.get("status") or {}
    conditions = status.get("conditions") or []
    others = [each for each in conditions if each.get("type") != TYPE]
    if others or any(value for field, value in status.items() if field != "conditions"):
        return
    if conditions and conditions[0].get("message") == kind.unattended:
        return
    condition = {
        "type": TYPE,
        "status": "False",
        "reason": REASON,
        "message": kind.unattended,
        "lastTransitionTime": obj["metadata"]["creationTimestamp"],
    }
    obj["status"] = {**status, "conditions": [condition]}
