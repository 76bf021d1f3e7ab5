"""The bodies of lists: stored bytes joined, and kept while the collection stays as it is.

    bodies = ListBodies()
    bodies.plain(view, listing)        # {"kind":"PodList",...,"items":[{...},{...}]}
    await bodies.gzipped(view, listing, at_least=131072)

A list body is a head with the revision in it, the items joined by commas, and a bracket. The joined items are the same
as long as the collection's stamp is; the head moves with every write anywhere. So the items are kept, and a list of
an unchanged collection is one concatenation, or nothing at all if no one wrote meanwhile.

For gzip the items are deflated in blocks of some dozen objects. Where a block ends is decided by a hash of the key, so
that an object that comes, goes or changes disturbs its own block only; the others are reused as they are. Large
amounts are deflated in a thread, so that nobody waits for it but the one who asked.
"""

from __future__ import annotations

import asyncio
import zlib
from collections import OrderedDict
from collections.abc import Callable, Hashable

import msgspec

from pilothouse.apiserver.collection import Collection
from pilothouse.apiserver.compression import Deflated, deflate, gzip_of, join, store
from pilothouse.apiserver.items import Buffer, Item
from pilothouse.apiserver.listing import Listing

BUDGET = 16 * 1024 * 1024
"""Bytes of rendered lists that are kept."""
SMALLEST = 16 * 1024
"""What is smaller is as quickly made again."""
_BLOCK_MASK = 0x0F
_INLINE = 64 * 1024
_TAIL = b"]}"
_PACKED_TAIL = store(_TAIL)


class View(msgspec.Struct, frozen=True):
    """How a listing is shown; ``identity`` tells views apart."""

    identity: Hashable
    collection: Collection
    kind: str
    api_version: str
    parts: Callable[[list[Item]], list[Buffer]]
    """What the items' bytes, with commas between them, are to be joined from."""

    def head(self, listing: Listing) -> bytes:
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


class _Kept:
    """What is kept of one view."""

    __slots__ = ("blocks", "packed", "packed_whole", "plain", "shape", "stamp", "weight")

    def __init__(self, collection: Collection) -> None:
        self.stamp = collection.stamp
        self.shape = collection.shape
        self.weight = 0
        self.plain: tuple[int, int, bytes] | None = None
        """The revision it was made at, where its items begin, the whole body."""
        self.packed: Deflated | None = None
        self.packed_whole: tuple[int, bytes] | None = None
        self.blocks: dict[str, _Block] = {}

    def renew(self, collection: Collection) -> None:
        """Let go of what the collection's changes have made wrong."""
        if self.stamp == collection.stamp:
            return
        self.stamp = collection.stamp
        self.plain = self.packed = self.packed_whole = None
        if self.shape != collection.shape:
            self.shape = collection.shape
            self.blocks = {}

    def weigh(self) -> int:
        parts = [block.packed.data for block in self.blocks.values()]
        if self.plain is not None:
            parts.append(self.plain[2])
        if self.packed is not None and self.packed_whole is not None:
            parts += [self.packed.data, self.packed_whole[1]]
        return sum(map(len, parts))


class ListBodies:
    """Rendered lists, the least used forgotten first."""

    def __init__(self, budget: int = BUDGET) -> None:
        self._budget = budget
        self._weight = 0
        self._kept: OrderedDict[Hashable, _Kept] = OrderedDict()

    def plain(self, view: View, listing: Listing) -> bytes:
        """The body as it is."""
        head = view.head(listing)
        if not listing.whole:
            return b"".join((head, *view.parts(listing.read()), _TAIL))
        kept = self._find(view)
        if kept.plain is None:
            body = b"".join((head, *view.parts(listing.read()), _TAIL))
        elif kept.plain[0] == listing.revision:
            return kept.plain[2]
        else:
            body = head + kept.plain[2][kept.plain[1] :]
        if SMALLEST <= len(body) <= self._budget // 2:
            kept.plain = (listing.revision, len(head), body)
            self._keep(view, kept)
        return body

    async def gzipped(self, view: View, listing: Listing, at_least: int) -> bytes | None:
        """The body as a gzip stream; None if it is too small to be worth it."""
        head = store(view.head(listing))
        if not listing.whole:
            items = b"".join(view.parts(listing.read()))
            if len(items) < at_least:
                return None
            return gzip_of((head, *await _deflate_all([items]), _PACKED_TAIL))
        kept = self._find(view)
        if kept.packed_whole is not None and kept.packed_whole[0] == listing.revision:
            return kept.packed_whole[1]
        stamp = kept.stamp
        packed = kept.packed
        if packed is None:
            gathered = listing.read()
            if sum(len(item.value) for item in gathered) < at_least:
                return None
            packed = await self._pack(kept, view, gathered)
        body = gzip_of((head, packed, _PACKED_TAIL))
        # While it was deflated the collection may have moved on; the blocks stay good, the whole does not.
        if kept.stamp == stamp and packed.size >= SMALLEST and len(body) <= self._budget // 2:
            kept.packed, kept.packed_whole = packed, (listing.revision, body)
            self._keep(view, kept)
        return body

    async def _pack(self, kept: _Kept, view: View, items: list[Item]) -> Deflated:
        """The items, deflated: known blocks as they are, the others made now."""
        shape = kept.shape
        blocks: dict[str, _Block | None] = {}
        signatures: list[tuple[int, ...]] = []
        missing: list[bytes] = []
        for block in _split(items):
            first = block[0].key
            # The leading block alone has no comma before it.
            signature = (bool(blocks), *[item.revision for item in block])
            found = kept.blocks.get(first)
            if found is not None and found.signature == signature:
                blocks[first] = found
                continue
            missing.append(b"".join((b"," if blocks else b"", *view.parts(block))))
            signatures.append(signature)
            blocks[first] = None
        made = map(_Block, signatures, await _deflate_all(missing))
        complete = {first: block or next(made) for first, block in blocks.items()}
        if kept.shape == shape:
            kept.blocks = complete
        return join(block.packed for block in complete.values())

    def _find(self, view: View) -> _Kept:
        kept = self._kept.get(view.identity)
        if kept is None:
            return _Kept(view.collection)
        kept.renew(view.collection)
        self._kept.move_to_end(view.identity)
        return kept

    def _keep(self, view: View, kept: _Kept) -> None:
        """Remember a view; forget others, the least used first, to stay within the budget."""
        rival = self._kept.get(view.identity)
        if rival is not None and rival is not kept:
            self._weight -= rival.weight
        self._kept[view.identity] = kept
        self._kept.move_to_end(view.identity)
        weight = kept.weigh()
        self._weight += weight - (kept.weight if rival is kept else 0)
        kept.weight = weight
        while self._weight > self._budget and len(self._kept) > 1:
            self._weight -= self._kept.popitem(last=False)[1].weight


def _split(items: list[Item]) -> list[list[Item]]:
    blocks: list[list[Item]] = []
    block: list[Item] = []
    for item in items:
        block.append(item)
        if not zlib.crc32(item.key.encode()) & _BLOCK_MASK:
            blocks.append(block)
            block = []
    if block:
        blocks.append(block)
    return blocks


async def _deflate_all(parts: list[bytes]) -> list[Deflated]:
    if sum(map(len, parts)) <= _INLINE:
        return [deflate(part) for part in parts]
    return await asyncio.to_thread(lambda: [deflate(part) for part in parts])


async def gzip_body(body: bytes) -> bytes:
    """Any other body as a gzip stream."""
    return gzip_of(await _deflate_all([body]))
