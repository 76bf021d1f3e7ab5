"""What a pilot has seen of its database and of the whole cluster: since when it is so, and for how long it counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from pilothouse.api.objects import Object, Tree
from pilothouse.base.clock import ManualClock
from pilothouse.pilot.driver import DesiredState, Hook, HookFailed, Observation, Phase, StartCommand
from pilothouse.pilot.observer import DatabaseObserver

DESIRED = DesiredState(3, "hash", {})


class Database:
    """Known by a driver that sees what a test says."""

    application = "played"

    def __init__(self) -> None:
        self.seen = Observation(ready=True)
        self.facts: Tree | HookFailed = {"health": "Green"}

    def hooks(self, phase: Phase, desired: DesiredState) -> Sequence[Hook]:
        return ()

    def start(self, desired: DesiredState) -> StartCommand:
        return StartCommand((), {})

    async def observe(self, desired: DesiredState) -> Observation:
        return self.seen

    def is_candidate(self, desired: DesiredState) -> bool:
        return True

    async def lead(self, desired: DesiredState, peers: Sequence[Object], leads: Callable[[], bool]) -> Tree:
        if isinstance(self.facts, HookFailed):
            raise self.facts
        return self.facts


@dataclass(frozen=True)
class Term:
    number: int
    leads: bool = True
    pilots: Sequence[Object] = field(default_factory=tuple)

    @property
    def term(self) -> tuple[str, int]:
        return ("lease", self.number)


async def seen_by(observer: DatabaseObserver, peers: Term | None = None) -> bool:
    return observer.take(await observer.look(DESIRED, peers))


async def test_facts_have_the_time_since_when_they_are_so_in_one_term() -> None:
    database, clock = Database(), ManualClock(1_700_000_000)
    observer = DatabaseObserver(database, clock)
    await seen_by(observer, Term(1))
    first = observer.cluster
    assert first == {"health": "Green", "observedTime": "2023-11-14T22:13:20Z"}
    clock.advance(60)
    await seen_by(observer, Term(1))
    assert observer.cluster == first
    await seen_by(observer, Term(2))
    assert observer.cluster == {"health": "Green", "observedTime": "2023-11-14T22:14:20Z"}
    clock.advance(60)
    database.facts = {"health": "Yellow"}
    await seen_by(observer, Term(2))
    assert observer.cluster == {"health": "Yellow", "observedTime": "2023-11-14T22:15:20Z"}


async def test_only_who_leads_a_database_that_serves_knows_of_the_whole(
    caplog: pytest.LogCaptureFixture,
) -> None:
    database = Database()
    observer = DatabaseObserver(database, ManualClock(0))
    for peers in (None, Term(1, leads=False)):
        await seen_by(observer, peers)
        assert observer.cluster is None
    database.seen = Observation(ready=False)
    await seen_by(observer, Term(1))
    assert observer.cluster is None
    database.seen, database.facts = Observation(ready=True), HookFailed("it does not answer")
    await seen_by(observer, Term(1))
    assert observer.cluster is None
    assert observer.is_ready
    assert "it does not answer" in caplog.text


async def test_what_was_seen_goes_with_the_process_and_a_look_that_is_not_taken_changes_nothing() -> None:
    observer = DatabaseObserver(Database(), ManualClock(0))
    observer.begin()
    late = await observer.look(DESIRED, Term(1))
    assert (observer.seen, observer.generation, observer.has_served) == (None, 0, False)
    observer.take(late)
    assert (observer.is_ready, observer.generation, observer.has_served) == (True, 3, True)
    observer.forget()
    assert (observer.seen, observer.cluster, observer.has_served) == (None, None, True)
    observer.begin()
    assert not observer.has_served


async def test_a_reason_to_start_it_anew_is_news_once() -> None:
    database = Database()
    observer = DatabaseObserver(database, ManualClock(0))
    assert not await seen_by(observer)
    database.seen = Observation(ready=True, restart="its certificate is another")
    assert [await seen_by(observer) for _ in range(2)] == [True, False]
    database.seen = Observation(ready=True, restart="it has been shut out")
    assert await seen_by(observer)
