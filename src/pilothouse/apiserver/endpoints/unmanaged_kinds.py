"""Objects that no controller acts on say so: in a condition, and with a warning when they are created.

    mark(kind, obj)         # status.conditions: Reconciled is False, NoController

The condition is written when the object is made and when its spec changes, and it is no client's: nobody manages it. An object whose status
somebody else has written is attended after all, and is left alone. The type is one that neither ``kubectl rollout status``
nor anything else takes for progress.
"""

from __future__ import annotations

from pilothouse.meta.kind import Kind, Object

TYPE = "Reconciled"
REASON = "NoController"


def mark(kind: Kind, obj: Object) -> None:
    """Add the condition to an object that nobody looks after, where its kind has conditions."""
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
