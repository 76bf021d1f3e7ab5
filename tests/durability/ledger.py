"""What must be true after a crash, kept while the load runs. No I/O.

    ledger = Ledger()
    write = ledger.attempt("a", "v7")               # about to be sent
    ledger.acknowledge(write, revision=31)          # the server said yes …
    ledger.settle(write, found=Found(31, "v7"))     # … or was killed, and this is what its successor has
    ledger.check(history)                           # a watcher saw exactly that, in order, each once

Each key has one writer, which settles a write before it makes the next. So what happened to a key is a known sequence,
with nothing in doubt, and a watcher's account of it can be held against it word by word: a missing event is a gap, one
too many a repeat or a write that nobody made. Values are never used twice.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

ADDED, MODIFIED, DELETED = "ADDED", "MODIFIED", "DELETED"


@dataclass(frozen=True)
class Found:
    """What a server has under a key."""

    revision: int
    value: str


@dataclass(frozen=True)
class Write:
    """One write of one key; no value means that the key goes."""

    key: str
    value: str | None
    before: Found | None
    started: int  # how many crashes there had been when it was sent


@dataclass(frozen=True)
class Seen:
    """An event as a watcher got it."""

    type: str
    key: str
    revision: int
    value: str


@dataclass(frozen=True)
class Landed:
    """A write that is there to stay. Kubernetes does not say at which revision an object went."""

    type: str
    value: str
    revision: int | None


@dataclass
class History:
    """A watcher's account, and what it holds the present to be."""

    name: str
    revision: int
    events: list[Seen] = field(default_factory=list)
    now: dict[str, Found] = field(default_factory=dict)
    opened: int = 0
    relisted: int = 0

    def add(self, event: Seen) -> None:
        assert event.revision != self.revision, f"{self.name} was given {event} twice"
        self._advance(event.revision)
        self.events.append(event)
        if event.type == DELETED:
            self.now.pop(event.key)
        else:
            self.now[event.key] = Found(event.revision, event.value)

    def bookmark(self, revision: int) -> None:
        self._advance(revision)

    def relist(self, revision: int, now: dict[str, Found]) -> None:
        """The server had forgotten what came after our revision; this is its present."""
        self._advance(revision)
        self.now = now
        self.relisted += 1

    def _advance(self, revision: int) -> None:
        assert revision >= self.revision, f"{self.name} went from revision {self.revision} back to {revision}"
        self.revision = revision


class Ledger:
    def __init__(self) -> None:
        self.now: dict[str, Found] = {}
        self.landed: defaultdict[str, list[Landed]] = defaultdict(list)
        self.acknowledged = 0
        self.rescued = 0  # writes whose answer was lost, but which had been made
        self._users: dict[int, Write] = {}
        self._floors = [0]
        self._highest = 0

    def crash(self) -> None:
        """A server was killed, and its successor not yet started."""
        self._floors.append(self._highest)

    @property
    def crashes(self) -> int:
        return len(self._floors) - 1

    def witness(self, revision: int) -> None:
        """Somebody was told of this revision."""
        self._highest = max(self._highest, revision)

    def attempt(self, key: str, value: str | None) -> Write:
        return Write(key, value, self.now.get(key), self.crashes)

    def acknowledge(self, write: Write, revision: int | None) -> None:
        self.acknowledged += 1
        self._land(write, revision)

    def settle(self, write: Write, found: Found | None) -> None:
        """The answer to a write was lost: it was made, or it was not, and nothing else."""
        if found == write.before:
            return
        wanted = write.value
        assert (found.value if found else None) == wanted, (
            f"{write.key} held {write.before} and was to hold {wanted!r} when the server was killed; now it holds {found}"
        )
        self.rescued += 1
        self._land(write, found.revision if found else None)

    def _land(self, write: Write, revision: int | None) -> None:
        if revision is not None:
            floor = self._floors[write.started]
            assert revision > floor, (
                f"{write} got revision {revision}, but {floor} was known before the crash"
            )
            assert revision not in self._users, (
                f"{write} and {self._users[revision]} share revision {revision}"
            )
            self._users[revision] = write
            self.witness(revision)
        if write.value is None:
            gone = self.now.pop(write.key)
            self.landed[write.key].append(Landed(DELETED, gone.value, None))
        else:
            assert revision is not None, f"{write} has no revision"
            kind = MODIFIED if write.before else ADDED
            self.now[write.key] = Found(revision, write.value)
            self.landed[write.key].append(Landed(kind, write.value, revision))

    def check(self, history: History) -> None:
        """A watcher from the first write on has seen what happened and nothing else, and holds what is there.

        One that had to list again has missed what lay before that, but what it saw did happen, in that order.
        """
        assert history.now == self.now, f"{history.name} holds {history.now}, the truth is {self.now}"
        seen: defaultdict[str, list[Landed]] = defaultdict(list)
        for event in history.events:
            revision = None if event.type == DELETED else event.revision
            seen[event.key].append(Landed(event.type, event.value, revision))
        for key in sorted(self.landed.keys() | seen.keys()):
            expected, got = self.landed[key], seen[key]
            if history.relisted:
                rest = iter(expected)
                assert all(event in rest for event in got), f"{history.name} of {key}: {got} in {expected}"
                continue
            assert got == expected, f"{history.name} of {key}: {_first_difference(expected, got)}"


def _first_difference(expected: list[Landed], got: list[Landed]) -> str:
    for place, (one, other) in enumerate(zip(expected, got, strict=False)):
        if one != other:
            return f"event {place} should be {one}, is {other}"
    return f"{len(expected)} events should be there, {len(got)} are"
