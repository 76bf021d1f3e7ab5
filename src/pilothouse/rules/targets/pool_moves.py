"""``storagepool/rebalance``: the volumes that are to be moved between the tiers of a pool's node.

The range that the pools should come within is that of the rules with this action that select the pool: of
``NotInRange`` with the aliases of deviations, and of ``Gt`` and ``GtEq`` with an expression of provisioned or
used space in percent. A rule with none of these has ten percentage points from the mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from pilothouse.api.attributes_classes import current_class, parameters_of, requested_class
from pilothouse.api.kind_names import (
    AutopilotRule,
    KindName,
    PersistentVolume,
    PersistentVolumeClaim,
    StoragePool,
    VolumeAttributesClass,
)
from pilothouse.api.local_volumes import NODE
from pilothouse.api.objects import Object
from pilothouse.api.openstorage.actions import REBALANCE_POOL
from pilothouse.api.openstorage.pauses import is_paused
from pilothouse.api.openstorage.v1alpha1 import RuleAction
from pilothouse.meta.selectors import LabelSelector, SelectorError
from pilothouse.rules.action_targets import (
    TRIAL,
    ActionTarget,
    ObjectLookup,
    TargetDeclined,
    TargetNotReady,
    TargetResult,
    bytes_of,
    capacity_of,
    is_bound,
    size_text,
)
from pilothouse.rules.targets.pool_balance import (
    BalanceRange,
    BalanceTrial,
    MovableVolume,
    PoolLoad,
    balanced,
)
from pilothouse.rules.targets.volume_class import CLASS_READS, tier_of

READS: Final[tuple[KindName, ...]] = (*CLASS_READS, AutopilotRule, PersistentVolumeClaim, StoragePool)
SUMMARY: Final = "Rebalance summary:"
DEFAULT_DEVIATION: Final = (-10.0, 10.0)
_ALIASES: Final = ("PoolProvDeviationPerc", "PoolUsageDeviationPerc")
_PROVISIONED: Final = "px_pool_stats_provisioned_bytes"
_USED: Final = "px_pool_stats_used_bytes"


def pool_moves(action: RuleAction, pool: Object, world: ObjectLookup) -> TargetResult:
    """The moves of a trial, and its summary."""
    node = str(pool.status.get("node", ""))
    loads = [load for each in world.all(StoragePool) if (load := _load(each)) is not None]
    if not any(load.name == pool.name for load in loads):
        return TargetNotReady(f"the node has not reported the capacity of pool {pool.name}")
    if len([load for load in loads if load.node == node]) < 2:
        why = "has one pool, and a local volume can't leave its machine"
        return TargetDeclined(f"{SUMMARY} node {node} {why}")
    trial = balanced(loads, _volumes(node, world), range_of(pool, world), node=node)
    summary = _summary(trial, node)
    if not trial.moves:
        return TargetDeclined(summary)
    moves = ",".join(f"{move.claim}={move.to}" for move in trial.moves)
    return ActionTarget({"moves": moves, TRIAL: summary})


def range_of(pool: Object, world: ObjectLookup) -> BalanceRange:
    """The strictest range of the rules that rebalance this pool."""
    lows: list[float] = []
    highs: list[float] = []
    provisioned: list[float] = []
    used: list[float] = []
    for expression in _expressions(pool, world):
        operator = expression.get("operator")
        values = [float(value) for value in expression.get("values") or ()]
        key = str(expression.get("key") or "")
        if operator == "NotInRange" and expression.get("keyAlias") in _ALIASES:
            lows.append(values[0])
            highs.append(values[1])
        elif operator in ("Gt", "GtEq") and _PROVISIONED in key:
            provisioned += values
        elif operator in ("Gt", "GtEq") and _USED in key:
            used += values
    deviation = (max(lows), min(highs)) if lows else None
    if deviation is None and not provisioned and not used:
        deviation = DEFAULT_DEVIATION
    return BalanceRange(deviation, min(provisioned, default=None), min(used, default=None))


def _expressions(pool: Object, world: ObjectLookup) -> Iterator[Mapping[str, Any]]:
    for rule in world.all(AutopilotRule):
        candidates = rule.spec.get("candidates") or ()
        actions = [*(rule.spec.get("actions") or ())]
        actions += [each for candidate in candidates for each in candidate.get("actions") or ()]
        if rule.deleting or not any(each.get("name") == REBALANCE_POOL for each in actions):
            continue
        if _selects(rule, pool):
            yield from rule.at("spec", "conditions", "expressions", default=())


def _selects(rule: Object, pool: Object) -> bool:
    try:
        return LabelSelector.from_object(rule.spec.get("selector") or {}).matches(pool.labels)
    except SelectorError:
        return False


def _load(pool: Object) -> PoolLoad | None:
    status = pool.status
    capacity = bytes_of(status.get("capacity"))
    if not capacity:
        return None
    provisioned, used = bytes_of(status.get("provisioned")), bytes_of(status.get("used"))
    node, tier = str(status.get("node", "")), str(status.get("tier", ""))
    return PoolLoad(pool.name, node, tier, capacity, provisioned, used)


def _volumes(node: str, world: ObjectLookup) -> Iterator[MovableVolume]:
    """The volumes of a node that may be moved: those whose claims are not paused or being changed."""
    pools = {str(pool.status.get("tier")): pool.name for pool in _pools_of(node, world)}
    local = {one.name for one in world.all(PersistentVolume) if one.annotations.get(NODE) == node}
    for claim in world.all(PersistentVolumeClaim):
        if claim.spec.get("volumeName") not in local or claim.deleting or not is_bound(claim):
            continue
        if is_paused(claim.annotations) or requested_class(claim) != current_class(claim):
            continue
        name = current_class(claim)
        found = world.find(VolumeAttributesClass, "", name) if name else None
        if name and found is None:
            continue
        tier = tier_of(claim, parameters_of(found), world)
        if tier in pools:
            yield MovableVolume(f"{claim.namespace}/{claim.name}", pools[tier], capacity_of(claim))


def _pools_of(node: str, world: ObjectLookup) -> Iterable[Object]:
    return (pool for pool in world.all(StoragePool) if pool.status.get("node") == node)


def _summary(trial: BalanceTrial, node: str) -> str:
    after = {pool.name: pool for pool in trial.after}
    pools = "; ".join(
        f"tier {pool.tier} {pool.provisioned_percent:.0f} -> {after[pool.name].provisioned_percent:.0f} % "
        f"provisioned, {pool.used_percent:.0f} -> {after[pool.name].used_percent:.0f} % used"
        for pool in trial.before
    )
    if not trial.moves:
        why = (
            "all its pools are within the range" if trial.within else "no move brings its pools nearer to it"
        )
        return f"{SUMMARY} nothing moves on node {node}: {why}; {pools}"
    moves = ", ".join(
        f"{move.claim} ({size_text(move.size)}) {move.source} -> {move.to}" for move in trial.moves
    )
    rest = "" if trial.within else "; the pools are still out of the range then"
    return f"{SUMMARY} on node {node} {moves}; {pools}{rest}"
