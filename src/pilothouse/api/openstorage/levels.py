"""The levels along which metrics are correlated, from an application down to its machines.

    reached_from("volume")        # every level: a volume has one pod, one workload, one device …
    reached_from("storagepool")   # storagepool, device, node: a pool has many volumes

A rule is about objects of one level. Its expressions may look at objects of other levels, and its actions may
act on them, as long as they are reached from the rule's object.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pilothouse.api.openstorage.actions import object_type

LEVELS: Final = ("application", "workload", "pod", "volume", "device", "storagepool", "node")
"""From the top down."""
_BELOW_APPLICATIONS: Final = ("storagepool", "device", "node")
"""What many applications share, so that none of them is reached from it."""


def reached_from(level: str) -> tuple[str, ...]:
    """The levels that expressions and actions of a rule about this level may name, the level itself first."""
    if level == "node":
        return ("node",)
    if level in _BELOW_APPLICATIONS:
        return _BELOW_APPLICATIONS
    return (level, *(one for one in LEVELS if one != level))


def object_of_rule(spec: Mapping[str, Any]) -> str:
    """What a rule is about: what it says, else the type of object of its first action."""
    if about := spec.get("object"):
        return str(about)
    actions: list[Mapping[str, Any]] = list(spec.get("actions") or ())
    for candidate in spec.get("candidates") or ():
        actions.extend(candidate.get("actions") or ())
    return object_type(str(actions[0].get("name", ""))) if actions else ""
