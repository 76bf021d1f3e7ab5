"""The state machine of a reliable watch; ``watcher`` does its I/O.

    watch = WatchMachine(Pod, Random(7), Trees())
    watch.next()                       # StartWatch(initial=True, …): present objects, then changes
    watch.took(lines)                  # [Restarted([...])], later [Applied(pod), Deleted(pod), Marked(90)]
    watch.ended()                      # the stream is over
    watch.next()                       # StartWatch(revision=90, …): where it left off

States:

* ``StreamingState``: one watch sends the objects, a bookmark, then changes; cheapest for the server. If the
  server does not support it, lists are used from then on.
* ``ListingState``: the objects come in pages. On a 410 the list is restarted.
* ``WatchingState``: changes after a revision. Whatever ends a watch, the next resumes there; after a 410, or
  a refusal, everything is read again.
* ``WaitingState``: after a failure. Pauses double, with jitter. A watch that delivers something resets them;
  so does one that was open for a second, since idle collections send nothing for long.

Events: ``Restarted`` has all objects of one moment; it comes first and after each gap. ``Applied`` and
``Deleted`` come in order of revision; older ones are dropped. ``Marked``: nothing changed up to this
revision. Reads are always current, so events never go back in time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from random import Random

import msgspec

from pilothouse.api.kind_names import KindName
from pilothouse.api.objects import Object, Trees
from pilothouse.client.watch_lines import BadLine, Bookmark, WatchEvent, decode
from pilothouse.meta.errors import StatusError

FIRST_PAUSE, LONGEST_PAUSE = 0.8, 30.0
STEADY = 1.0
"""Seconds after which a stream has shown that the server works; in client-go, too."""
SHORTEST, LONGEST = 300, 600
"""Requested seconds of a watch; random, so that clients don't reconnect all at once."""
SILENCE = 150.0
"""Seconds without a line after which a watch counts as dead. Servers send a bookmark about every minute."""
PAGE = 500
_PASSING = frozenset({429, 500, 502, 503, 504})
"""Refusals that say nothing about the place where a watch stopped."""


@dataclass(frozen=True, slots=True)
class StreamingState:
    """Waiting for the bookmark that ends the initial objects."""


@dataclass(frozen=True, slots=True)
class ListingState:
    """The page at ``token`` is next."""

    token: str = ""


class WatchingState(msgspec.Struct, frozen=True):
    """Following changes after ``revision``."""

    revision: int


@dataclass(frozen=True, slots=True)
class WaitingState:
    """For so many seconds, then continue with ``then``."""

    seconds: float
    then: StreamingState | ListingState | WatchingState


State = StreamingState | ListingState | WatchingState | WaitingState


@dataclass(frozen=True, slots=True)
class ReadPage:
    """Request a page of the list; call ``WatchMachine.page``."""

    token: str
    limit: int = PAGE

    def query(self) -> dict[str, str]:
        return {"limit": str(self.limit), "continue": self.token}


