"""Changes to many watchers at once.

Watchers with the same view form a ``Group``. What happens within about two milliseconds is written once per group, as
one chunk, and handed to each member's sink in one go: there is no task and no queue per watcher, and a thousand
watchers of one change cost a thousand writes of the same bytes. Groups are found by scope (a collection, a namespace, a
single key), so that a change looks only at those it may concern.

A watcher is *synced*, or it is *behind*. A synced one takes each chunk as it comes. One that has not drained its sink,
or still has its beginning to send, is behind: it is passed over, and served from the collection's history at its own
pace until it has caught up, which is the moment it joins its group again. If history no longer reaches back to where
it is, it is told so (410) and ended. Nothing is ever left out silently, and nobody waits for the slow.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator

from pilothouse.aio.ticking import Tick
from pilothouse.apiserver.cache import Cache
from pilothouse.apiserver.catalog import ROOT
from pilothouse.apiserver.collection import Collection, Event
from pilothouse.apiserver.exchange import Chunk, Sink
from pilothouse.apiserver.items import Item
from pilothouse.apiserver.watch_events import Lines, error_line
from pilothouse.meta import errors
from pilothouse.meta.errors import StatusError

TICK = 0.002
HIGH_MARK = 256 * 1024
"""Bytes not taken yet, above which a watcher falls behind."""
LOW_MARK = 64 * 1024
_SLICE = 64 * 1024
_EVENTS = 256
_LOOK_AGAIN, _LOOK_LATER = 0.005, 0.1
BOOKMARK_EVERY = 60.0
BOOKMARK_BEFORE_END = 2.0
_EARLY = 0.005

log = logging.getLogger(__name__)


class Group:
    """The synced watchers of one view."""

    __slots__ = ("collection", "identity", "lines", "members", "pending")

    def __init__(self, identity: Hashable, collection: Collection, lines: Lines) -> None:
        self.identity = identity
        self.collection = collection
        self.lines = lines
        self.members: dict[Watcher, None] = {}
        """In the order they came, synced or not."""
        self.pending: list[Event] = []


class Watcher:
    """One open watch."""

    __slots__ = (
        "announce",
        "backlog",
        "begun",
        "bookmarks",
        "deadline",
        "done",
        "fresh",
        "group",
        "last_mark",
        "position",
        "sink",
        "synced",
        "timer",
    )

    def __init__(
        self, group: Group, sink: Sink, *, position: int, bookmarks: bool, opened: float, deadline: float
    ) -> None:
        self.group = group
        self.sink = sink
        self.position = position
        """Up to here it has been sent everything; meaningless while synced."""
        self.bookmarks = bookmarks
        self.deadline = deadline
        self.last_mark = deadline - min(BOOKMARK_BEFORE_END, (deadline - opened) / 2)
        """When the last bookmark is due, from which the client will go on after the end."""
        self.backlog: Iterator[Item] | None = None
        """What is left of the initial state."""
        self.begun: asyncio.Future[None] | None = None
        """Done when nothing is left of it."""
        self.announce = False
        self.synced = False
        self.fresh = group.lines.tabular
        """Has yet to be told the columns."""
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.timer: asyncio.TimerHandle | None = None

    def send(self, lines: bytes) -> None:
        self.sink.write(Chunk.of(lines))

    def end(self, problem: StatusError | None = None) -> None:
        """End the stream, saying why if there is a reason."""
        if not self.done.done():
            if problem is not None:
                self.send(error_line(problem))
            self.done.set_result(None)


class Fanout:
    """All watchers of the server."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._groups: dict[Hashable, Group] = {}
        self._scopes: dict[str, list[Group]] = {}
        self._busy: dict[Group, None] = {}
        self._behind: dict[Watcher, None] = {}
        self._early: dict[Watcher, None] = {}
        self._tick = Tick(self.flush, TICK)
        self._look: asyncio.TimerHandle | None = None
        self._pause = _LOOK_AGAIN
        self._closing = False
        self.sent: Counter[tuple[str, str, str]] = Counter()
        """Events handed over, by group, version and kind."""
        cache.listen(self)

    def __len__(self) -> int:
        return sum(len(group.members) for group in self._groups.values())

    def open(self) -> Counter[tuple[str, str, str]]:
        """How many watches are open, by group, version and plural of what they watch."""
        found: Counter[tuple[str, str, str]] = Counter()
        for group in self._groups.values():
            kind = group.lines.selection.served.kind
            found[kind.group, kind.version, kind.plural] += len(group.members)
        return found

    @property
    def behind(self) -> int:
        """How many of them have yet to be sent what is known."""
        return len(self._behind)

    def check_open(self) -> None:
        """429 while the server goes down: another one will do."""
        if self._closing:
            raise errors.too_many_requests("the server is shutting down", retry_after=1)

    def group(self, identity: Hashable, collection: Collection, lines: Lines) -> Group:
        """The group of a view, made if this is its first watcher."""
        found = self._groups.get(identity)
        if found is None:
            found = self._groups[identity] = Group(identity, collection, lines)
            self._scopes.setdefault(lines.selection.scope, []).append(found)
        return found

    async def serve(self, watcher: Watcher) -> None:
        """Keep a watcher supplied until it ends."""
        if self._closing:
            # Asked for before all were ended, and begun after: nobody would ever end it.
            return
        watcher.group.members[watcher] = None
        try:
            self._schedule(watcher)
            if watcher.position > self._cache.revision:
                self._early[watcher] = None
            else:
                self._catch_up(watcher)
            await watcher.done
        finally:
            self._forget(watcher)

    # What the cache tells

    def happened(self, collection: Collection, event: Event) -> None:
        scopes = self._scopes
        if not scopes:
            return
        key = event.key
        base = len(ROOT) + len(collection.path) + 1
        self._add(scopes.get(key[:base]), event)
        slash = key.find("/", base)
        if slash > 0:
            self._add(scopes.get(key[: slash + 1]), event)
        self._add(scopes.get(key), event)

    def _add(self, groups: list[Group] | None, event: Event) -> None:
        if groups:
            for group in groups:
                group.pending.append(event)
                self._busy[group] = None

    def advanced(self) -> None:
        if self._busy:
            self._tick.poke()
        if self._early:
            revision = self._cache.revision
            for watcher in [each for each in self._early if each.position <= revision]:
                del self._early[watcher]
                self._catch_up(watcher)

    def broken(self) -> None:
        """The cache lost track: nobody can be told what happened meanwhile."""
        for group in self._busy:
            group.pending.clear()
        self._busy.clear()
        revision = self._cache.revision
        for watcher in self._all():
            watcher.end(errors.expired(f"too old resource version: {watcher.position} ({revision})"))

    # Sending

    def flush(self) -> None:
        """Send what has happened."""
        busy, self._busy = self._busy, {}
        for group in busy:
            events, group.pending = group.pending, []
            try:
                self._send(group, events)
            except StatusError as problem:
                for watcher in list(group.members):
                    watcher.end(problem)
            except Exception:
                # A conversion that fails must not silence the other views.
                log.exception("a change of %s can't be shown", group.collection.path)
                for watcher in list(group.members):
                    watcher.end(errors.internal(f"an object of {group.collection.path} can't be shown"))

    def _send(self, group: Group, events: list[Event]) -> None:
        lines = group.lines
        chunk: Chunk | None = None
        written = False
        shown = told = 0
        for watcher in group.members:
            if not watcher.synced:
                continue
            if watcher.sink.buffered() > HIGH_MARK:
                self._fall_behind(watcher, events[0].revision - 1)
                continue
            if not written:
                parts = [part for part in map(lines.of, events) if part]
                chunk = Chunk.of(b"".join(parts)) if parts else None
                shown = len(parts)
                written = True
            if chunk is None:
                continue
            if watcher.fresh:
                self._tell(watcher, events)
            else:
                watcher.sink.write(chunk)
                told += 1
        if told:
            self._count(group, told * shown)

    def _tell(self, watcher: Watcher, events: Iterable[Event]) -> None:
        """Send changes to one watcher alone; the first one it gets as a table carries the columns."""
        parts = []
        for event in events:
            part = watcher.group.lines.of(event, columns=watcher.fresh)
            watcher.fresh = watcher.fresh and not part
            if part:
                parts.append(part)
        if parts:
            watcher.send(b"".join(parts))
            self._count(watcher.group, len(parts))

    def _count(self, group: Group, events: int) -> None:
        kind = group.lines.selection.served.kind
        self.sent[kind.group, kind.version, kind.name] += events

    # Those who are behind

    def _fall_behind(self, watcher: Watcher, position: int) -> None:
        watcher.synced = False
        watcher.position = position
        self._behind[watcher] = None
        self._look_soon(_LOOK_LATER)

    def _catch_up(self, watcher: Watcher) -> None:
        """Send to one that is behind as much as it takes; it is synced when nothing is left."""
        # What is in the tick must go out first, or a watcher that joins now would get it twice.
        self.flush()
        try:
            synced = self._advance(watcher)
        except StatusError as problem:
            watcher.end(problem)
            return
        except Exception:
            log.exception("an object of %s can't be shown", watcher.group.collection.path)
            watcher.end(errors.internal(f"an object of {watcher.group.collection.path} can't be shown"))
            return
        if watcher.done.done():
            return
        watcher.synced = synced
        if not synced:
            self._behind[watcher] = None
            self._look_soon(_LOOK_AGAIN)

    def _advance(self, watcher: Watcher) -> bool:
        group = watcher.group
        sink, selection, history = watcher.sink, group.lines.selection, group.collection.history
        while sink.buffered() <= LOW_MARK:
            if watcher.backlog is not None:
                self._send_backlog(watcher, watcher.backlog)
                continue
            events = history.after(watcher.position, _EVENTS)
            if events is None:
                current = self._cache.revision
                watcher.end(errors.expired(f"too old resource version: {watcher.position} ({current})"))
                return False
            if not events:
                return True
            self._tell(watcher, filter(selection.covers, events))
            watcher.position = events[-1].revision
        return False

    def _send_backlog(self, watcher: Watcher, backlog: Iterator[Item]) -> None:
        lines = watcher.group.lines
        parts: list[bytes] = []
        size = 0
        for item in backlog:
            part = lines.added(item, columns=watcher.fresh)
            watcher.fresh = False
            parts.append(part)
            size += len(part)
            if size >= _SLICE:
                break
        else:
            watcher.backlog = None
            if watcher.begun is not None and not watcher.begun.done():
                watcher.begun.set_result(None)
            if watcher.announce:
                parts.append(lines.bookmark(watcher.position, initial_end=True))
        if parts:
            watcher.send(b"".join(parts))
            self._count(watcher.group, len(parts))

    def _look_soon(self, pause: float) -> None:
        if self._look is None:
            self._pause = pause
            self._look = asyncio.get_running_loop().call_later(pause, self._look_after)

    def _look_after(self) -> None:
        """See who of those behind can take more."""
        self._look = None
        moved = False
        for watcher in list(self._behind):
            if watcher.sink.buffered() <= LOW_MARK:
                moved = True
                del self._behind[watcher]
                self._catch_up(watcher)
        if self._behind:
            self._look_soon(_LOOK_AGAIN if moved else min(self._pause * 2, _LOOK_LATER))

    # Time

    def _schedule(self, watcher: Watcher) -> None:
        now = asyncio.get_running_loop().time()
        due = watcher.deadline
        if watcher.bookmarks:
            due = min(now + BOOKMARK_EVERY, watcher.last_mark if watcher.last_mark > now else due)
        watcher.timer = asyncio.get_running_loop().call_at(due, self._wake, watcher)

    def _wake(self, watcher: Watcher) -> None:
        self.flush()
        # Timers may come a little early.
        if asyncio.get_running_loop().time() >= watcher.deadline - _EARLY:
            watcher.end()
            return
        # One that is behind has not seen all that the mark would promise.
        if watcher.bookmarks and watcher.synced:
            watcher.send(watcher.group.lines.bookmark(self._cache.revision))
        self._schedule(watcher)

    # Going away

    def end(self, path: str) -> None:
        """End the watches of a resource: it is gone, or looks different from now on. Clients come again."""
        self.flush()
        for watcher in self._all():
            if watcher.group.collection.path == path:
                watcher.end()

    def end_all(self) -> None:
        """End every watch cleanly and take no more: the server goes down.

        A client that takes bookmarks is told how far it has come, so that it goes on from there at another server.
        """
        self._closing = True
        self.flush()
        for watcher in self._all():
            if watcher.bookmarks and watcher.synced and not watcher.done.done():
                watcher.send(watcher.group.lines.bookmark(self._cache.revision))
            watcher.end()

    def _all(self) -> list[Watcher]:
        return [watcher for group in self._groups.values() for watcher in group.members]

    def _forget(self, watcher: Watcher) -> None:
        if watcher.timer is not None:
            watcher.timer.cancel()
        self._behind.pop(watcher, None)
        self._early.pop(watcher, None)
        group = watcher.group
        group.members.pop(watcher, None)
        if not group.members and self._groups.get(group.identity) is group:
            del self._groups[group.identity]
            scope = group.lines.selection.scope
            self._scopes[scope].remove(group)
            if not self._scopes[scope]:
                del self._scopes[scope]
