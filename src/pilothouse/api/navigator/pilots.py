"""A Pilot's ``decommission`` and its opposite, ``inService``.

Either may be given. ``decommission`` is always stored, ``inService`` only if given. When a write changes one
of them, the other follows; two that contradict each other are an error.
"""

from __future__ import annotations

from typing import Any


def fill_in_decommission(obj: dict[str, Any]) -> None:
    """Derive ``decommission`` from ``inService`` if only that is given."""
    spec = obj.get("spec")
    if isinstance(spec, dict) and isinstance(spec.get("inService"), bool):
        spec.setdefault("decommission", not spec["inService"])


def follow_change(new: dict[str, Any], old: dict[str, Any]) -> None:
    """If a write changed one of the two fields, change the other."""
    spec, stored = new.get("spec") or {}, old.get("spec") or {}
    if not contradicts(spec) or "inService" not in stored or "decommission" not in stored:
        return
    if spec["decommission"] == stored["decommission"]:
        spec["decommission"] = not spec["inService"]
    else:
        spec["inService"] = not spec["decommission"]


def contradicts(spec: dict[str, Any]) -> bool:
    """True if both are given and contradict each other."""
    decommission, in_service = spec.get("decommission"), spec.get("inService")
    return isinstance(decommission, bool) and decommission is in_service
