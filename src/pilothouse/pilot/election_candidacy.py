"""Whether a pilot stands for election: not while it is astray.

    candidacy = Candidacy()
    candidacy.tell(serves=False, others_serve=True, now=clock.monotonic())       # again and again
    await candidacy.taken_up()
    await candidacy.given_up()

One whose instance does not serve while that of another does can't see what it would lead. After a while it stands aside, and stands again once its
own serves or nobody's does: a cluster that was never formed needs somebody to form it.
"""

from __future__ import annotations

import asyncio
from typing import Final

ASTRAY: Final = 30.0
"""Seconds after which one that does not serve, while another does, stands aside."""


class OutOfClusterTimer:
    """For how long one has been astray."""

    def __init__(self) -> None:
        self._astray_since: float | None = None

    def are_lost(self, *, serves: bool, others_serve: bool, now: float) -> bool:
        """Whether it has been for so long that it may not be over in a moment."""
        if serves or not others_serve:
            self._astray_since = None
            return False
        if self._astray_since is None:
            self._astray_since = now
        return now - self._astray_since >= ASTRAY


class Candidacy:
    """Taken up from the beginning; others wait for it to be given up, and to be taken up again."""

    def __init__(self) -> None:
        self._bearings = OutOfClusterTimer()
        self._stands, self._aside = asyncio.Event(), asyncio.Event()
        self._stands.set()

    def tell(self, *, serves: bool, others_serve: bool, now: float) -> None:
        """Whose instances serve at this moment."""
        lost = self._bearings.are_lost(serves=serves, others_serve=others_serve, now=now)
        begins, ends = (self._aside, self._stands) if lost else (self._stands, self._aside)
        ends.clear()
        begins.set()

    async def taken_up(self) -> None:
        await self._stands.wait()

    async def given_up(self) -> None:
        await self._aside.wait()
