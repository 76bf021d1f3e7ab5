"""The condition of a store that still answers: full disk, damaged file.

    condition = condition_of(store)         # of the innermost store
    condition.full, condition.problem

See ``disk_space`` and ``damage_messages``.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import msgspec


class StoreHealth(msgspec.Struct, frozen=True):
    full: bool = False
    """The disk is full: nothing but deletions and small updates are taken."""
    damage: str = ""
    """What is damaged, and what to do. Reads of the present go on; writes are refused."""
    failure: str = ""
    """Why the last commit failed; empty if it did not."""

    @property
    def problem(self) -> str:
        """In a sentence; empty if nothing is wrong."""
        if self.damage:
            return self.damage
        if self.full:
            return (
                "the disk is full: objects can be read, deleted, and changed without growing much; "
                "everything else is refused until there is space"
            )
        return f"the last write failed: {self.failure}" if self.failure else ""


@runtime_checkable
class HealthReporting(Protocol):
    """A store that reports its condition."""

    @property
    def condition(self) -> StoreHealth: ...


def condition_of(store: object) -> StoreHealth:
    """The condition of a store, or of the innermost one that it wraps."""
    while not isinstance(store, HealthReporting):
        store = getattr(store, "inner", None)
        if store is None:
            return StoreHealth()
    return store.condition
