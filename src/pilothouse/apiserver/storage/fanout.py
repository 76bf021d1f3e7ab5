"""Sends changes to many watchers.

Watchers with the same view form a ``WatcherGroup``. Changes within about two milliseconds are encoded once
per group and written to each member's sink: no task and no queue per watcher. Groups are found by scope
(collection, namespace, key).

A watcher is *synced* or *behind*. One that has not drained its sink, or has its initial objects to send, is
behind: it is served from the collection's history at its own pace until it has caught up. If history no
longer reaches back, it ends with a 410.

Writing takes the event loop's time, so the bytes per turn are limited: watchers beyond the limit fall behind,
and changes of more than ``LARGE`` bytes are sent in slices, without a copy per watcher.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence

from pilothouse.aio.debounce import Debouncer
from pilothouse.apiserver.discovery.catalog import ROOT
from pilothouse.apiserver.server.messages import StreamChunk
from pilothouse.apiserver.storage.collection import CacheEvent, Collection
from pilothouse.apiserver.storage.items import Item
from pilothouse.apiserver.storage.open_watch import OpenWatch, WatcherGroup
from pilothouse.apiserver.storage.watch_cache import WatchCache
from pilothouse.apiserver.storage.watch_events import Lines, Part
from pilothouse.meta import errors
from pilothouse.meta.errors import StatusError

TICK = 0.002
HIGH_MARK = 256 * 1024
"""Bytes not taken yet, above which a watcher falls behind."""
LOW_MARK = 64 * 1024
LARGE = 1024 * 1024
"""Bytes of changes that are not written to a watcher in one go."""
AT_ONCE = 4 * 1024 * 1024
"""Bytes that are written to synced watchers in one turn of the loop."""
AT_A_LOOK = 1024 * 1024
"""Bytes written to watchers that are behind, per turn of the loop."""
_SLICE = 64 * 1024
_EVENTS = 256
_LOOK_AGAIN, _LOOK_LATER = 0.005, 0.1
BOOKMARK_EVERY = 60.0
_EARLY = 0.005
_REST_SECONDS = 1.0

log = logging.getLogger(__name__)


class WatchFanout:
    def __init__(self, cache: WatchCache) -> None:
        self._cache = cache
        self._groups: dict[Hashable, WatcherGroup] = {}
        self._scopes: dict[str, list[WatcherGroup]] = {}
        self._busy: dict[WatcherGroup, None] = {}
        self._behind: dict[OpenWatch, None] = {}
        self._early: dict[OpenWatch, None] = {}
        self._tick = Debouncer(self.flush, TICK)
        self._look: asyncio.TimerHandle | None = None
        self._pause = _LOOK_AGAIN
        self._closing = False
        self._spent = 0
        """Bytes written in this turn of the loop."""
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
        return len(self._behind)

    def check_open(self) -> None:
        """429 while the server shuts down."""
        if self._closing:
            raise errors.too_many_requests("the server is shutting down", retry_after=1)

    def group(self, identity: Hashable, collection: Collection, lines: Lines) -> WatcherGroup:
        """The group of a view, made if this is its first watcher."""
        found = self._groups.get(identity)
        if found is None:
            found = self._groups[identity] = WatcherGroup(identity, collection, lines)
            self._scopes.setdefault(lines.selection.scope, []).append(found)
        return found

    async def serve(self, watcher: OpenWatch) -> None:
        """Serve a watcher until it ends."""
        if self._closing:
            # It was opened before ``end_all``, which would have ended it.
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

    # Notifications of the cache

    def happened(self, collection: Collection, event: CacheEvent) -> None:
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

    def _add(self, groups: list[WatcherGroup] | None, event: CacheEvent) -> None:
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
        """The cache has listed again, so changes may have been missed."""
        for group in self._busy:
            group.pending.clear()
        self._busy.clear()
        revision = self._cache.revision
        for watcher in self._all():
            watcher.end(errors.expired(f"too old resource version: {watcher.position} ({revision})"))

    # Sending

    def flush(self) -> None:
        """Send pending changes."""
        busy, self._busy = self._busy, {}
        for group in busy:
            events, group.pending = group.pending, []
            try:
                self._send(group, events)
            except Exception as problem:  # noqa: BLE001 - a failed conversion ends the views that it concerns
                reason = _status_of(problem, group)
                for watcher in list(group.members):
                    watcher.end(reason)

    def _send(self, group: WatcherGroup, events: list[CacheEvent]) -> None:
        lines = group.lines
        chunk: StreamChunk | None = None
        written = False
        shown = delivered = 0
        large = sum(map(_weight, events)) > LARGE
        room = AT_ONCE - self._spent
        size = 0
        for watcher in group.members:
            if not watcher.synced:
                continue
            if large or room <= 0:
                self._fall_behind(watcher, events[0].revision - 1, _LOOK_AGAIN)
                continue
            if watcher.sink.buffered() > HIGH_MARK:
                self._fall_behind(watcher, events[0].revision - 1, _LOOK_LATER)
                continue
            if not written:
                parts = [part for part in map(lines.of, events) if part]
                chunk = StreamChunk.of(b"".join(parts)) if parts else None
                shown = len(parts)
                size = len(chunk.data) if chunk is not None else 0
                written = True
            if chunk is None or (watcher.allowed is not None and watcher.forbidden()):
                continue
            room -= size
            if watcher.fresh:
                self._send_changes(watcher, events)
                if watcher.rest or watcher.position < events[-1].revision:
                    self._fall_behind(watcher, watcher.position, _LOOK_AGAIN)
            else:
                watcher.sink.write(chunk)
                delivered += 1
        if delivered:
            self._count(group, delivered * shown)
            self._spend(delivered * size)

    def _send_changes(self, watcher: OpenWatch, events: Iterable[CacheEvent]) -> None:
        """Send changes to one watcher, about a slice."""
        parts, count, size = _slice(_changed(watcher, events))
        if parts and not watcher.forbidden():
            self._hand_over(watcher, parts, count, size)

    def _hand_over(self, watcher: OpenWatch, parts: Sequence[Part], count: int, size: int) -> None:
        """Write whole lines; of large ones as much as there is room for now."""
        self._count(watcher.group, count)
        if size <= 2 * _SLICE:
            watcher.send(b"".join(parts))
            self._spend(size)
            return
        watcher.rest.extend(parts)
        self._send_rest(watcher)

    def _send_rest(self, watcher: OpenWatch) -> None:
        """Go on with a large line, a slice at least."""
        rest = watcher.rest
        while rest:
            slice_parts: list[Part] = []
            room = _SLICE
            while rest and room:
                part = memoryview(rest.popleft())
                slice_parts.append(part[:room])
                if len(part) > room:
                    rest.appendleft(part[room:])
                room -= len(slice_parts[-1])
            watcher.send(b"".join(slice_parts))
            self._spend(_SLICE - room)
            if self._exhausted or watcher.sink.buffered() > LOW_MARK:
                return

    def _spend(self, size: int) -> None:
        """Count what was written in this turn of the loop."""
        if not self._spent:
            asyncio.get_running_loop().call_soon(self._begin_turn)
        self._spent += size

    def _begin_turn(self) -> None:
        self._spent = 0

    @property
    def _exhausted(self) -> bool:
        """Whether watchers that are behind have to wait for another turn."""
        return self._spent >= AT_A_LOOK

    def _count(self, group: WatcherGroup, events: int) -> None:
        kind = group.lines.selection.served.kind
        self.sent[kind.group, kind.version, kind.name] += events

    # Watchers that are behind

    def _fall_behind(self, watcher: OpenWatch, position: int, pause: float) -> None:
        watcher.synced = False
        watcher.position = position
        self._behind[watcher] = None
        self._look_soon(pause)

    def _catch_up(self, watcher: OpenWatch) -> None:
        """Send as much as a watcher that is behind takes; it is synced when nothing is left."""
        # Pending changes go out first, or a watcher that joins now would get them twice.
        self.flush()
        try:
            synced = self._advance(watcher)
        except Exception as problem:  # noqa: BLE001 - a failed conversion ends the views that it concerns
            watcher.end(_status_of(problem, watcher.group))
            return
        if watcher.done.done():
            return
        watcher.synced = synced
        if not synced:
            self._behind[watcher] = None
            self._look_soon(_LOOK_AGAIN)

    def _advance(self, watcher: OpenWatch) -> bool:
        group = watcher.group
        sink, history = watcher.sink, group.collection.history
        while sink.buffered() <= LOW_MARK and not self._exhausted:
            if watcher.rest:
                self._send_rest(watcher)
                continue
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
            self._catch_up_with(watcher, events)
            if watcher.done.done():
                return False
        return False

    def _catch_up_with(self, watcher: OpenWatch, events: list[CacheEvent]) -> None:
        """Send those of the next changes that concern the watcher, or as many of them as make a slice."""
        concerning = list(filter(watcher.group.lines.selection.covers, events))
        self._send_changes(watcher, concerning)
        if not concerning or watcher.position == concerning[-1].revision:
            watcher.position = events[-1].revision

    def _send_backlog(self, watcher: OpenWatch, backlog: Iterator[Item]) -> None:
        parts, count, size = _slice(_initial(watcher, backlog))
        if parts:
            self._hand_over(watcher, parts, count, size)

    def _look_soon(self, pause: float) -> None:
        if self._look is not None and pause < self._pause:
            self._look.cancel()
            self._look = None
        if self._look is None:
            self._pause = pause
            self._look = asyncio.get_running_loop().call_later(pause, self._look_after)

    def _look_after(self) -> None:
        """Serve watchers that are behind and can take more."""
        self._look = None
        moved = False
        for watcher in list(self._behind):
            if self._exhausted:
                moved = True
                break
            if watcher.sink.buffered() <= LOW_MARK:
                moved = True
                del self._behind[watcher]
                self._catch_up(watcher)
        if self._behind:
            self._look_soon(_LOOK_AGAIN if moved else min(self._pause * 2, _LOOK_LATER))

    # Time

    def _schedule(self, watcher: OpenWatch) -> None:
        now = asyncio.get_running_loop().time()
        due = watcher.deadline
        if watcher.bookmarks:
            due = min(now + BOOKMARK_EVERY, watcher.last_mark if watcher.last_mark > now else due)
        watcher.timer = asyncio.get_running_loop().call_at(due, self._wake, watcher)

    def _wake(self, watcher: OpenWatch) -> None:
        self.flush()
        # Timers may come a little early.
        now = asyncio.get_running_loop().time()
        if now >= watcher.deadline - _EARLY:
            if watcher.rest:
                # Its client is reading a large line, or will be disconnected for not doing so.
                watcher.timer = asyncio.get_running_loop().call_at(now + _REST_SECONDS, self._wake, watcher)
            else:
                watcher.end()
            return
        # A bookmark promises all changes up to it, which a watcher that is behind has not got.
        if watcher.bookmarks and watcher.synced:
            watcher.send(watcher.group.lines.bookmark(self._cache.revision))
        self._schedule(watcher)

    # Ending

    def end(self, path: str) -> None:
        """End the watches of a resource that is gone or has changed; clients watch again."""
        self.flush()
        for watcher in self._all():
            if watcher.group.collection.path == path:
                watcher.end()

    def end_all(self) -> None:
        """End every watch and accept no more, for shutdown, with a bookmark to resume from at another
        server."""
        self._closing = True
        self.flush()
        for watcher in self._all():
            if watcher.bookmarks and watcher.synced and not watcher.done.done():
                watcher.send(watcher.group.lines.bookmark(self._cache.revision))
            watcher.end()

    def _all(self) -> list[OpenWatch]:
        return [watcher for group in self._groups.values() for watcher in group.members]

    def _forget(self, watcher: OpenWatch) -> None:
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


def _weight(event: CacheEvent) -> int:
    item = event.after or event.before
    return len(item.value) if item is not None else 0


def _changed(watcher: OpenWatch, events: Iterable[CacheEvent]) -> Iterator[Sequence[Part]]:
    """The lines of changes, for one watcher; its first one as a table carries the columns."""
    for event in events:
        line = watcher.group.lines.parts(event, columns=watcher.fresh)
        watcher.position = event.revision
        if line:
            watcher.fresh = False
            yield line


def _initial(watcher: OpenWatch, backlog: Iterator[Item]) -> Iterator[Sequence[Part]]:
    """The lines of the initial state, and the bookmark at its end."""
    lines = watcher.group.lines
    for item in backlog:
        line = lines.added(item, columns=watcher.fresh)
        watcher.fresh = False
        yield line
    watcher.backlog = None
    if watcher.begun is not None and not watcher.begun.done():
        watcher.begun.set_result(None)
    if watcher.announce:
        yield [lines.bookmark(watcher.position, initial_end=True)]


def _slice(lines: Iterator[Sequence[Part]]) -> tuple[list[Part], int, int]:
    """The next lines, about a slice: their parts, their number and their size."""
    parts: list[Part] = []
    size = count = 0
    for line in lines:
        parts += line
        count += 1
        size += sum(map(len, line))
        if size >= _SLICE:
            break
    return parts, count, size


def _status_of(problem: Exception, group: WatcherGroup) -> StatusError:
    """The error that ends a watch; anything but a status is logged."""
    if isinstance(problem, StatusError):
        return problem
    message = f"an object of {group.collection.path} can't be shown"
    log.error(message, exc_info=problem)
    return errors.internal(message)
