"""The bodies of lists, joined from stored bytes and cached while the collection is unchanged.

    bodies = ListBodies()
    bodies.plain(view, listing)        # {"kind":"PodList",...,"items":[{...},{...}]}
    await bodies.gzipped(view, listing, at_least=131072)

The head has the revision and changes with every write; the joined items change with the collection's stamp,
so they are cached separately. For gzip, items are deflated in blocks of some dozen objects. A hash of the
key, or the size, decides where a block ends, so a change affects its own block only. Large amounts are
deflated in a thread or in turns. Lists too large to cache become a ``ChunkedBody``.
"""

from __future__ import annotations

import asyncio
import zlib
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator

import msgspec

from pilothouse.apiserver.server.compression import (
    EMPTY,
    GZIP_HEAD,
    GZIP_HEADER,
    Deflated,
    GzipChecksum,
    deflate,
    deflate_in_turns,
    gzip_of,
    join,
    store,
)
from pilothouse.apiserver.server.messages import ChunkedBody
from pilothouse.apiserver.storage.collection import Collection
from pilothouse.apiserver.storage.items import Buffer, Item
from pilothouse.apiserver.storage.large_lists import LARGE, PIECE, gzipped, joined, weight
from pilothouse.apiserver.storage.listing import ListResult

BUDGET = 16 * 1024 * 1024
"""Bytes of rendered lists that are kept."""
SMALLEST = 16 * 1024
"""What is smaller is as quickly made again."""
_BLOCK_MASK = 0x0F
_INLINE = 64 * 1024
_AT_A_TIME = 1024 * 1024
"""So much is laid out at a time to be deflated; a list may be far larger than one wants to hold twice."""
_TAIL = b"]}"
_PACKED_TAIL = store(_TAIL)


class ListView(msgspec.Struct, frozen=True):
    """How a listing is shown; ``identity`` tells views apart."""

    identity: Hashable
    collection: Collection
    kind: str
    api_version: str
    parts: Callable[[list[Item]], list[Buffer]]
    """What the items' bytes, with commas between them, are to be joined from."""

    def head(self, listing: ListResult) -> bytes:
        """Everything before the first item."""
        remaining = b""
        if listing.remaining is not None:
            remaining = b',"remainingItemCount":%d' % listing.remaining
        return (
            b'{"kind":"%b","apiVersion":"%b","metadata":{"continue":"%b"%b,"resourceVersion":"%d"},"items":['
            % (
                self.kind.encode(),
                self.api_version.encode(),
                listing.next.encode().encode() if listing.next is not None else b"",
                remaining,
                listing.revision,
            )
        )


class _Block(msgspec.Struct, frozen=True, gc=False):
    signature: tuple[int, ...]
    packed: Deflated


_UNMADE = _Block((), EMPTY)


class _Packed(msgspec.Struct, frozen=True):
    """A gzipped body and where its items are, which can be reused with another head."""

    revision: int
    body: bytes
    start: int
    end: int
    crc: int
    size: int

    @classmethod
    def of(cls, revision: int, head: Deflated, items: Deflated) -> _Packed:
        body = gzip_of((head, items, _PACKED_TAIL))
        start = GZIP_HEADER + len(head.data)
        return cls(revision, body, start, start + len(items.data), items.crc, items.size)

    @property
    def items(self) -> Deflated:
        return Deflated(self.body[self.start : self.end], self.crc, self.size)


class _Kept:
    __slots__ = ("blocks", "packed", "plain", "shape", "stamp", "weight")

    def __init__(self, collection: Collection) -> None:
        self.stamp = collection.stamp
        self.shape = collection.shape
        self.weight = 0
        self.plain: tuple[int, int, bytes] | None = None
        """The revision it was made at, where its items begin, the whole body."""
        self.packed: _Packed | None = None
        self.blocks: dict[str, _Block] = {}

    def renew(self, collection: Collection) -> None:
        """Drop what changes of the collection have made invalid."""
        if self.stamp == collection.stamp:
            return
        self.stamp = collection.stamp
        self.plain = self.packed = None
        if self.shape != collection.shape:
            self.shape = collection.shape
            self.blocks = {}

    def weigh(self) -> int:
        parts = [block.packed.data for block in self.blocks.values()]
        if self.plain is not None:
            parts.append(self.plain[2])
        if self.packed is not None:
            parts.append(self.packed.body)
        return sum(map(len, parts))


