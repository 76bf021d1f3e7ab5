"""A store that breaks on demand: the real one in memory, with its connections cut or its clock of writers hidden."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pilothouse.store.interface import Batch, Entry, EntryPage, Unavailable
from pilothouse.store.memory import MemoryStore


class FaultyStore(MemoryStore):
    """Its watches can be cut, and be kept from coming back; ``shared`` hides that it is the only writer."""

    def __init__(self, *, shared: bool = False) -> None:
        super().__init__()
        self.shared = shared
        self.watches = 0
        self.revision_calls = 0
        self.away = False
        self._cuts: list[bool] = []

    @property
    def current(self) -> int | None:  # type: ignore[override]  # One writer among others does not know it.
        return None if self.shared else super().current

    async def revision(self) -> int:
        self.revision_calls += 1
        self._check_reachable()
        return await super().revision()

    async def get(self, key: str) -> Entry | None:
        return await super().get(key)

    async def list(self, prefix: str, *, revision: int = 0, limit: int = 0, after: str = "") -> EntryPage:
        self._check_reachable()
        return await super().list(prefix, revision=revision, limit=limit, after=after)

    async def cut(self) -> None:
        """End every watch as a lost connection does."""
        self._cuts.append(True)
        await self.progress()

    @asynccontextmanager
    async def watch(self, prefix: str, *, after: int) -> AsyncIterator[AsyncIterator[Batch]]:
        self._check_reachable()
        self.watches += 1
        async with super().watch(prefix, after=after) as batches:
            yield self._until_cut(batches, len(self._cuts))

    async def _until_cut(self, batches: AsyncIterator[Batch], cuts: int) -> AsyncIterator[Batch]:
        async for batch in batches:
            if len(self._cuts) > cuts:
                raise Unavailable("the connection was lost")
            yield batch

    def _check_reachable(self) -> None:
        if self.away:
            raise Unavailable("nobody answers")
