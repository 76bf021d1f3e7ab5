"""A model of Elasticsearch: nodes, shards and their copies, masters, a voting configuration; no I/O.

    database = ElasticsearchModel(random.Random(7))
    database.join("es-demo-data-0", "7.17.9", ("data", "master"))
    database.form(["es-demo-data-0"])
    database.tick(13.0)                      # shards are allocated, moved and written to

It raises ``InvariantViolated`` when the last good copy of a shard is deleted, copies are given up that a node
could hold, the masters lose their majority, or a data folder is read by a version older than the one that
wrote it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from random import Random
from typing import Any, Final

import msgspec

from pilothouse.api.navigator.elasticsearch import quorum
from pilothouse.meta.versions import Version
from pilothouse.pilot.drivers.elasticsearch.rebalance import REBALANCE
from pilothouse.sim.invariant_checker import InvariantViolated

_SHARDS: Final = 4
_SPARES_ONE: Final = 3
_BUILDING: Final = (2.0, 9.0)
"""How long it takes to build or move a copy, as a range in seconds."""


class ModelMember(msgspec.Struct):
    version: str
    roles: Collection[str]
    up: bool = True


class ShardRecovery(msgspec.Struct, frozen=True):
    """A copy that is being built on a node, instead of another or in addition."""

    target: str
    instead_of: str
    due: float


class Shard(msgspec.Struct):
    """The number of writes, and how many of them each copy has."""

    written: int = 1
    copies: dict[str, int] = msgspec.field(default_factory=dict)
    building: ShardRecovery | None = None


class ElasticsearchModel:
    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self.members: dict[str, ModelMember] = {}
        self.shards: list[Shard] = []
        self.voting: dict[str, None] = {}
        """The voting configuration, in the order of joining."""
        self.excluded: dict[str, int] = {}
        """Nodes excluded from allocation, with the generation of the Pilot that asks for it."""
        self.primaries_only = False
        self.formed = False
        self.crashed: set[str] = set()
        """Nodes that were killed and have not come back."""
        self.copies = 1
        """``number_of_replicas``: how many there are of a shard beside the first."""
        self.settings: dict[str, Any] = {}
        """The settings of the cluster that were changed at run time."""

    def join(self, name: str, version: str, roles: Collection[str]) -> None:
        """Start a node. Raises ``InvariantViolated`` if it can't read its data folder."""
        member = self.members.get(name)
        if member is not None and Version.parse(version) < Version.parse(member.version):
            raise InvariantViolated(
                f"{name} is started with {version}, and its folder was written by {member.version}"
            )
        self.members[name] = ModelMember(version, tuple(roles))
        self.crashed.discard(name)
        if self.formed and "master" in roles and name not in self.excluded:
            self.voting[name] = None

    def form(self, initial: Sequence[str]) -> None:
        """Bootstrap the cluster, if a majority of the named nodes is up."""
        present = [name for name in initial if self.is_up(name)]
        if self.formed or len(present) < quorum(len(initial)) or not initial:
            return
        self.formed = True
        self.voting = {
            name: None for name, each in self.members.items() if "master" in each.roles and each.up
        }
        self.shards = [Shard() for _ in range(_SHARDS)]

    def leave(self, name: str) -> None:
        """Stop a node, which keeps its data. Raises ``InvariantViolated`` if masters lose their majority."""
        member = self.members.get(name)
        if member is None or not member.up:
            return
        member.up = False
        self._drop_building(name)
        self._check_quorum(name)

    def crash(self, name: str) -> None:
        """Kill a node, which keeps its data. A majority that is lost by this violates nothing."""
        if self.is_up(name):
            self.crashed.add(name)
            self.members[name].up = False
            self._drop_building(name)

    def lose(self, name: str) -> None:
        """Remove a node with its data. Raises ``InvariantViolated`` if it had a shard's last good copy."""
        self.leave(name)
        self.members.pop(name, None)
        self.crashed.discard(name)
        for number, shard in enumerate(self.shards):
            had = shard.copies.pop(name, 0)
            if had == shard.written and not self._good(shard):
                raise InvariantViolated(f"{name} is gone, and had the last good copy of shard {number}")

    def exclude(self, names: Mapping[str, int]) -> None:
        """Exclude these nodes from allocation and from voting."""
        self.excluded = dict(names)
        for name in names:
            if name in self.voting and len(self.voting) > 1:
                del self.voting[name]
        for name, member in self.members.items():
            if self.formed and member.up and "master" in member.roles and name not in self.excluded:
                self.voting[name] = None

    def set_copies(self, copies: int) -> None:
        """Raises ``InvariantViolated`` if fewer are kept while some are missing that nodes could hold."""
        able = [
            name for name, each in self.members.items() if "data" in each.roles and name not in self.excluded
        ]
        if copies < self.copies and self.health != "Green" and len(able) > self.copies:
            raise InvariantViolated(
                f"{self.copies} copies are asked for and {copies} are kept, while the health is {self.health}"
            )
        self.copies = copies

    def change(self, settings: Mapping[str, Any]) -> None:
        """Change settings of the cluster; None resets one."""
        self.settings |= settings
        self.settings = {name: value for name, value in self.settings.items() if value is not None}

    def is_up(self, name: str) -> bool:
        member = self.members.get(name)
        return member is not None and member.up

    def held(self, name: str) -> list[Shard]:
        """The shards whose copy on this node is being built, is the last one or can still be moved."""
        return [
            shard
            for shard in self.shards
            if (name in shard.copies and not self._is_spare(shard, name))
            or (shard.building is not None and shard.building.target == name)
        ]

    @property
    def health(self) -> str:
        live = [len(self._live(shard)) for shard in self.shards]
        if not all(live):
            return "Red"
        return "Green" if all(count > self.copies for count in live) else "Yellow"

    @property
    def settled(self) -> bool:
        """True if no shard moves and allocation is enabled."""
        return not self.primaries_only and not any(shard.building for shard in self.shards)

    def tick(self, now: float) -> None:
        """Advance: write documents, build and move shards."""
        for shard in self.shards:
            self._finish(shard, now)
            self._write(shard)
            self._drop_surplus(shard)
            if shard.building is None:
                shard.building = self._next(shard, now)

    def _finish(self, shard: Shard, now: float) -> None:
        building = shard.building
        if building is None or building.due > now:
            return
        shard.building = None
        if self.is_up(building.target) and (self._live(shard) or not shard.copies):
            shard.copies[building.target] = shard.written
            shard.copies.pop(building.instead_of, None)

    def _drop_building(self, name: str) -> None:
        for shard in self.shards:
            if shard.building is not None and name in (shard.building.target, shard.building.instead_of):
                shard.building = None

    def _write(self, shard: Shard) -> None:
        live = self._live(shard)
        if live:
            shard.written += 1
            for name in live:
                shard.copies[name] = shard.written
            for name in [one for one, had in shard.copies.items() if had < shard.written and self.is_up(one)]:
                # Its copy is stale and is rebuilt.
                del shard.copies[name]

    def _drop_surplus(self, shard: Shard) -> None:
        """Delete the copies that are no longer asked for: first those on nodes that leave."""
        live = sorted(
            self._live(shard), key=lambda name: (name not in self.excluded, -self._load(name), name)
        )
        for name in live[: max(0, len(live) - 1 - self.copies)]:
            del shard.copies[name]
        building = shard.building
        if building is None:
            return
        source = building.instead_of
        if source not in shard.copies if source else len(live) > self.copies:
            shard.building = None

    def _next(self, shard: Shard, now: float) -> ShardRecovery | None:
        free = self._free(shard)
        if not free or (shard.copies and not self._live(shard)):
            return None
        due = now + self._rng.uniform(*_BUILDING)
        leaving = [name for name in self._live(shard) if name in self.excluded]
        if leaving:
            return ShardRecovery(free[0], leaving[0], due)
        live = self._live(shard)
        if len(live) <= self.copies and (not self.primaries_only or not shard.copies):
            return ShardRecovery(free[0], "", due)
        fullest = max(live, key=self._load)
        if self.settings.get(REBALANCE) == "all" and self._load(fullest) > self._load(free[0]) + 1:
            return ShardRecovery(free[0], fullest, due)
        return None

    def load(self) -> dict[str, int]:
        """How many shards each data node has that is up and stays."""
        return {
            name: self._load(name)
            for name, member in self.members.items()
            if member.up and "data" in member.roles and name not in self.excluded
        }

    def _free(self, shard: Shard) -> list[str]:
        """The nodes that could take a copy, the least loaded first."""
        able = [
            name
            for name, member in self.members.items()
            if member.up and "data" in member.roles and name not in self.excluded and name not in shard.copies
        ]
        return sorted(able, key=lambda name: (self._load(name), name))

    def _load(self, name: str) -> int:
        coming = sum(one.building is not None and one.building.target == name for one in self.shards)
        return coming + sum(name in one.copies for one in self.shards)

    def _live(self, shard: Shard) -> list[str]:
        return [name for name in self._good(shard) if self.is_up(name)]

    def _good(self, shard: Shard) -> list[str]:
        return [name for name, had in shard.copies.items() if had == shard.written]

    def _is_spare(self, shard: Shard, name: str) -> bool:
        """True if another copy is on a node that stays, and no node can take this one."""
        staying = [other for other in self._live(shard) if other != name and other not in self.excluded]
        return bool(staying) and not self._free(shard) and shard.building is None

    def _check_quorum(self, name: str) -> None:
        if not self.formed or len(self.voting) < _SPARES_ONE:
            # Fewer masters tolerate no loss, which is the user's choice.
            return
        live = [one for one in self.voting if self.is_up(one) or one in self.crashed]
        if len(live) < quorum(len(self.voting)):
            raise InvariantViolated(
                f"{name} is stopped, and {len(live)} of {len(self.voting)} masters are no majority"
            )