@dataclass(frozen=True, slots=True)
class StartWatch:
    """Open a watch; call ``WatchMachine.took`` while it ``is_open``, then ``ended``, or ``silent`` after so
    many seconds without a line."""

    seconds: int
    revision: int = 0
    initial: bool = False
    silence: float = SILENCE

    def query(self) -> dict[str, str]:
        query = {"allowWatchBookmarks": "true", "timeoutSeconds": str(self.seconds)}
        if self.initial:
            return {**query, "sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        return {**query, "resourceVersion": str(self.revision)}


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait; call ``WatchMachine.rested``."""

    seconds: float


class Restarted(msgspec.Struct, frozen=True):
    """All objects there are."""

    objects: list[Object]
    revision: int


class Applied(msgspec.Struct, frozen=True):
    """An object appeared or changed."""

    object: Object


class Deleted(msgspec.Struct, frozen=True):
    """An object was removed, or left the view; as it last was, with the revision of its end."""

    object: Object


class Marked(msgspec.Struct, frozen=True):
    """Nothing else has changed up to this revision."""

    revision: int


Change = Restarted | Applied | Deleted | Marked


class WatchMachine:
    def __init__(self, noun: KindName, rng: Random, trees: Trees, *, streaming: bool = True) -> None:
        """Without ``streaming`` the objects are always listed."""
        self._noun = noun
        self._rng = rng
        self._trees = trees
        self._begin: StreamingState | ListingState = StreamingState() if streaming else ListingState()
        self._gathering: dict[tuple[str, str], Object] = {}
        self._failures = 0
        self._heard = False
        self.is_open = False
        """A stream is being read, and what it says counts."""
        self.beginnings = 0
        """How often it was restarted, or resumed after a failure. A watch that reached its time limit is
        resumed at once."""
        self.problem = ""
        """What went wrong, until something good has come since."""
        self.state: State = self._begin

    def next(self) -> ReadPage | StartWatch | Pause:
        self._heard = False
        self.is_open = isinstance(self.state, StreamingState | WatchingState)
        match self.state:
            case StreamingState():
                self.beginnings += 1
                self._gathering = {}
                return StartWatch(self._duration(), initial=True)
            case ListingState(token):
                if not token:
                    self.beginnings += 1
                    self._gathering = {}
                return ReadPage(token)
            case WatchingState(revision):
                return StartWatch(self._duration(), revision)
            case WaitingState(seconds):
                return Pause(seconds)

    def page(self, objects: Iterable[Object], revision: int, token: str) -> list[Change]:
        for each in objects:
            self._gathering[each.key] = each
        if token:
            self.state = ListingState(token)
            return []
        return [self._complete(revision)]

    def opened(self) -> None:
        """The response has started. On an idle collection nothing more arrives for long."""
        if isinstance(self.state, WatchingState):
            self.problem = ""

    def took(self, lines: Iterable[bytes]) -> list[Change]:
        changes: list[Change] = []
        try:
            for line in decode(lines, self._noun, self._trees):
                if isinstance(line, StatusError):
                    self.refused(line)
                else:
                    self._take(line, changes)
                if not self.is_open:
                    break
        except BadLine as problem:
            self._fail(self._begin, str(problem))
        return changes

    def lasted(self, seconds: float) -> None:
        """How long the stream was open that is about to be reported as ended or broken."""
        if isinstance(self.state, WatchingState) and seconds >= STEADY:
            self._failures = 0

    def ended(self) -> None:
        if isinstance(self.state, WatchingState) and self._heard:
            self.is_open = False  # It has lasted as long as it should.
        else:
            self._fail(self._resumed(), "a watch ended before it had said anything")

    def silent(self) -> None:
        """Nothing has arrived for so long that the stream must be dead."""
        if isinstance(self.state, StreamingState):
            self._begin = ListingState()
        self._fail(self._resumed(), "a watch has been silent for too long")

    def broke(self, why: str) -> None:
        """No response, or a stream that was cut off."""
        self._fail(self._resumed(), why)

    def refused(self, refusal: StatusError) -> None:
        """The server returned an error, as a response or within a stream."""
        match self.state:
            case StreamingState() if refusal.code in (400, 422):
                self._list_instead()
            case WatchingState() | ListingState() if refusal.code == 410 and not self._failures:
                # Once is the price of having been away for long. Again and again is a fault.
                self._failures = 1
                self._go_on(self._begin)
            case WatchingState() as resumed if refusal.code in _PASSING:
                self._fail(resumed, refusal.message, at_least=float(refusal.retry_after))
            case _:
                self._fail(self._begin, refusal.message, at_least=float(refusal.retry_after))

    def restart(self) -> None:
        """Read everything again, even if the watch is alive."""
        self._go_on(self._begin)

    def rested(self) -> None:
        if isinstance(self.state, WaitingState):
            self.beginnings += 1
            self.state = self.state.then

    def _take(self, line: WatchEvent | Bookmark, changes: list[Change]) -> None:
        match self.state, line:
            case StreamingState(), Bookmark(revision, complete=True):
                changes.append(self._complete(revision))
                self._heard = True
            case StreamingState(), Bookmark():
                self._list_instead()
            case StreamingState(), WatchEvent(found, gone=True):
                self._gathering.pop(found.key, None)
            case StreamingState(), WatchEvent(found):
                self._gathering[found.key] = found
            case WatchingState(position), _:
                self._heard = True
                self._failures = 0
                self.problem = ""
                revision = line.revision if isinstance(line, Bookmark) else line.object.revision
                if revision < position:
                    return
                self.state = WatchingState(revision)
                if isinstance(line, Bookmark):
                    changes.append(Marked(revision))
                else:
                    changes.append(Deleted(line.object) if line.gone else Applied(line.object))

    def _complete(self, revision: int) -> Restarted:
        objects = list(self._gathering.values())
        self._gathering = {}
        self.problem = ""
        self.state = WatchingState(revision)
        return Restarted(objects, revision)

    def _resumed(self) -> StreamingState | ListingState | WatchingState:
        """The state after a failure that does not affect what is known."""
        return self.state if isinstance(self.state, WatchingState) else self._begin

    def _list_instead(self) -> None:
        self._begin = ListingState()
        self._go_on(self._begin)

    def _go_on(self, state: State) -> None:
        self.state = state
        self.is_open = False

    def _fail(
        self, then: StreamingState | ListingState | WatchingState, why: str, *, at_least: float = 0.0
    ) -> None:
        longest: float = min(FIRST_PAUSE * 2 ** min(self._failures, 16), LONGEST_PAUSE)
        self._failures += 1
        self.problem = why
        self._go_on(WaitingState(max(longest * self._rng.uniform(0.5, 1.0), at_least), then))

    def _duration(self) -> int:
        return self._rng.randint(SHORTEST, LONGEST)
