"""Which volumes to move between the tiers of one node, so that its pools come within a range: a trial.

    trial = balanced(pools, volumes, BalanceRange(deviation=(-20.0, 20.0)), node="w1")
    trial.moves                 # (PlannedMove("db/data-0", "default", "fast"), …)
    trial.within                # whether the pools are within the range then

Deviations are in percentage points from the mean of all pools of the cluster, as in the aliases
``PoolProvDeviationPerc`` and ``PoolUsageDeviationPerc``. Each step takes the move that helps most; it ends
when all pools of the node are within the range, or no move helps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

MOST_MOVES: Final = 20
_MOST_VOLUMES: Final = 200
"""Of a pool, that are looked at: the largest."""
_LEAST_GAIN: Final = 1e-6


class BalanceRange(msgspec.Struct, frozen=True):
    """What pools should keep to; None is no bound."""

    deviation: tuple[float, float] | None = None
    """Of provisioned and used space from the means, in percentage points."""
    provisioned: float | None = None
    """At most so many percent of the capacity."""
    used: float | None = None


class PoolLoad(msgspec.Struct, frozen=True):
    """A pool, in bytes."""

    name: str
    node: str
    tier: str
    capacity: int
    provisioned: int
    used: int

    @property
    def provisioned_percent(self) -> float:
        return 100 * self.provisioned / self.capacity

    @property
    def used_percent(self) -> float:
        return 100 * self.used / self.capacity


class MovableVolume(msgspec.Struct, frozen=True):
    """A volume in a pool."""

    claim: str
    """Namespace and name."""
    pool: str
    size: int


class PlannedMove(msgspec.Struct, frozen=True):
    """One volume that changes its tier."""

    claim: str
    size: int
    source: str
    """A tier, as is the next."""
    to: str


class BalanceTrial(msgspec.Struct, frozen=True):
    """What a rebalance would do."""

    moves: tuple[PlannedMove, ...]
    before: tuple[PoolLoad, ...]
    after: tuple[PoolLoad, ...]
    """The pools of the node."""
    within: bool
    """Whether they are within the range after the moves."""


def balanced(
    pools: Sequence[PoolLoad], volumes: Iterable[MovableVolume], limits: BalanceRange, *, node: str
) -> BalanceTrial:
    """The moves on one node; ``pools`` are those of the whole cluster, which the means are of."""
    known = [pool for pool in pools if pool.capacity > 0]
    loads = {pool.name: pool for pool in known if pool.node == node}
    elsewhere = _Elsewhere.of([pool for pool in known if pool.node != node])
    before = tuple(loads.values())
    movable = _largest(loads, volumes)
    moves: list[PlannedMove] = []
    excess = _excess(loads, elsewhere, limits)
    while excess > 0 and len(moves) < MOST_MOVES:
        best = _best_move(loads, elsewhere, movable, limits)
        if best is None or best[0] > excess - _LEAST_GAIN:
            break
        excess, volume, to = best
        moves.append(PlannedMove(volume.claim, volume.size, loads[volume.pool].tier, loads[to].tier))
        loads = _moved(loads, volume, to)
        movable.remove(volume)
    return BalanceTrial(tuple(moves), before, tuple(loads.values()), excess <= 0)


class _Elsewhere(msgspec.Struct, frozen=True):
    """The pools of other nodes, which count for the means and do not change."""

    count: int
    provisioned: float
    """Percentages, added up."""
    used: float

    @classmethod
    def of(cls, pools: Sequence[PoolLoad]) -> _Elsewhere:
        provisioned = sum(pool.provisioned_percent for pool in pools)
        return cls(len(pools), provisioned, sum(pool.used_percent for pool in pools))


def _largest(loads: Mapping[str, PoolLoad], volumes: Iterable[MovableVolume]) -> list[MovableVolume]:
    by_pool: dict[str, list[MovableVolume]] = {name: [] for name in loads}
    for volume in sorted(volumes, key=lambda one: (-one.size, one.claim)):
        if volume.pool in by_pool and len(by_pool[volume.pool]) < _MOST_VOLUMES:
            by_pool[volume.pool].append(volume)
    return [volume for found in by_pool.values() for volume in found]


def _best_move(
    loads: Mapping[str, PoolLoad],
    elsewhere: _Elsewhere,
    movable: Sequence[MovableVolume],
    limits: BalanceRange,
) -> tuple[float, MovableVolume, str] | None:
    best: tuple[float, MovableVolume, str] | None = None
    for volume in movable:
        for to, target in loads.items():
            if to == volume.pool or target.capacity - target.used < volume.size:
                continue
            excess = _excess(_moved(loads, volume, to), elsewhere, limits)
            if best is None or excess < best[0]:
                best = excess, volume, to
    return best


def _moved(loads: Mapping[str, PoolLoad], volume: MovableVolume, to: str) -> dict[str, PoolLoad]:
    """The pools after a move. A volume is taken to use as large a part of its size as all of its pool do."""
    source, target = loads[volume.pool], loads[to]
    part = min(1.0, source.used / source.provisioned) if source.provisioned else 0.0
    used = min(source.used, int(volume.size * part))
    replace = msgspec.structs.replace
    return {
        **loads,
        source.name: replace(source, provisioned=source.provisioned - volume.size, used=source.used - used),
        target.name: replace(target, provisioned=target.provisioned + volume.size, used=target.used + used),
    }


def _excess(loads: Mapping[str, PoolLoad], elsewhere: _Elsewhere, limits: BalanceRange) -> float:
    """By how many percentage points the pools of the node are out of the range, added up."""
    total = 0.0
    count = max(1, len(loads) + elsewhere.count)
    provisioned = (sum(pool.provisioned_percent for pool in loads.values()) + elsewhere.provisioned) / count
    used = (sum(pool.used_percent for pool in loads.values()) + elsewhere.used) / count
    for pool in loads.values():
        if limits.deviation is not None:
            total += _outside(pool.provisioned_percent - provisioned, limits.deviation)
            total += _outside(pool.used_percent - used, limits.deviation)
        if limits.provisioned is not None:
            total += max(0.0, pool.provisioned_percent - limits.provisioned)
        if limits.used is not None:
            total += max(0.0, pool.used_percent - limits.used)
    return total


def _outside(value: float, bounds: tuple[float, float]) -> float:
    return max(0.0, bounds[0] - value, value - bounds[1])
