"""Candidates in a made-up world: requests are slow or lost, processes pause, clocks are wrong and jump.

The world keeps true time; each candidate has a monotonic clock of its own, which runs a little fast or slow, and a time of
day that means nothing. Whatever happens, no two lead at one moment, and no two terms have the same number.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Callable
from itertools import count
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pilothouse.api.kind_names import Lease
from pilothouse.api.objects import Object
from pilothouse.client.leader_election import (
    LeaderElector,
    LeaderTerm,
    LeaseTiming,
    ReadLease,
    WaitForLease,
    WriteLease,
)

TIMING = LeaseTiming(15, 10, 2)
DRIFT = 1.02
TROUBLE, CALM = 300.0, 60.0
SEEDS = 3000 if os.environ.get("PILOTHOUSE_SOAK") else 300


class Server:
    """A Lease that is replaced only by those who saw its last version."""

    def __init__(self) -> None:
        self.lease: Object | None = None
        self._revision = 0
        self.history: list[tuple[str, int]] = []

    def write(self, act: WriteLease) -> Object | None:
        if (act.over and act.over.resource_version) != (self.lease and self.lease.resource_version):
            return None
        self._revision += 1
        metadata = {"name": "l", "namespace": "n", "uid": "u", "resourceVersion": str(self._revision)}
        self.lease = Object(Lease, {"metadata": metadata, "spec": act.spec})
        self.history.append((act.spec.get("holderIdentity", ""), act.spec["leaseTransitions"]))
        return self.lease


class Candidate:
    def __init__(self, world: World, name: str, rng: Random) -> None:
        self._world = world
        self._rng = rng
        self._rate = rng.uniform(1 / DRIFT, DRIFT)
        self._offset = rng.uniform(0, 1e6)
        self.paused_until = 0.0
        self.election = LeaderElector(name, TIMING, rng, lambda: rng.uniform(0, 2e9))
        world.at(rng.uniform(0, 5), self.step, self)

    @property
    def now(self) -> float:
        return self._offset + self._rate * self._world.time

    @property
    def term(self) -> LeaderTerm | None:
        return self.election.term(self.now)

    def step(self) -> None:
        act = self.election.next(self.now)
        if isinstance(act, WaitForLease):
            self._world.at(act.seconds / self._rate, self.step, self)
            return
        sent = self.now
        there, back = (self._world.delay(self._rng) for _ in range(2))
        answered = there + back <= act.within / self._rate

        def arrive() -> None:
            if isinstance(act, ReadLease):
                found = self._world.server.lease
                if answered:
                    self._world.at(back, lambda: self._go_on(self.election.looked, found, self.now), self)
                return
            written = self._world.server.write(act)
            if answered and written is not None:
                self._world.at(back, lambda: self._go_on(self.election.wrote, written, sent, self.now), self)
            elif answered:
                self._world.at(back, lambda: self._go_on(self.election.failed, self.now), self)

        self._world.at(there, arrive)
        if not answered:
            self._world.at(act.within / self._rate, lambda: self._go_on(self.election.failed, self.now), self)

    def _go_on(self, tell: Callable[..., None], *args: object) -> None:
        tell(*args)
        self.step()


class World:
    def __init__(self, seed: int, candidates: int) -> None:
        self._rng = Random(seed)
        self.time = 0.0
        self.server = Server()
        self._events: list[tuple[float, int, Callable[[], None], Candidate | None]] = []
        self._order = count()
        self.terms: dict[int, str] = {}
        self.candidates = [Candidate(self, f"c{n}", self._rng) for n in range(candidates)]

    def at(self, after: float, act: Callable[[], None], who: Candidate | None = None) -> None:
        heapq.heappush(self._events, (self.time + after, next(self._order), act, who))

    def delay(self, rng: Random) -> float:
        if self.time < TROUBLE and rng.random() < 0.15:
            return rng.uniform(1, 60)
        return rng.uniform(0, 0.05)

    def run(self) -> None:
        while self._events and self._events[0][0] < TROUBLE + CALM:
            self.time, _, act, who = heapq.heappop(self._events)
            if who is not None and self.time < who.paused_until:
                self.at(who.paused_until - self.time, act, who)
                continue
            if who is not None and self.time < TROUBLE and self._rng.random() < 0.03:
                who.paused_until = self.time + self._rng.uniform(1, 40)
            act()
            self._check()

    def _check(self) -> None:
        leading = {each.election.identity: each.term for each in self.candidates if each.term}
        assert len(leading) <= 1, f"at {self.time}: {leading}"
        for name, term in leading.items():
            assert term is not None
            assert self.terms.setdefault(term.transitions, name) == name


@settings(max_examples=SEEDS, deadline=None)
@given(seed=st.integers(0, 2**32), candidates=st.integers(1, 4))
def test_whatever_happens_no_two_lead_and_terms_are_numbered(seed: int, candidates: int) -> None:
    world = World(seed, candidates)
    world.run()
    numbers = [number for _, number in world.server.history]
    assert numbers == sorted(numbers)
    holders: dict[int, set[str]] = {}
    for holder, number in world.server.history:
        holders.setdefault(number, set()).add(holder)
    assert all(len(names) == 1 for names in holders.values())
    assert [each for each in world.candidates if each.term], "nobody leads once all is calm"


def test_a_leader_stops_by_itself_before_another_may_begin() -> None:
    election = LeaderElector("me", TIMING, Random(1), lambda: 0.0)
    election.looked(None, 100.0)
    act = election.next(100.0)
    assert isinstance(act, WriteLease)
    election.wrote(lease(act.spec), sent=100.0, now=104.0)
    assert election.term(109.9) is not None
    assert election.term(110.0) is None, "it counts from when it was sent, not from when it was answered"

    other = LeaderElector("other", TIMING, Random(1), lambda: 0.0)
    other.looked(lease(act.spec), 100.0)
    assert not isinstance(other.next(114.9), WriteLease)
    other.looked(lease(act.spec), 115.0)
    takeover = other.next(115.0)
    assert isinstance(takeover, WriteLease)
    assert (takeover.spec["holderIdentity"], takeover.spec["leaseTransitions"]) == ("other", 1)


def test_whoever_left_a_lease_behind_leads_nobody() -> None:
    spec = {"holderIdentity": "gone", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00Z"}
    election = LeaderElector("me", TIMING, Random(1), lambda: 0.0)
    election.looked(lease(spec), 0.0)
    assert (election.holder, election.leader) == ("gone", "")
    election.looked(lease(spec), 2.0)
    assert election.leader == "", "it has not been seen to do anything"
    election.looked(lease({**spec, "renewTime": "2026-01-01T00:00:02Z"}), 4.0)
    assert election.leader == "gone"

    watching = LeaderElector("me", TIMING, Random(1), lambda: 0.0)
    watching.looked(None, 0.0)
    watching.looked(lease(spec), 2.0)
    assert watching.leader == "gone", "it came while it was looked for"


def test_an_answer_that_comes_too_late_makes_no_leader() -> None:
    election = LeaderElector("me", TIMING, Random(1), lambda: 0.0)
    election.looked(None, 0.0)
    act = election.next(0.0)
    assert isinstance(act, WriteLease)
    election.wrote(lease(act.spec), sent=0.0, now=40.0)
    assert election.term(40.0) is None


def test_a_holder_that_comes_back_begins_another_term() -> None:
    election = LeaderElector("me", TIMING, Random(1), lambda: 0.0)
    election.looked(None, 0.0)
    first = election.next(0.0)
    assert isinstance(first, WriteLease)
    election.wrote(lease(first.spec), sent=0.0, now=0.0)
    election.failed(11.0)
    assert election.term(11.0) is None
    election.looked(lease(first.spec), 14.0)
    again = election.next(14.0)
    assert isinstance(again, WriteLease)
    assert again.spec["leaseTransitions"] == first.spec["leaseTransitions"] + 1


def test_what_others_keep_in_a_lease_is_kept() -> None:
    election = LeaderElector("me", TIMING, Random(1), lambda: 0.0)
    election.looked(lease({"strategy": "OldestEmulationVersion", "leaseTransitions": 4}), 0.0)
    act = election.next(0.0)
    assert isinstance(act, WriteLease)
    assert (act.spec["strategy"], act.spec["leaseTransitions"]) == ("OldestEmulationVersion", 5)


@pytest.mark.parametrize("timing", [(10, 10, 2), (15, 2, 2), (15, 10, 0), (3, 2, 1.9)])
def test_timings_that_could_have_two_leaders_are_refused(timing: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="must be longer"):
        LeaseTiming(*timing)


def lease(spec: dict[str, object]) -> Object:
    metadata = {"name": "l", "namespace": "n", "uid": "u", "resourceVersion": "1"}
    return Object(Lease, {"metadata": metadata, "spec": spec})
