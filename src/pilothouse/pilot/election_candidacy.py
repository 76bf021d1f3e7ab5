"""Whether a pilot is a candidate in the leader election: not while it is out of its cluster.

    candidacy = Candidacy()
    candidacy.update(serves=False, others_serve=True, now=clock.monotonic())     # periodically
    await candidacy.until_withdrawn()

A pilot whose instance is not ready while that of a peer is can't see the cluster that it would lead. After a
while it withdraws, until its own instance is ready or none is: a cluster that was never formed needs a
leader.
"""

from __future__ import annotations

import asyncio
from typing import Final

OUT_OF_CLUSTER_SECONDS: Final = 30.0
"""Seconds after which such a pilot withdraws."""


class OutOfClusterTimer:
    """For how long an instance has been out of its cluster."""

    def __init__(self) -> None:
        self._since: float | None = None

    def is_over(self, *, serves: bool, others_serve: bool, now: float) -> bool:
        if serves or not others_serve:
            self._since = None
            return False
        if self._since is None:
            self._since = now
        return now - self._since >= OUT_OF_CLUSTER_SECONDS


class Candidacy:
    """A candidate at first. Callers wait for it to withdraw, and to become a candidate again."""

    def __init__(self) -> None:
        self._timer = OutOfClusterTimer()
        self._candidate, self._withdrawn = asyncio.Event(), asyncio.Event()
        self._candidate.set()

    def update(self, *, serves: bool, others_serve: bool, now: float) -> None:
        """``serves``: its own instance is ready; ``others_serve``: that of a peer is."""
        withdraws = self._timer.is_over(serves=serves, others_serve=others_serve, now=now)
        begins, ends = (self._withdrawn, self._candidate) if withdraws else (self._candidate, self._withdrawn)
        ends.clear()
        begins.set()

    async def until_candidate(self) -> None:
        await self._candidate.wait()

    async def until_withdrawn(self) -> None:
        await self._withdrawn.wait()
