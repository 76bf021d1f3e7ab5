"""``certificatesigningrequests/approval``: the one place where a request is approved or denied."""

from __future__ import annotations

from typing import Any

from pilothouse.apiserver import lifecycle
from pilothouse.meta.kind import Kind, Object

_VERDICTS = ("Approved", "Denied")


def carry_verdict(kind: Kind, new: Object, live: Object) -> Object:
    """The live request with the verdicts, and nothing else, of the one sent."""
    sent = (new.get("status") or {}).get("conditions") or []
    kept = [
        each
        for each in (live.get("status") or {}).get("conditions") or []
        if each.get("type") not in _VERDICTS
    ]
    verdicts = [each for each in sent if each.get("type") in _VERDICTS]
    status: dict[str, Any] = {**(live.get("status") or {}), "conditions": [*kept, *verdicts]}
    return lifecycle.carry_status(kind, {**new, "status": status}, live)
