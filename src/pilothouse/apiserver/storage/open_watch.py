"""One open watch, and the group of watches that show the same view."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable, Iterator

from pilothouse.apiserver.server.messages import StreamChunk, StreamSink
from pilothouse.apiserver.storage.collection import CacheEvent, Collection
from pilothouse.apiserver.storage.items import Item
from pilothouse.apiserver.storage.watch_events import Lines, Part, error_line
from pilothouse.meta.errors import StatusError

BOOKMARK_BEFORE_END = 2.0


class WatcherGroup:
    """The synced watchers of one view."""

    __slots__ = ("collection", "identity", "lines", "members", "pending")

    def __init__(self, identity: Hashable, collection: Collection, lines: Lines) -> None:
        self.identity = identity
        self.collection = collection
        self.lines = lines
        self.members: dict[OpenWatch, None] = {}
        """In the order they came, synced or not."""
        self.pending: list[CacheEvent] = []


class OpenWatch:
    """One open watch."""

    __slots__ = (
        "allowed",
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
        "rest",
        "sink",
        "synced",
        "timer",
    )

    def __init__(
        self,
        group: WatcherGroup,
        sink: StreamSink,
        *,
        position: int,
        bookmarks: bool,
        opened: float,
        deadline: float,
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
        self.allowed: Callable[[], bool] | None = None
        """Whether its user still has access, if that is checked again before each event."""
        self.rest: deque[Part] = deque()
        """What is left of a large line that was begun."""
        self.announce = False
        self.synced = False
        self.fresh = group.lines.tabular
        """Has not got the columns yet."""
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.timer: asyncio.TimerHandle | None = None

    def send(self, lines: bytes) -> None:
        self.sink.write(StreamChunk.of(lines))

    def end(self, problem: StatusError | None = None) -> None:
        """End the stream, with an error if there is one."""
        if not self.done.done():
            # No error fits in the middle of a line; the client finds it incomplete and watches again.
            if problem is not None and not self.rest:
                self.send(error_line(problem))
            self.done.set_result(None)

    def forbidden(self) -> bool:
        """Whether its user has lost access; then it ends."""
        if self.allowed is None or self.allowed():
            return False
        self.synced = False
        self.end()
        return True
