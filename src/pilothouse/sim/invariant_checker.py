"""Somebody who sees every write, in order, and says at once when something is that must never be.

    witness = InvariantChecker(server.store, promises, reign=reign, now=clock.now)
    await witness.run()                       # raises InvariantViolated

Besides the promises of controllers (see ``runtime.promising``) it knows one of the runtime: what a manager wrote was accepted
only while it held the lease.
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
"""Writes of one run, of which there are hundreds otherwise: so many are made by somebody who never stops."""

_DEEPEST = 10
"""Owners above an object; more of them are a ring."""


class InvariantViolated(AssertionError):
    """Something is that must never be."""


class StoreState:
    """All objects, at one revision."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._objects: dict[str, Object] = {}
        self._kinds: dict[KindName, dict[str, Object]] = {}
        self._uids: dict[str, Object] = {}
        self._ready: dict[str, dict[str, None]] = {}
        self._ready_pods: dict[str, frozenset[str]] = {}
        """Of those that were said to be ready since the last start, the uids of all that they are of; by key."""
        self._last_ready: dict[str, float] = {}
        """When the last of them ceased to be, by the uid of what they are of."""
        self.revision = 0

    def put(self, key: str, value: bytes | None, revision: int) -> tuple[Object | None, Object | None]:
        """Take in a write. Gives the object before and after."""
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

    def begin_anew(self) -> None:
        """Everything was started anew: whoever is ready is so once it has been said again."""
        self._ready_pods.clear()
        self._last_ready.clear()

    def _above(self, one: Object | None) -> Iterator[str]:
        """The uids of those who control an object, from the nearest on."""
        for _ in range(_DEEPEST):
            if one is None or one.controller is None:
                return
            uid = str(one.controller["uid"])
            yield uid
            one = self._uids.get(uid)

    def all(self, noun: KindName, namespace: str = "") -> list[Object]:
        """The objects of a kind."""
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
    """Who held the lease at which revision, and who wrote what."""

    def __init__(self, namespace: str, name: str) -> None:
        self._lease = (namespace, name)
        self._revisions: list[int] = []
        self._holders: list[str] = []
        self._waiting: list[ObservedWrite] = []

    def take(self, lease: Object) -> None:
        """The lease has changed."""
        if lease.key == self._lease:
            self._revisions.append(lease.revision)
            self._holders.append(str(lease.spec.get("holderIdentity") or ""))

    def wrote(self, written: ObservedWrite) -> None:
        """A manager's write was accepted; it is judged when the lease is known at its revision."""
        self._waiting.append(written)

    def judge(self, revision: int) -> str | None:
        """A sentence if one wrote while another reigned, up to this revision."""
        ripe = [one for one in self._waiting if one.revision <= revision]
        self._waiting = [one for one in self._waiting if one.revision > revision]
        for one in ripe:
            at = bisect_right(self._revisions, one.revision) - 1
            holder = self._holders[at] if at >= 0 else ""
            if holder != one.agent:
                return f"{one.method} {one.path} of {one.agent} was accepted while {holder or 'nobody'} led"
        return None


class InvariantChecker:
    """Follows a store, and judges."""

    def __init__(
        self,
        store: MemoryStore,
        promises: Sequence[Invariant],
        *,
        reign: LeaderHistory,
        now: Callable[[], float],
    ) -> None:
        self._store = store
        self._promises = promises
        self._reign = reign
        self.state = StoreState(now)
        self._served: int | None = None
        """The revision from which on everything is served anew."""
        self.writes = 0
        """How many there were, leases aside."""
        self.last: str = ""
        """What was written last, leases aside."""

    async def run(self) -> None:
        """Watch until cancelled. Raises ``InvariantViolated``."""
        async with self._store.watch("/", after=0) as batches:
            async for batch in batches:
                for change in batch.changes:
                    before, after = self.state.put(change.key, change.value, change.revision)
                    self._judge(before, after)
                if self._served is not None and self.state.revision >= self._served:
                    self._served = None
                    self._judge_all()
                if problem := self._reign.judge(self.state.revision):
                    raise InvariantViolated(f"only who leads writes: {problem}")

    def begin_anew(self) -> None:
        """Nothing runs, and everything is about to be started."""
        self.state.begin_anew()

    def served_from(self, revision: int) -> None:
        """The server that was started anew answers from here on."""
        self._served = revision

    def _judge_all(self) -> None:
        """What stands when a server begins to answer is what it says."""
        for one in list(self.state):
            self._hold(one, one)

    def _judge(self, before: Object | None, after: Object | None) -> None:
        changed = after or before
        if changed is None:
            return
        if changed.noun == Lease:
            if after is not None:
                self._reign.take(after)
        elif changed.noun != CoreEvent or after is not None:
            # The server itself forgets events when they are old.
            self.writes += 1
            self.last = f"{changed!r}"
            if self.writes > MOST:
                raise InvariantViolated(
                    f"there are more than {MOST} writes, and no end; the last was {self.last}"
                )
        self._hold(before, after)

    def _hold(self, before: Object | None, after: Object | None) -> None:
        changed = after or before
        for each in self._promises:
            if changed is None or (each.nouns and changed.noun not in each.nouns):
                continue
            problem = each.check(self.state, before, after)
            if problem:
                raise InvariantViolated(f"{each.name}: {problem}")