class ListBodies:
    def __init__(self, budget: int = BUDGET) -> None:
        self._budget = budget
        self._weight = 0
        self._kept: OrderedDict[Hashable, _Kept] = OrderedDict()

    def plain(self, view: ListView, listing: ListResult) -> bytes | ChunkedBody:
        head = view.head(listing)
        if not listing.whole:
            items = listing.read()
            size = weight(items)
            if size > LARGE:
                return ChunkedBody(lambda: joined(head, view.parts, items), size, listing.own)
            return b"".join((head, *view.parts(items), _TAIL))
        kept = self._find(view)
        if kept.plain is None:
            items = listing.read()
            size = weight(items)
            if size > self._budget // 4:
                return ChunkedBody(lambda: joined(head, view.parts, items), size)
            body = b"".join((head, *view.parts(items), _TAIL))
        elif kept.plain[0] == listing.revision:
            return kept.plain[2]
        else:
            body = head + kept.plain[2][kept.plain[1] :]
        if SMALLEST <= len(body) <= self._budget // 4:
            kept.plain = (listing.revision, len(head), body)
            self._keep(view, kept)
        return body

    async def gzipped(self, view: ListView, listing: ListResult, at_least: int) -> bytes | ChunkedBody | None:
        """The body as a gzip stream; None if it is too small."""
        head = store(view.head(listing))
        if not listing.whole:
            return await self._gzipped_part(view, listing, at_least)
        kept = self._find(view)
        stamp = kept.stamp
        if kept.packed is None:
            gathered = listing.read()
            size = weight(gathered)
            if size < at_least:
                return None
            if size > self._budget // 4:
                return ChunkedBody(lambda: self._packed_pieces(view, head, gathered), size)
            items_packed = await self._pack(kept, view, gathered)
        elif kept.packed.revision == listing.revision:
            return kept.packed.body
        else:
            items_packed = kept.packed.items
        whole = _Packed.of(listing.revision, head, items_packed)
        # While it was deflated the collection may have moved on; the blocks stay good, the whole does not.
        if kept.stamp == stamp and len(whole.body) <= self._budget // 4:
            kept.packed = whole
        self._keep(view, kept)
        return whole.body

    async def _gzipped_part(
        self, view: ListView, listing: ListResult, at_least: int
    ) -> bytes | ChunkedBody | None:
        """The same for a list of which there are others."""
        plain = view.head(listing)
        items = listing.read()
        size = weight(items)
        if size > LARGE:
            return ChunkedBody(lambda: gzipped(joined(plain, view.parts, items)), size, listing.own)
        data = b"".join(view.parts(items))
        if len(data) < at_least:
            return None
        return gzip_of((store(plain), *await _deflate_all([data]), _PACKED_TAIL))

    def _packed_pieces(self, view: ListView, head: Deflated, items: list[Item]) -> Iterator[bytes]:
        """A large list as a gzip stream. Deflated blocks are cached at once for other requests."""
        kept = self._find(view)
        self._keep(view, kept)
        shape, used, whole = kept.shape, set[str](), GzipChecksum()
        del kept
        yield GZIP_HEAD + whole.add(head)
        for number, block in enumerate(_split(items)):
            first, leading = block[0].key, not number
            signature = (leading, *[item.revision for item in block])
            used.add(first)
            # Looked up each time, so that evicted blocks are not kept alive here.
            known = self._kept.get(view.identity)
            known = known if known is not None and known.shape == shape else None
            found = known.blocks.get(first) if known is not None else None
            if found is None or found.signature != signature:
                data = b"".join((b"" if leading else b",", *view.parts(block)))
                found = _Block(signature, (yield from deflate_in_turns(data)))
                # Other tasks have run meanwhile.
                known = self._kept.get(view.identity)
                known = known if known is not None and known.shape == shape else None
                if known is not None:
                    known.blocks[first] = found
                    self._keep(view, known, len(found.packed.data))
            yield whole.add(found.packed)
        if (known := self._kept.get(view.identity)) is not None and known.shape == shape:
            known.blocks = {first: block for first, block in known.blocks.items() if first in used}
            self._keep(view, known)
        yield whole.add(_PACKED_TAIL) + whole.end()

    async def _pack(self, kept: _Kept, view: ListView, items: list[Item]) -> Deflated:
        """The items, deflated: cached blocks, and the others made now."""
        shape, known = kept.shape, kept.blocks
        blocks: dict[str, _Block] = {}
        making: list[tuple[str, tuple[int, ...], bytes]] = []
        size = 0
        for block in _split(items):
            first = block[0].key
            leading = not blocks
            signature = (leading, *[item.revision for item in block])
            found = known.get(first)
            blocks[first] = found or _UNMADE
            if found is not None and found.signature == signature:
                continue
            # The leading block alone has no comma before it.
            data = b"".join((b"" if leading else b",", *view.parts(block)))
            making.append((first, signature, data))
            size += len(data)
            if size >= _AT_A_TIME:
                await _make(blocks, making)
                making, size = [], 0
        await _make(blocks, making)
        if kept.shape == shape:
            kept.blocks = blocks
        return join(block.packed for block in blocks.values())

    def _find(self, view: ListView) -> _Kept:
        kept = self._kept.get(view.identity)
        if kept is None:
            return _Kept(view.collection)
        kept.renew(view.collection)
        self._kept.move_to_end(view.identity)
        return kept

    def _keep(self, view: ListView, kept: _Kept, more: int | None = None) -> None:
        """Cache a view; evict the least used to stay within the budget. ``more``: its known growth."""
        rival = self._kept.get(view.identity)
        if rival is not None and rival is not kept:
            self._weight -= rival.weight
        self._kept[view.identity] = kept
        self._kept.move_to_end(view.identity)
        heavy = kept.weigh() if more is None else kept.weight + more
        self._weight += heavy - (kept.weight if rival is kept else 0)
        kept.weight = heavy
        while self._weight > self._budget and len(self._kept) > 1:
            self._weight -= self._kept.popitem(last=False)[1].weight


def _split(items: list[Item]) -> list[list[Item]]:
    blocks: list[list[Item]] = []
    block: list[Item] = []
    size = 0
    for item in items:
        block.append(item)
        size += len(item.value)
        if not zlib.crc32(item.key.encode()) & _BLOCK_MASK or len(item.value) >= PIECE or size >= _AT_A_TIME:
            blocks.append(block)
            block, size = [], 0
    if block:
        blocks.append(block)
    return blocks


async def _make(blocks: dict[str, _Block], making: list[tuple[str, tuple[int, ...], bytes]]) -> None:
    for (first, signature, _), packed in zip(
        making, await _deflate_all([each[2] for each in making]), strict=True
    ):
        blocks[first] = _Block(signature, packed)


async def _deflate_all(parts: list[bytes]) -> list[Deflated]:
    if sum(map(len, parts)) <= _INLINE:
        return [deflate(part) for part in parts]
    return await asyncio.to_thread(lambda: [deflate(part) for part in parts])


async def gzip_body(body: bytes) -> bytes:
    return gzip_of(await _deflate_all([body]))
