"""A store in memory that looks like one with several writers, and that can lose its answers.

store = SharedStore()
store.silent = True         # from here on writes are carried out and not acknowledged
"""

from __future__ import annotations

from pilothouse.store.interface import Guard, Unavailable
from pilothouse.store.memory import MemoryStore


class SharedStore(MemoryStore):
    silent = False

    @property
    def current(self) -> int | None:  # type: ignore[override]  # One writer among others does not know it.
        return None

    async def create(self, key: str, value: bytes, *, ttl: float = 0, guard: Guard | None = None) -> int:
        return self._answer(await super().create(key, value, ttl=ttl, guard=guard))

    async def update(
        self, key: str, value: bytes, *, revision: int, ttl: float = 0, guard: Guard | None = None
    ) -> int:
        return self._answer(await super().update(key, value, revision=revision, ttl=ttl, guard=guard))

    async def delete(self, key: str, *, revision: int, guard: Guard | None = None) -> int:
        return self._answer(await super().delete(key, revision=revision, guard=guard))

    def _answer(self, revision: int) -> int:
        if self.silent:
            raise Unavailable("no answer; the write may or may not have happened")
        return revision
