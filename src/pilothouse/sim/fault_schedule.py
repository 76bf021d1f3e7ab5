"""What goes wrong, and when: drawn by a seed, or given.

    fortune = SeededFaults(seed=7, weather=STORMY, ...)
    fortune.at("m0", FaultPoint.WRITE, 12)        # PlannedFault(…CRASH_AFTER) or None
    fortune.happened                         # what did go wrong so far
    FixedFaults(fortune.happened[:3])              # the same again, with nothing but these

A *mishap* has an address: the twelfth write of manager m0, the fortieth piece of its watches, the second 95. So a run can be
told again with fewer of them, which is how a failure is shrunk to what it takes. Delays, and clocks that are wrong from the
beginning, are no mishaps but weather: they come from the seed alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from random import Random
from typing import Protocol

import msgspec


class FaultPoint(Enum):
    """Where a mishap strikes."""

    WRITE = "write"
    READ = "read"
    PIECE = "piece of a watch"
    SECOND = "second"


class Fault(Enum):
    """What can go wrong."""

    # with a write
    LOST_BEFORE = "is lost on the way to the server"
    LOST_AFTER = "is carried out, and its answer is lost"
    CONFLICT = "is refused, as if somebody else had been faster"
    CRASH_BEFORE = "is the last thing it wants to do: it crashes before"
    CRASH_AFTER = "is the last thing it does: it crashes before the answer"
    STALL = "is in its hand when it stands still"
    # with a read
    READ_LOST = "is lost"
    # with a piece of a watch
    CUT = "is the last: the watch breaks off"
    REPEATED = "comes twice"
    HELD = "comes late, and everything after it"
    # with a whole process, at a second
    CRASH = "crashes, and is started again"
    PAUSE = "stands still, wakes and goes on"
    PARTITION = "can't reach the server"
    RESTART = "goes down and comes up again"
    FORGET = "forgets its history"
    BLACKOUT = "and all managers and nodes lose their power, and come up again"
    CLOCK = "has its clock set"
    UNPLUG = "is unplugged"


class PlannedFault(msgspec.Struct, frozen=True):
    """One thing that goes wrong."""

    who: str
    place: FaultPoint
    number: int
    """Counted from 0, through all lives of the process; of a ``SECOND`` the second."""
    fault: Fault
    seconds: float = 0.0
    """How long it lasts, where it does; of a ``CLOCK`` by how much it is set."""

    def __str__(self) -> str:
        word = "by" if self.fault is Fault.CLOCK else "for"
        lasting = f", {word} {self.seconds:.0f}s" if self.seconds else ""
        if self.place is FaultPoint.SECOND:
            return f"at {self.number}s {self.who} {self.fault.value}{lasting}"
        return f"{self.place.value} {self.number} of {self.who} {self.fault.value}{lasting}"


class FaultRates(msgspec.Struct, frozen=True):
    """How often, of one request or piece of a watch."""

    lost_before: float = 0.0
    lost_after: float = 0.0
    conflict: float = 0.0
    crash_before: float = 0.0
    crash_after: float = 0.0
    stall: float = 0.0
    read_lost: float = 0.0
    cut: float = 0.0
    repeated: float = 0.0
    held: float = 0.0


class FaultProfile(msgspec.Struct, frozen=True):
    """How bad it gets."""

    rates: FaultRates = FaultRates()
    troubles: float = 0.0
    """Seconds between two that strike a whole process, on average; 0 is never."""
    delay: float = 0.0
    """Seconds that a request or its answer takes, at most."""
    lag: float = 0.0
    """Seconds by which a watch is behind, at most."""
    skew: float = 0.0
    """Seconds by which clocks may be wrong, either way."""


CALM = FaultProfile()
STORMY = FaultProfile(
    FaultRates(
        lost_before=0.02,
        lost_after=0.02,
        conflict=0.02,
        crash_before=0.005,
        crash_after=0.005,
        stall=0.005,
        read_lost=0.02,
        cut=0.02,
        repeated=0.02,
        held=0.01,
    ),
    troubles=25.0,
    delay=0.2,
    lag=1.0,
    skew=20.0,
)

HORIZON = 3600
_PLACES = {
    FaultPoint.WRITE: (
        Fault.LOST_BEFORE,
        Fault.LOST_AFTER,
        Fault.CONFLICT,
        Fault.CRASH_BEFORE,
        Fault.CRASH_AFTER,
        Fault.STALL,
    ),
    FaultPoint.READ: (Fault.READ_LOST,),
    FaultPoint.PIECE: (Fault.CUT, Fault.REPEATED, Fault.HELD),
}
_LASTING = {
    Fault.CRASH: (0.0, 20.0),
    Fault.PAUSE: (1.0, 45.0),
    Fault.STALL: (1.0, 45.0),
    Fault.PARTITION: (1.0, 60.0),
    Fault.RESTART: (0.0, 20.0),
    Fault.UNPLUG: (5.0, 120.0),
    Fault.BLACKOUT: (0.0, 60.0),
    Fault.HELD: (2.0, 40.0),
    Fault.CLOCK: (-60.0, 60.0),
}


class FaultSource(Protocol):
    """Who says what goes wrong."""

    @property
    def happened(self) -> Sequence[PlannedFault]: ...

    def at(self, who: str, place: FaultPoint, number: int) -> PlannedFault | None:
        """What happens here; asked once."""

    def troubles(self) -> Sequence[PlannedFault]:
        """Those that strike whole processes, by the second. They have not happened until ``struck``."""

    def struck(self, mishap: PlannedFault) -> None: ...

    def calm(self) -> None:
        """The time of trouble is over."""


class SeededFaults:
    """By a seed."""

    def __init__(
        self, seed: int, weather: FaultProfile, *, managers: Sequence[str], nodes: Sequence[str]
    ) -> None:
        self._seed = seed
        self._rates = weather.rates
        self._is_calm = False
        self._rngs: dict[tuple[str, FaultPoint], Random] = {}
        self._troubles = _troubles(Random(f"troubles {seed}"), weather.troubles, managers, nodes)
        self._happened: list[PlannedFault] = []

    @property
    def happened(self) -> Sequence[PlannedFault]:
        return self._happened

    def calm(self) -> None:
        self._is_calm = True

    def at(self, who: str, place: FaultPoint, number: int) -> PlannedFault | None:
        if self._is_calm:
            return None
        rng = self._rngs.get((who, place))
        if rng is None:
            rng = self._rngs[who, place] = Random(f"{who} {place.value} {self._seed}")
        drawn = rng.random()
        for fault in _PLACES[place]:
            rate: float = getattr(self._rates, fault.name.lower())
            if drawn < rate:
                seconds = rng.uniform(*_LASTING[fault]) if fault in _LASTING else 0.0
                mishap = PlannedFault(who, place, number, fault, seconds)
                self._happened.append(mishap)
                return mishap
            drawn -= rate
        return None

    def troubles(self) -> Sequence[PlannedFault]:
        return self._troubles

    def struck(self, mishap: PlannedFault) -> None:
        self._happened.append(mishap)


class FixedFaults:
    """These, and nothing else."""

    def __init__(self, mishaps: Iterable[PlannedFault], *, whenever: bool = False) -> None:
        """``whenever`` has them happen in the calm as well."""
        self._whenever = whenever
        self._is_calm = False
        self._troubles: list[PlannedFault] = []
        self._at: dict[tuple[str, FaultPoint, int], PlannedFault] = {}
        self._happened: list[PlannedFault] = []
        for each in mishaps:
            if each.place is FaultPoint.SECOND:
                self._troubles.append(each)
            else:
                self._at[each.who, each.place, each.number] = each

    @property
    def happened(self) -> Sequence[PlannedFault]:
        return self._happened

    def at(self, who: str, place: FaultPoint, number: int) -> PlannedFault | None:
        mishap = self._at.get((who, place, number)) if self._whenever or not self._is_calm else None
        if mishap is not None:
            self._happened.append(mishap)
        return mishap

    def calm(self) -> None:
        self._is_calm = True

    def troubles(self) -> Sequence[PlannedFault]:
        return sorted(self._troubles, key=lambda each: each.number)

    def struck(self, mishap: PlannedFault) -> None:
        self._happened.append(mishap)


def _troubles(rng: Random, every: float, managers: Sequence[str], nodes: Sequence[str]) -> list[PlannedFault]:
    """As many as fit into the longest script; those after its end never strike."""
    found: list[PlannedFault] = []
    if not every:
        return found
    second = 0.0
    strikes: list[tuple[Fault, Sequence[str]]] = [
        (Fault.CRASH, managers),
        (Fault.PAUSE, managers),
        (Fault.PAUSE, managers),
        (Fault.PARTITION, managers),
        (Fault.CLOCK, managers),
        (Fault.RESTART, ("server",)),
        (Fault.FORGET, ("server",)),
        (Fault.BLACKOUT, ("server",)),
    ]
    if nodes:
        strikes.append((Fault.UNPLUG, nodes))
    while True:
        second += rng.expovariate(1 / every)
        if second >= HORIZON:
            return found
        fault, those = rng.choice(strikes)
        lasting = rng.uniform(*_LASTING[fault]) if fault in _LASTING else 0.0
        found.append(
            PlannedFault(rng.choice(those), FaultPoint.SECOND, int(second), fault, round(lasting, 3))
        )
