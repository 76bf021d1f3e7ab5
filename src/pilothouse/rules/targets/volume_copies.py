"""``volume/ha``: how many copies a volume has. Nothing here can change that."""

from __future__ import annotations

from typing import Final

from pilothouse.api.kind_names import KindName
from pilothouse.api.objects import Object
from pilothouse.api.openstorage.v1alpha1 import RuleAction
from pilothouse.rules.action_targets import ObjectLookup, TargetDeclined, TargetResult

READS: Final[tuple[KindName, ...]] = ()


def volume_copies(action: RuleAction, claim: Object, world: ObjectLookup) -> TargetResult:
    """Declined, and why."""
    return TargetDeclined(
        "a claim has one volume, and no field says how many copies of it there are; databases keep copies "
        "themselves: use openstorage.io.action.application/redundancy or workload/scale"
    )
