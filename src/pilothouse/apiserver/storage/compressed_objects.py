"""Large objects as gzip streams, made once for each version of an object.

    compressed = CompressedObjects()
    await compressed.gzipped(CompressedVersion(key, "v1", item.revision, collection.shape), read)

Many readers ask for the same large object at about the same time: every update agent whose turn begins reads
the Plan. The first one has the body deflated, those that ask meanwhile wait for it, later ones get the same
bytes. Of each object and API version the stream that was made last is kept, as long as the budget allows.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec

from pilothouse.apiserver.storage.list_bodies import gzip_body

BUDGET: Final = 8 * 1024 * 1024
"""Bytes of gzip streams that are kept."""


class CompressedVersion(msgspec.Struct, frozen=True):
    """What a stream is of. The revision and the collection's shape tell one content from any other."""

    key: str
    api_version: str
    revision: int
    shape: int


class _Kept(msgspec.Struct, eq=False):
    version: CompressedVersion
    making: asyncio.Task[bytes]
    weight: int = 0


class CompressedObjects:
    def __init__(self, budget: int = BUDGET) -> None:
        self._budget = budget
        self._kept: OrderedDict[tuple[str, str], _Kept] = OrderedDict()
        self.weight = 0
        """Bytes of the streams that are kept."""

    async def gzipped(self, version: CompressedVersion, read: Callable[[], bytes]) -> bytes:
        """What ``read`` returns, which is the body of the version, as a gzip stream."""
        place = version.key, version.api_version
        kept = self._kept.get(place)
        if kept is None or kept.version != version:
            self._drop(place)
            kept = self._kept[place] = _Kept(version, asyncio.create_task(gzip_body(read())))
            kept.making.add_done_callback(partial(self._weigh, place))
        self._kept.move_to_end(place)
        # A reader that goes away must not take the stream from the others.
        return await asyncio.shield(kept.making)

    def _weigh(self, place: tuple[str, str], made: asyncio.Task[bytes]) -> None:
        """Count a stream that was made, and evict the least used to stay within the budget."""
        kept = self._kept.get(place)
        if kept is None or kept.making is not made:
            return
        if made.cancelled() or made.exception() is not None:
            self._drop(place)
            return
        kept.weight = len(made.result())
        self.weight += kept.weight
        while self.weight > self._budget:
            self._drop(next(iter(self._kept)))

    def _drop(self, place: tuple[str, str]) -> None:
        kept = self._kept.pop(place, None)
        if kept is not None:
            self.weight -= kept.weight
