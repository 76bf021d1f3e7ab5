"""Checks the invariants on every write, in the order of the store.

    checker = InvariantChecker(server.store, PROMISES["garbage"], leaders=leaders, now=loop.time)
    await checker.run()                       # raises InvariantViolated

Besides the invariants of controllers it checks one of the runtime: only the holder of the lease writes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from math import inf

import msgspec

from pilothouse.api.kind_names import CoreEvent, KindName, Lease, Pod, noun_of
from pilothouse.api.objects import Object
from pilothouse.api.pod_health import ready
from pilothouse.runtime.invariants import Invariant
from pilothouse.sim.simulated_server import ObservedWrite
from pilothouse.store.memory import MemoryStore

MOST = 20_000
"""The most writes of one run, which has hundreds otherwise: more mean an endless loop."""

_DEEPEST = 10
"""The longest chain of owners; more mean a cycle."""


class InvariantViolated(AssertionError):
    """An invariant does not hold."""


class StoreState:
    """All objects at one revision."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._objects: dict[str, Object] = {}
        self._kinds: dict[KindName, dict[str, Object]] = {}
        self._uids: dict[str, Object] = {}
        self._ready: dict[str, dict[str, None]] = {}
        self._ready_pods: dict[str, frozenset[str]] = {}
        """By key of a pod that was reported ready since the last restart: the uids of its owners."""
        self._last_ready: dict[str, float] = {}
        """By uid of an owner: when its last ready pod ceased to be ready."""
        self.revision = 0

    def put(self, key: str, value: bytes | None, revision: int) -> tuple[Object | None, Object | None]:
        """Apply a write. Returns the object before and after."""
        self.revision = revision
        before = self._objects.pop(key, None)
        for uid in self._ready_pods.pop(key, ()):
            self._last_ready[uid] = self._now()
        if before is not None:
            del self._kinds[before.noun][key]
            self._uids.pop(before.uid, None)
        if value is None:
            return before, None
        tree = msgspec.json.decode(value)
        if not isinstance(tree, dict) or "kind" not in tree:
            return before, None
        tree["metadata"]["resourceVersion"] = str(revision)
        after = Object(noun_of(tree["apiVersion"], tree["kind"]), tree)
        self._objects[key] = after
        self._kinds.setdefault(after.noun, {})[key] = after
        self._uids[after.uid] = after
        if (owner := after.controller) is not None and after.is_true("Ready"):
            self._ready.setdefault(owner["uid"], {})[after.name] = None
        if after.noun == Pod and ready(after):
            self._ready_pods[key] = frozenset(self._above(after))
        return before, after

    def reset_readiness(self) -> None:
        """Everything was restarted: a pod counts as ready once it is reported so again."""
        self._ready_pods.clear()
        self._last_ready.clear()

    def _above(self, one: Object | None) -> Iterator[str]:
        """The uids of the chain of controlling owners, nearest first."""
        for _ in range(_DEEPEST):
            if one is None or one.controller is None:
                return
            uid = str(one.controller["uid"])
            yield uid
            one = self._uids.get(uid)

    def all(self, noun: KindName, namespace: str = "") -> list[Object]:
        found = self._kinds.get(noun, {}).values()
        return [one for one in found if not namespace or one.namespace == namespace]

    def find(self, noun: KindName, namespace: str, name: str) -> Object | None:
        return next((one for one in self.all(noun, namespace) if one.name == name), None)

    def of(self, uid: str) -> Object | None:
        return self._uids.get(uid)

    def within(self, namespace: str) -> list[Object]:
        return [one for one in self if one.namespace == namespace]

    def once_ready(self, uid: str) -> Sequence[str]:
        return tuple(self._ready.get(uid, ()))

    def unready_for(self, uid: str) -> float:
        if any(uid in owners for owners in self._ready_pods.values()):
            return 0.0
        return self._now() - self._last_ready.get(uid, -inf)

    def __iter__(self) -> Iterator[Object]:
        return iter(self._objects.values())


class LeaderHistory:
    """The holder of the lease at each revision, and the managers' writes to check against it."""

    def __init__(self, namespace: str, name: str) -> None:
        self._lease = (namespace, name)
        self._revisions: list[int] = []
        self._holders: list[str] = []
        self._waiting: list[ObservedWrite] = []

    def take(self, lease: Object) -> None:
        if lease.key == self._lease:
            self._revisions.append(lease.revision)
            self._holders.append(str(lease.spec.get("holderIdentity") or ""))

    def wrote(self, written: ObservedWrite) -> None:
        """Note a manager's accepted write; it is checked when the lease at its revision is known."""
        self._waiting.append(written)

    def judge(self, revision: int) -> str | None:
        """A message if a manager wrote up to this revision while another led."""
        ripe = [one for one in self._waiting if one.revision <= revision]
        self._waiting = [one for one in self._waiting if one.revision > revision]
        for one in ripe:
            at = bisect_right(self._revisions, one.revision) - 1
            holder = self._holders[at] if at >= 0 else ""
            if holder != one.agent:
                return (
                    f"{one.method} {one.path} of {one.agent} was accepted while {holder or 'no manager'} led"
                )
        return None


class InvariantChecker:
    def __init__(
        self,
        store: MemoryStore,
        invariants: Sequence[Invariant],
        *,
        leaders: LeaderHistory,
        now: Callable[[], float],
    ) -> None:
        self._store = store
        self._invariants = invariants
        self._leaders = leaders
        self.state = StoreState(now)
        self.served_from: int | None = None
        """The revision at which the restarted server begins to answer."""
        self.writes = 0
        """The number of writes, except to leases."""
        self.last: str = ""
        """The last write, except to leases."""

    async def run(self) -> None:
        """Watch until cancelled. Raises ``InvariantViolated``."""
        async with self._store.watch("/", after=0) as batches:
            async for batch in batches:
                for change in batch.changes:
                    before, after = self.state.put(change.key, change.value, change.revision)
                    self._judge(before, after)
                if self.served_from is not None and self.state.revision >= self.served_from:
                    self.served_from = None
                    for one in list(self.state):
                        self._hold(one, one)
                if problem := self._leaders.judge(self.state.revision):
                    raise InvariantViolated(f"only who leads writes: {problem}")

    def _judge(self, before: Object | None, after: Object | None) -> None:
        changed = after or before
        if changed is None:
            return
        if changed.noun == Lease:
            if after is not None:
                self._leaders.take(after)
        elif changed.noun != CoreEvent or after is not None:
            # The server itself deletes old events.
            self.writes += 1
            self.last = f"{changed!r}"
            if self.writes > MOST:
                raise InvariantViolated(f"more than {MOST} writes and no end; the last was {self.last}")
        self._hold(before, after)

    def _hold(self, before: Object | None, after: Object | None) -> None:
        changed = after or before
        for each in self._invariants:
            if changed is None or (each.nouns and changed.noun not in each.nouns):
                continue
            problem = each.check(self.state, before, after)
            if problem:
                raise InvariantViolated(f"{each.name}: {problem}")
