"""What is seen of a database and, by the pilot that leads, of its whole cluster.

    lookout = DatabaseObserver(driver, clock)
    lookout.begin()                         # with every start of the database
    sight = await lookout.look(wish, crew)
    lookout.take(sight)                     # unless it is of a process that has ended meanwhile
    lookout.forget()                        # with its end

A look takes a while, and things go on meanwhile. So it changes nothing that was seen before, until it is taken.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Protocol

import msgspec

from pilothouse.api.objects import Object, Tree
from pilothouse.base.clock import Clock
from pilothouse.base.rfc3339 import format_time
from pilothouse.pilot.driver import DesiredState, Driver, HookFailed, Observation

log = logging.getLogger(__name__)


class ObservedState(msgspec.Struct, frozen=True):
    """One look at it."""

    observation: Observation
    generation: int
    """Of the Pilot that was asked for at that moment."""
    cluster: Tree | None
    """What is known of the whole; None if this pilot does not lead."""


class LeadershipView(Protocol):
    """Whether this pilot leads, and whom (``Crew``)."""

    @property
    def leads(self) -> bool: ...

    @property
    def term(self) -> tuple[str, int] | None: ...

    @property
    def pilots(self) -> Sequence[Object]: ...


class DatabaseObserver:
    """Of one instance."""

    def __init__(self, driver: Driver, clock: Clock) -> None:
        self._driver = driver
        self._clock = clock
        self._term: tuple[str, int] | None = None
        """In which the cluster was last looked at."""
        self.seen: Observation | None = None
        self.generation = 0
        self.cluster: Tree | None = None
        self.has_served = False
        """This run of the database has been ready before."""

    @property
    def is_ready(self) -> bool:
        return self.seen is not None and self.seen.ready

    def begin(self) -> None:
        """The database has been started: nothing of it has been seen."""
        self.seen, self.has_served = None, False

    def forget(self) -> None:
        """The database has ended."""
        self.seen, self.cluster = None, None

    async def look(self, wish: DesiredState, crew: LeadershipView | None) -> ObservedState:
        """How it is; who leads does what is to be done for the whole cluster besides."""
        seen = await self._driver.observe(wish)
        facts: Tree | None = None
        if crew is not None and crew.leads and seen.ready:
            term = crew.term
            try:
                facts = await self._driver.lead(wish, crew.pilots, lambda: crew.leads and crew.term == term)
            except HookFailed as problem:
                log.warning("as leader: %s", problem)
            if facts is not None and term is not None:
                facts = self._dated(facts, term)
        return ObservedState(seen, wish.generation, facts)

    def take(self, sight: ObservedState) -> bool:
        """It counts from here on. Whether it brings a reason to start the database anew that was not known."""
        before, self.seen = self.seen, sight.observation
        self.generation, self.cluster = sight.generation, sight.cluster
        self.has_served = self.has_served or self.is_ready
        restart = sight.observation.restart
        return bool(restart) and (before is None or before.restart != restart)

    def _dated(self, facts: Tree, term: tuple[str, int]) -> Tree:
        """With the moment since when it is so, in this term."""
        before = {name: value for name, value in (self.cluster or {}).items() if name != "observedTime"}
        if self.cluster is not None and before == facts and self._term == term:
            return self.cluster
        self._term = term
        return {**facts, "observedTime": format_time(self._clock.now())}
