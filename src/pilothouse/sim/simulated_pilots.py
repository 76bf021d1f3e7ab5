"""Simulated pilots of an Elasticsearch cluster, beside a modelled database.

    pilots = SimulatedPilots(server.api("pilots"), "db", "demo", clock, random.Random(7))
    await pilots.run()                     # until cancelled; raises InvariantViolated

They keep to the contract of ADR 10, through the API alone: each waits for its Pilot, starts its database in
the version of its pod's image, restarts it when the hash of the configuration changes, and reports; the
leader excludes decommissioned nodes, keeps the copies that are asked for, rebalances on request (both as the
driver decides) and reports the state of the cluster. One task runs all of them once a
second. The leader's view of its peers may be late.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from random import Random
from typing import Final

import msgspec

from pilothouse.aio.task_group import together
from pilothouse.api.applications.elasticsearch_application import INITIAL_MASTERS
from pilothouse.api.kind_names import ElasticsearchCluster, Pilot, Pod, StatefulSet
from pilothouse.api.navigator.configurations import configuration_hash, in_force
from pilothouse.api.navigator.labels import HAS_PILOT, VERSION, leader_lease, pilot_lease
from pilothouse.api.objects import Object, Tree
from pilothouse.base.clock import Clock
from pilothouse.base.rfc3339 import format_micro_time, format_time
from pilothouse.client.api import Api
from pilothouse.client.informer import Informer
from pilothouse.client.transport import TransportError
from pilothouse.meta.errors import StatusError
from pilothouse.pilot.drivers.elasticsearch.cluster_actions import DrainProgress, roles_of
from pilothouse.pilot.drivers.elasticsearch.rebalance import STILL, rebalance_decision
from pilothouse.pilot.drivers.elasticsearch.redundancy import DataNodes, copies_decision
from pilothouse.sim import heartbeats
from pilothouse.sim.elasticsearch_model import ElasticsearchModel
from pilothouse.sim.invariant_checker import InvariantViolated
from pilothouse.sim.pilot_reports import ReportedInstance, cluster_report, pilot_report

_STARTING: Final = (2.0, 6.0)
_RESTLESS: Final = 30.0
"""Seconds after a start in which the leader may change."""
_LEASE: Final = 15.0
_CHALLENGED: Final = 0.03
"""The probability of that, per second."""
_LOOKS_AWAY: Final = 0.05
_LAG: Final = (1.0, 12.0)
_CATCHES_UP: Final = 2
_INDEX: Final = "books"
"""The probability per second that the leader's view of its peers stops, for how long, and how many views per
second it catches up."""


class PlannedKill(msgspec.Struct, frozen=True):
    """A kill at a second: of an instance, or of the current leader."""

    second: float
    who: str = ""
    """The name of a Pilot; empty for the leader."""


class SimulatedInstance(msgspec.Struct):
    """A database and its pilot."""

    pod: str
    """The uid of its pod."""
    hash: str
    generation: int
    started: float
    due: float
    """When it will be up."""
    up: bool = False
    beat: float = 0.0


class SimulatedPilots:
    def __init__(
        self,
        api: Api,
        namespace: str,
        cluster: str,
        clock: Clock,
        rng: Random,
        *,
        kills: Sequence[PlannedKill] = (),
    ) -> None:
        self._api = api
        self._namespace = namespace
        self._cluster = cluster
        self._clock = clock
        self._rng = rng
        self._pods = Informer(api, Pod, rng, clock)
        self._pilots = Informer(api, Pilot, rng, clock)
        self._sets = Informer(api, StatefulSet, rng, clock)
        self._instances: dict[str, SimulatedInstance] = {}
        self._leader = ""
        self._acquired = 0.0
        self._vacant_until = 0.0
        self._terms = 0
        self._views: deque[dict[str, int]] = deque()
        """The decommissioned nodes, second by second, from the leader's view to the present."""
        self._lags_until = 0.0
        self._standing = DrainProgress(STILL)
        self._extras: Tree = {}
        """What the leader reports of copies and of rebalancing."""
        self._began = clock.now()
        self._kills = sorted(kills, key=lambda each: each.second)
        self.killed: list[str] = []
        """The names of the killed instances, in order."""
        self.database = ElasticsearchModel(rng)

    async def run(self) -> None:
        """Run until cancelled. Raises ``InvariantViolated``."""
        await together(
            {
                "pods": self._pods.run(),
                "pilots": self._pilots.run(),
                "sets": self._sets.run(),
                "reports": self._report_every_second(),
            }
        )

    async def _report_every_second(self) -> None:
        while True:
            await asyncio.sleep(1)
            now = self._clock.now()
            self._look(now)
            self._inject(now)
            self.database.tick(now)
            try:
                await self._report(now)
            except (StatusError, TransportError):
                continue

    def _look(self, now: float) -> None:
        """Start, stop and restart instances; this works without the API server."""
        pilots = {one.name: one for one in self._pilots.cache.list(self._namespace) if self._is_ours(one)}
        pods = {one.name: one for one in self._pods.cache.list(self._namespace) if HAS_PILOT in one.labels}
        for name, instance in list(self._instances.items()):
            pod = pods.get(name)
            if pod is None or pod.uid != instance.pod or pod.deleting:
                self._stop(name)
                del self._instances[name]
        self._forget(pods)
        for name, pod in sorted(pods.items()):
            pilot = pilots.get(name)
            if pilot is not None and pod.status.get("phase") == "Running" and not pod.deleting:
                self._run_instance(name, pod, pilot, now)
        self._check_down(pilots)

    def _run_instance(self, name: str, pod: Object, pilot: Object, now: float) -> None:
        digest = configuration_hash(pilot.spec)
        instance = self._instances.get(name)
        vouched = in_force(pilot.spec, pilot.annotations) == digest
        if instance is None or (vouched and instance.hash != digest):
            if instance is not None:
                self._stop(name)
            due = now + self._rng.uniform(*_STARTING)
            self._instances[name] = SimulatedInstance(pod.uid, digest, pilot.generation, now, due)
        elif not instance.up and now >= instance.due:
            roles = pilot.at("spec", "elasticsearch", "roles", default=())
            self.database.join(name, pod.annotations[VERSION], roles)
            instance.up = True
        self._instances[name].generation = pilot.generation

    def _inject(self, now: float) -> None:
        """Kill what is planned: database and pilot die together, and the container is restarted."""
        while self._kills and now - self._began >= self._kills[0].second:
            name = self._kills.pop(0).who or self._leader
            instance = self._instances.get(name)
            if instance is not None:
                self.database.crash(name)
                self.killed.append(name)
                instance.up, instance.started = False, now
                instance.due = now + self._rng.uniform(*_STARTING)
                if name == self._leader:
                    # No pilot leads before the lease has expired, not even its restarted holder.
                    self._leader, self._vacant_until = "", now + _LEASE

    def _stop(self, name: str) -> None:
        if self.database.is_up(name):
            self.database.primaries_only = True
            self.database.leave(name)

    def _forget(self, pods: dict[str, Object]) -> None:
        """Remove the data of nodes whose pod is gone and that their set no longer wants."""
        for name in list(self.database.members):
            if name in pods:
                continue
            stem, _, ordinal = name.rpartition("-")
            stateful_set = self._sets.cache.get(self._namespace, stem)
            if stateful_set is None or int(ordinal) >= stateful_set.spec.get("replicas", 1):
                self.database.lose(name)

    def _check_down(self, pilots: dict[str, Object]) -> None:
        """At most one node may be down, except killed and decommissioned ones."""
        down = [
            name
            for name, member in self.database.members.items()
            if not member.up
            and name not in self.database.crashed
            and name in pilots
            and not pilots[name].spec.get("decommission")
        ]
        if len(down) > 1:
            raise InvariantViolated(f"{' and '.join(sorted(down))} are down at once")

    async def _report(self, now: float) -> None:
        pilots = [one for one in self._pilots.cache.list(self._namespace) if self._is_ours(one)]
        await self._lead(pilots, now)
        for pilot in sorted(pilots, key=lambda one: one.name):
            instance = self._instances.get(pilot.name)
            if instance is not None and now - instance.beat >= heartbeats.EVERY:
                await heartbeats.renew(
                    self._api, pilot_lease(pilot.name), self._namespace, pilot.name, self._clock
                )
                instance.beat = now
            status = self._status(pilot, instance, pilots, now)
            if status != pilot.status:
                # An update, since a merge patch would keep members that are gone.
                tree = {**pilot.tree, "status": status}
                written = await self._api.update(Pilot, tree, subresource="status")
                await self._pilots.until(written.revision)

    async def _lead(self, pilots: list[Object], now: float) -> None:
        """Do the leader's work; now and then the leader changes."""
        able = sorted(name for name, instance in self._instances.items() if instance.up)
        if not able or now < self._vacant_until:
            return
        if self._leader not in able or self._is_challenged(now):
            leader = self._rng.choice(able)
            await self._take_lease(leader, now)
            self._leader, self._acquired = leader, now
        self.database.exclude(self._follow(pilots, now))
        if not self.database.formed:
            for pilot in pilots:
                settings = pilot.at("spec", "configuration", "settings", default={})
                self.database.form(settings.get(INITIAL_MASTERS) or ())
        if self.database.formed:
            self._extras = {**self._spread(pilots, now), **self._copies(pilots)}
        expected = [one.name for one in pilots if not one.spec.get("decommission")]
        if all(self.database.is_up(name) for name in expected if self._has_pod(name)):
            self.database.primaries_only = False

    def _spread(self, pilots: list[Object], now: float) -> Tree:
        """Allow or forbid rebalancing, as requested."""
        database, shards = self.database, self.database.load()
        moving = any(shard.building for shard in database.shards)
        still = self._standing.stands_still(shards, moving=moving, now=now)
        settings = self._of_leader(pilots, "configuration", "settings")
        decision = rebalance_decision(
            pilots, database.settings, settings, shards, moving=moving, still=still, now=now
        )
        if decision.settings:
            self._standing = DrainProgress(STILL)
            database.change(decision.settings)
        return {"rebalance": decision.facts} if decision.facts is not None else {}

    def _copies(self, pilots: list[Object]) -> Tree:
        """Set the copies of the index, if some are asked for."""
        database, asked = self.database, self._of_leader(pilots, "elasticsearch", "redundancy")
        if not asked:
            return {}
        # Of one view with the exclusion, as in the driver.
        staying = [
            one.name for one in pilots if "data" in roles_of(one) and one.name not in database.excluded
        ]
        nodes = DataNodes(sum(map(database.is_up, staying)), len(staying))
        decision = copies_decision(
            asked, {_INDEX: database.copies}, nodes, database.health, settled=database.settled
        )
        for act in decision.acts:
            database.set_copies(act.copies)
        return {"redundancy": decision.facts}

    def _of_leader(self, pilots: list[Object], *path: str) -> Tree:
        """A section of the spec of the leader's Pilot."""
        leader = next((one for one in pilots if one.name == self._leader), None)
        return dict(leader.at("spec", *path, default={})) if leader is not None else {}

    def _follow(self, pilots: list[Object], now: float) -> dict[str, int]:
        """The decommissioned nodes in the leader's view, which may lag behind and then catches up."""
        self._views.append({one.name: one.generation for one in pilots if one.spec.get("decommission")})
        if now >= self._lags_until:
            if self._rng.random() < _LOOKS_AWAY:
                self._lags_until = now + self._rng.uniform(*_LAG)
            for _ in range(min(len(self._views) - 1, _CATCHES_UP)):
                self._views.popleft()
        return self._views[0]

    def _is_challenged(self, now: float) -> bool:
        latest = max((one.started for one in self._instances.values()), default=0.0)
        return now - latest < _RESTLESS and self._rng.random() < _CHALLENGED

    def _has_pod(self, name: str) -> bool:
        return self._pods.cache.get(self._namespace, name) is not None

    async def _take_lease(self, leader: str, now: float) -> None:
        self._terms += 1
        spec = {
            "holderIdentity": f"{leader}_{self._terms}",
            "acquireTime": format_micro_time(now),
            "renewTime": format_micro_time(now),
            "leaseDurationSeconds": int(_LEASE),
            "leaseTransitions": self._terms,
        }
        await heartbeats.put_lease(self._api, leader_lease(self._cluster), self._namespace, spec)

    def _status(
        self, pilot: Object, instance: SimulatedInstance | None, pilots: list[Object], now: float
    ) -> Tree:
        database = self.database
        if instance is None or not instance.up or not database.formed:
            down = ("ElasticsearchStopped", "Elasticsearch is not running")
            return pilot_report(pilot, None, ready=down, phase="Stopped", now=now)
        held = database.held(pilot.name)
        section: Tree = {
            "version": database.members[pilot.name].version,
            "documents": 10 * len(held),
            "shards": len(held),
        }
        if pilot.name == self._leader:
            section["cluster"] = self._facts(pilot, pilots, now)
        is_empty = None
        if pilot.spec.get("decommission"):
            is_empty = not held and database.excluded.get(pilot.name) == pilot.generation
        elif pilot.condition("Decommissioned") is not None:
            is_empty = False
        reported = ReportedInstance(
            format_time(instance.started),
            instance.generation,
            instance.hash,
            section,
            is_empty,
            left=f"{len(held)} shards are left",
        )
        return pilot_report(pilot, reported, ready=("ElasticsearchStarted", ""), phase="Running", now=now)

    def _facts(self, pilot: Object, pilots: list[Object], now: float) -> Tree:
        """The leader's report."""
        database = self.database
        building = sum(shard.building is not None for shard in database.shards)
        started = {one.name: one.at("status", "lastStartedTime") for one in pilots}
        members = {name: started.get(name) for name in sorted(database.members) if database.is_up(name)}
        facts: Tree = {
            "health": database.health,
            "clusterUUID": "the-one",
            "nodes": len(members),
            "settled": database.settled,
            "members": {name: text for name, text in members.items() if text},
            "shards": {
                "active": sum(len(shard.copies) for shard in database.shards),
                "relocating": 0,
                "initializing": building,
                "unassigned": 0,
            },
            **self._extras,
        }
        return cluster_report(pilot, facts, acquired=format_time(self._acquired), now=now)

    def _is_ours(self, pilot: Object) -> bool:
        owner = pilot.controller
        return (
            owner is not None
            and owner["kind"] == ElasticsearchCluster.kind
            and owner["name"] == self._cluster
        )
