"""Observes a database and, if this pilot leads, its whole cluster.

observer = DatabaseObserver(driver, clock)
observer.begin()                         # with every start of the database
observed = await observer.look(desired, peers)
observer.take(observed)                  # unless its process has exited meanwhile
observer.forget()                        # with its exit
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
    observation: Observation
    generation: int
    """That of the Pilot at that moment."""
    cluster: Tree | None
    """Facts about the whole cluster; None if this pilot does not lead."""


class LeadershipView(Protocol):
    """Whether this pilot leads, and which Pilots (``PilotPeers``)."""

    @property
    def leads(self) -> bool: ...

    @property
    def term(self) -> tuple[str, int] | None: ...

    @property
    def pilots(self) -> Sequence[Object]: ...


class DatabaseObserver:
    """The last observation of one instance."""

    def __init__(self, driver: Driver, clock: Clock) -> None:
        self._driver = driver
        self._clock = clock
        self._term: tuple[str, int] | None = None
        """In which the cluster was last observed."""
        self.seen: Observation | None = None
        self.generation = 0
        self.cluster: Tree | None = None
        self.has_served = False
        """This run of the database has been ready before."""

    @property
    def is_ready(self) -> bool:
        return self.seen is not None and self.seen.ready

    def begin(self) -> None:
        """The database has been started, and not been observed yet."""
        self.seen, self.has_served = None, False

    def forget(self) -> None:
        """The database has exited."""
        self.seen, self.cluster = None, None

    async def look(self, desired: DesiredState, peers: LeadershipView | None) -> ObservedState:
        """Observe the database; the leader also does what is done once for the whole cluster."""
        seen = await self._driver.observe(desired)
        facts: Tree | None = None
        if peers is not None and peers.leads and seen.ready:
            term = peers.term
            try:
                facts = await self._driver.lead(
                    desired, peers.pilots, lambda: peers.leads and peers.term == term
                )
            except HookFailed as problem:
                log.warning("can't lead the cluster: %s", problem)
            if facts is not None and term is not None:
                facts = self._dated(facts, term)
        return ObservedState(seen, desired.generation, facts)

    def take(self, observed: ObservedState) -> bool:
        """Make it the last observation. True if it has a reason to restart the database that is new."""
        before, self.seen = self.seen, observed.observation
        self.generation, self.cluster = observed.generation, observed.cluster
        self.has_served = self.has_served or self.is_ready
        restart = observed.observation.restart
        return bool(restart) and (before is None or before.restart != restart)

    def _dated(self, facts: Tree, term: tuple[str, int]) -> Tree:
        """With the time since when the facts are these, in this term."""
        before = {name: value for name, value in (self.cluster or {}).items() if name != "observedTime"}
        if self.cluster is not None and before == facts and self._term == term:
            return self.cluster
        self._term = term
        return {**facts, "observedTime": format_time(self._clock.now())}
