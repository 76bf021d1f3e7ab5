"""Somebody who sees every write, in order, and says at once when something is that must never be.

    witness = Witness(server.store, PROMISES["garbage"])
    await witness.run()                       # raises Violated

Besides the promises of controllers (see ``runtime.promising``) it knows one of the runtime: what a manager wrote was accepted
only while it held the lease.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

import msgspec

from pilothouse.api.nouns import CoreEvent, Lease, Noun, noun_of
from pilothouse.api.objects import Object
from pilothouse.runtime.promising import Promise
from pilothouse.sim.server import Written
from pilothouse.store.memory import MemoryStore

MOST = 20_000
"""Writes of one run, of which there are hundreds otherwise: so many are made by somebody who never stops."""


class Violated(AssertionError):
    """Something is that must never be."""


class State:
    """All objects, at one revision."""

    def __init__(self) -> None:
        self._objects: dict[str, Object] = {}
        self._kinds: dict[Noun, dict[str, Object]] = {}
        self._uids: dict[str, Object] = {}
        self._ready: dict[str, dict[str, None]] = {}
        self.revision = 0

    def put(self, key: str, value: bytes | None, revision: int) -> tuple[Object | None, Object | None]:
        """Take in a write. Gives the object before and after."""
        self.revision = revision
        before = self._objects.pop(key, None)
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
        return before, after

    def all(self, noun: Noun, namespace: str = "") -> list[Object]:
        """The objects of a kind."""
        found = self._kinds.get(noun, {}).values()
        return [one for one in found if not namespace or one.namespace == namespace]

    def find(self, noun: Noun, namespace: str, name: str) -> Object | None:
        return next((one for one in self.all(noun, namespace) if one.name == name), None)

    def of(self, uid: str) -> Object | None:
        return self._uids.get(uid)

    def within(self, namespace: str) -> list[Object]:
        return [one for one in self if one.namespace == namespace]

    def once_ready(self, uid: str) -> Sequence[str]:
        return tuple(self._ready.get(uid, ()))

    def __iter__(self) -> Iterator[Object]:
        return iter(self._objects.values())


class Reign:
    """Who held the lease at which revision, and who wrote what."""

    def __init__(self, namespace: str, name: str) -> None:
        self._lease = (namespace, name)
        self._revisions: list[int] = []
        self._holders: list[str] = []
        self._waiting: list[Written] = []

    def take(self, lease: Object) -> None:
        """The lease has changed."""
        if lease.key == self._lease:
            self._revisions.append(lease.revision)
            self._holders.append(str(lease.spec.get("holderIdentity") or ""))

    def wrote(self, written: Written) -> None:
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


class Witness:
    """Follows a store, and judges."""

    def __init__(self, store: MemoryStore, promises: Sequence[Promise], *, reign: Reign) -> None:
        self._store = store
        self._promises = promises
        self._reign = reign
        self.state = State()
        self.writes = 0
        """How many there were, leases aside."""
        self.last: str = ""
        """What was written last, leases aside."""

    async def run(self) -> None:
        """Watch until cancelled. Raises ``Violated``."""
        async with self._store.watch("/", after=0) as batches:
            async for batch in batches:
                for change in batch.changes:
                    before, after = self.state.put(change.key, change.value, change.revision)
                    self._judge(before, after)
                if problem := self._reign.judge(self.state.revision):
                    raise Violated(f"only who leads writes: {problem}")

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
                raise Violated(f"there are more than {MOST} writes, and no end; the last was {self.last}")
        for each in self._promises:
            if each.nouns and changed.noun not in each.nouns:
                continue
            problem = each.check(self.state, before, after)
            if problem:
                raise Violated(f"{each.name}: {problem}")
