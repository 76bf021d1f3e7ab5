"""The lines of a watch, made from stored bytes.

    lines = Lines(selection, collection, transform="", include="Metadata", now=clock.now)
    lines.of(event)      # b'{"type":"MODIFIED","object":{...}}\n', or nothing if the view does not notice
    lines.parts(event)   # the same in parts, without a copy of a large object

An object that begins to match is ADDED, one that stops matching is DELETED. DELETED shows the object as it
last was in the view, with the revision of the change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from pilothouse.apiserver.discovery import tables
from pilothouse.apiserver.server.negotiation import PARTIAL, TABLE
from pilothouse.apiserver.storage import codec
from pilothouse.apiserver.storage.collection import CacheEvent, Collection
from pilothouse.apiserver.storage.items import Item
from pilothouse.apiserver.storage.selection import Selection
from pilothouse.meta.errors import StatusError

ADDED, MODIFIED, DELETED = b"ADDED", b"MODIFIED", b"DELETED"
LARGE = 64 * 1024
"""Objects of so many bytes are not copied into a line for one watcher."""
Part = bytes | memoryview
_Change = tuple[bytes, Item, int]
_INITIAL_END = {"k8s.io/initial-events-end": "true"}


class Lines:
    __slots__ = ("_collection", "_include", "_now", "_transform", "selection")

    def __init__(
        self,
        selection: Selection,
        collection: Collection,
        *,
        transform: str,
        include: str,
        now: Callable[[], float],
    ) -> None:
        self.selection = selection
        self._collection = collection
        self._transform = transform
        self._include = include
        self._now = now

    @property
    def tabular(self) -> bool:
        """Whether these are tables, of which only the first event of each watch has columns."""
        return self._transform == TABLE

    def of(self, event: CacheEvent, *, columns: bool = False) -> bytes:
        """The line of a change within the view's scope; nothing if the view does not show it."""
        change = self._change(event)
        return self._line(*change, columns) if change is not None else b""

    def parts(self, event: CacheEvent, *, columns: bool = False) -> Sequence[Part]:
        """The same in parts, to be sent one after the other."""
        change = self._change(event)
        return self._parts(*change, columns) if change is not None else ()

    def _change(self, event: CacheEvent) -> _Change | None:
        """What the view notices: the type, the object, and the revision that it is shown with."""
        before, after = event.before, event.after
        selection, derive = self.selection, self._collection.derive
        if selection.selective:
            if before is not None and not selection.matches(before, derive):
                before = None
            if after is not None and not selection.matches(after, derive):
                after = None
        if after is not None:
            return ADDED if before is None else MODIFIED, after, after.revision
        if before is not None:
            return DELETED, before, event.revision
        return None

    def added(self, item: Item, *, columns: bool = False) -> Sequence[Part]:
        """The line, in parts, of something that was there at the beginning."""
        return self._parts(ADDED, item, item.revision, columns)

    def bookmark(self, revision: int, *, initial_end: bool = False) -> bytes:
        """A line that marks a revision up to which everything was sent."""
        kind = self.selection.served.kind
        metadata: dict[str, object] = {"resourceVersion": str(revision)}
        if initial_end:
            metadata["annotations"] = _INITIAL_END
        body: bytes
        if self.tabular:
            body = tables.layout_of(kind).table((), metadata, columns=False)
        elif self._transform == PARTIAL:
            body = codec.dump(
                {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}
            )
        else:
            body = codec.dump({"kind": kind.name, "apiVersion": kind.api_version, "metadata": metadata})
        return b'{"type":"BOOKMARK","object":%b}\n' % body

    def _parts(self, change: bytes, item: Item, revision: int, columns: bool) -> Sequence[Part]:
        if self._transform or len(item.value) < LARGE:
            return (self._line(change, item, revision, columns),)
        served = self.selection.served
        prefix, form = served.kind.prefix, item.form(served, self._collection.derive)
        head = b'{"type":"%b","object":%b"resourceVersion":"%d",' % (change, prefix, revision)
        return head, memoryview(form)[len(prefix) :], b"}\n"

    def _line(self, change: bytes, item: Item, revision: int, columns: bool) -> bytes:
        served = self.selection.served
        body = item.served(served, self._collection.derive, revision)
        if self._transform == TABLE:
            layout = tables.layout_of(served.kind)
            row = layout.row(msgspec.json.decode(body), self._include, self._now())
            body = layout.table([row], {"resourceVersion": str(revision)}, columns=columns)
        elif self._transform == PARTIAL:
            body = tables.partial(body)
        return b'{"type":"%b","object":%b}\n' % (change, body)


def error_line(problem: StatusError) -> bytes:
    """The last line of a watch that fails."""
    return b'{"type":"ERROR","object":%b}\n' % codec.dump(problem.to_dict())
