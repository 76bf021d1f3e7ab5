"""One object in the cache and its served forms.

    item.served(served)                # b'{"apiVersion":"v1",…,"metadata":{"resourceVersion":"42",…'
    item.served(served, derive, 57)    # the same content at another revision, for a DELETED event

An ``Item`` shares the stored bytes with a local store; the served form has the revision spliced in, which
takes less than a microsecond. Other versions, labels and selectable fields are derived on first use and kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from pilothouse.apiserver.discovery.catalog import ServedVersion
from pilothouse.apiserver.storage import codec
from pilothouse.meta.kind import Kind, Object

Buffer = bytes | memoryview
Derive = Callable[[Object, Kind], Object]
"""Applied to a stored object, in the version of ``kind``, before it is served (a CRD's new defaults)."""


class Item(msgspec.Struct, eq=False, gc=False):
    """A value as of a write. ``value`` never changes; the rest is cached."""

    key: str
    revision: int
    value: bytes
    memo: dict[str, Any] | None = None

    @property
    def name(self) -> str:
        return self.key.rpartition("/")[2]

    @property
    def labels(self) -> Mapping[str, str]:
        found = self._recall("labels")
        if found is None:
            found = self._remember("labels", _labels_of(self.value))
        return found  # type: ignore[no-any-return]

    def form(self, served: ServedVersion, derive: Derive | None = None) -> bytes:
        """The canonical bytes in a version, without ``resourceVersion``."""
        kind = served.kind
        if derive is None and self.value.startswith(kind.prefix):
            return self.value
        found = self._recall(kind.api_version)
        if found is None:
            obj = _converted(served, codec.decode(self.value))
            if derive is not None:
                obj = derive(obj, kind)
            made = codec.encode(obj)
            if not made.startswith(kind.prefix):
                raise ValueError(f"{self.key} does not become a {kind.name} of {kind.api_version}")
            # Most often nothing was to be done; then no second copy is kept.
            found = self._remember(kind.api_version, self.value if made == self.value else made)
        return found  # type: ignore[no-any-return]

    def served(self, served: ServedVersion, derive: Derive | None = None, revision: int = 0) -> bytes:
        """The bytes a client gets, at the item's own revision unless another is given."""
        prefix, form = served.kind.prefix, self.value
        if derive is not None or not form.startswith(prefix):
            form = self.form(served, derive)
        return b'%b"resourceVersion":"%d",%b' % (prefix, revision or self.revision, form[len(prefix) :])

    def object(self, served: ServedVersion, derive: Derive | None = None, revision: int = 0) -> Object:
        """The object a client gets, decoded; the caller's own."""
        return codec.decode(self.form(served, derive), revision or self.revision)

    def forget(self) -> None:
        """Drop what was derived."""
        self.memo = None

    def fields(self, kind: Kind, read: Callable[[], Mapping[str, str]]) -> Mapping[str, str]:
        """The kind's selectable fields; ``read`` computes them the first time."""
        place = f"fields:{kind.api_version}"
        found = self._recall(place)
        if found is None:
            found = self._remember(place, read())
        return found  # type: ignore[no-any-return]

    def _recall(self, name: str) -> Any:
        return self.memo.get(name) if self.memo is not None else None

    def _remember(self, name: str, answer: Any) -> Any:
        if self.memo is None:
            self.memo = {}
        self.memo[name] = answer
        return answer


def served_parts(items: Iterable[Item], served: ServedVersion, derive: Derive | None = None) -> list[Buffer]:
    """The parts to join the served forms of items from, with commas: the inner loop of every list.

    Values are not copied before the one join that makes the body.
    """
    prefix = served.kind.prefix
    at = len(prefix)
    parts: list[Buffer] = []
    comma = b""
    for item in items:
        form = item.value
        if derive is not None or not form.startswith(prefix):
            form = item.form(served, derive)
        parts.append(b'%b%b"resourceVersion":"%d",' % (comma, prefix, item.revision))
        parts.append(memoryview(form)[at:])
        comma = b","
    return parts


def _converted(served: ServedVersion, obj: Object) -> Object:
    """The object in the kind's version. Two groups may each call their shape of the same data ``v1``."""
    resource, kind = served.resource, served.kind
    source = str(obj["apiVersion"])
    if source == kind.api_version:
        return obj
    if resource.convert is None:
        return {**obj, "apiVersion": kind.api_version}
    return resource.convert(obj, source.rpartition("/")[2], kind.version)


class _Metadata(msgspec.Struct):
    labels: dict[str, str] | None = None


class _Labelled(msgspec.Struct):
    metadata: _Metadata


_labels = msgspec.json.Decoder(_Labelled)


def _labels_of(value: bytes) -> Mapping[str, str]:
    try:
        return _labels.decode(value).metadata.labels or {}
    except msgspec.DecodeError:
        codec.decode(value)  # knows how to say what is wrong
        raise
