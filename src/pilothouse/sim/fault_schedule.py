"""Fault schedules: what fails, and when, drawn by a seed or given.

    fault_source = SeededFaults(seed=7, profile=FREQUENT_FAULTS, managers=["m0"], nodes=["n0"])
    fault_source.at("m0", FaultPoint.WRITE, 12)    # PlannedFault(…CRASH_AFTER) or None
    fault_source.happened                          # the faults injected so far
    FixedFaults(fault_source.happened[:3])         # a run with only these

A *planned fault* has an address: write 12 of manager m0, chunk 40 of its watches, second 95. So a run can be
repeated with fewer faults, which is how a failure is shrunk. Delays and clock skew have no address: they come
from the seed alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from random import Random
from typing import Protocol

import msgspec


class FaultPoint(Enum):
    """Where a fault is injected."""

    WRITE = "write"
    READ = "read"
    CHUNK = "piece of a watch"
    SECOND = "second"


class Fault(Enum):
    """The faults, with the words that describe them in a report."""

    # with a write
    LOST_BEFORE = "is lost on the way to the server"
    LOST_AFTER = "is executed, and its answer is lost"
    CONFLICT = "is refused with a conflict"
    CRASH_BEFORE = "is not sent: the process crashes before"
    CRASH_AFTER = "is executed: the process crashes before the answer"
    STALL = "is delayed: the process pauses before"
    # with a read
    READ_LOST = "is lost"
    # with a piece of a watch
    CUT = "is the last one: the watch breaks off"
    REPEATED = "arrives twice"
    HELD = "arrives late, with all that follow"
    # with a whole process, at a second
    CRASH = "crashes and is restarted"
    PAUSE = "pauses and resumes"
    PARTITION = "can't reach the server"
    RESTART = "restarts"
    FORGET = "compacts its history"
    BLACKOUT = "and all managers and nodes lose power and restart"
    CLOCK = "has its clock changed"
    UNPLUG = "is unplugged"


class PlannedFault(msgspec.Struct, frozen=True):
    """One fault and its address."""

    who: str
    point: FaultPoint
    number: int
    """Counted from 0, through all restarts of the process; for ``SECOND`` the second."""
    fault: Fault
    seconds: float = 0.0
    """The duration, if any; for ``CLOCK`` the change."""

    def __str__(self) -> str:
        word = "by" if self.fault is Fault.CLOCK else "for"
        lasting = f", {word} {self.seconds:.0f}s" if self.seconds else ""
        if self.point is FaultPoint.SECOND:
            return f"at {self.number}s {self.who} {self.fault.value}{lasting}"
        return f"{self.point.value} {self.number} of {self.who} {self.fault.value}{lasting}"


class FaultRates(msgspec.Struct, frozen=True):
    """Probabilities, for one request or one chunk of a watch."""

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
    """How often faults are injected, and how large delays and clock skew are."""

    rates: FaultRates = FaultRates()
    process_faults: float = 0.0
    """Mean seconds between two faults of whole processes; 0 is never."""
    delay: float = 0.0
    """The longest delay of a request or its answer, in seconds."""
    lag: float = 0.0
    """The longest delay of a watch, in seconds."""
    skew: float = 0.0
    """The largest clock skew, in seconds, either way."""


NO_FAULTS = FaultProfile()
FREQUENT_FAULTS = FaultProfile(
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
    process_faults=25.0,
    delay=0.2,
    lag=1.0,
    skew=20.0,
)

HORIZON = 3600
_FAULTS_AT = {
    FaultPoint.WRITE: (
        Fault.LOST_BEFORE,
        Fault.LOST_AFTER,
        Fault.CONFLICT,
        Fault.CRASH_BEFORE,
        Fault.CRASH_AFTER,
        Fault.STALL,
    ),
    FaultPoint.READ: (Fault.READ_LOST,),
    FaultPoint.CHUNK: (Fault.CUT, Fault.REPEATED, Fault.HELD),
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
    """Decides which faults are injected."""

    @property
    def happened(self) -> Sequence[PlannedFault]: ...

    def at(self, who: str, point: FaultPoint, number: int) -> PlannedFault | None:
        """The fault at this address, if any; asked once."""

    def process_faults(self) -> Sequence[PlannedFault]:
        """The faults of whole processes, by the second; ``record`` notes that one was injected."""

    def record(self, planned: PlannedFault) -> None: ...

    def calm(self) -> None:
        """Inject no more faults."""


class SeededFaults:
    """Faults drawn by a seed."""

    def __init__(
        self, seed: int, profile: FaultProfile, *, managers: Sequence[str], nodes: Sequence[str]
    ) -> None:
        self._seed = seed
        self._rates = profile.rates
        self._is_calm = False
        self._rngs: dict[tuple[str, FaultPoint], Random] = {}
        self._process_faults = _process_faults(
            Random(f"troubles {seed}"), profile.process_faults, managers, nodes
        )
        self._happened: list[PlannedFault] = []

    @property
    def happened(self) -> Sequence[PlannedFault]:
        return self._happened

    def calm(self) -> None:
        self._is_calm = True

    def at(self, who: str, point: FaultPoint, number: int) -> PlannedFault | None:
        if self._is_calm:
            return None
        rng = self._rngs.get((who, point))
        if rng is None:
            rng = self._rngs[who, point] = Random(f"{who} {point.value} {self._seed}")
        drawn = rng.random()
        for fault in _FAULTS_AT[point]:
            rate: float = getattr(self._rates, fault.name.lower())
            if drawn < rate:
                seconds = rng.uniform(*_LASTING[fault]) if fault in _LASTING else 0.0
                planned = PlannedFault(who, point, number, fault, seconds)
                self._happened.append(planned)
                return planned
            drawn -= rate
        return None

    def process_faults(self) -> Sequence[PlannedFault]:
        return self._process_faults

    def record(self, planned: PlannedFault) -> None:
        self._happened.append(planned)


class FixedFaults:
    """Exactly these faults."""

    def __init__(self, faults: Iterable[PlannedFault], *, whenever: bool = False) -> None:
        """``whenever``: also after ``calm``."""
        self._whenever = whenever
        self._is_calm = False
        self._process_faults: list[PlannedFault] = []
        self._at: dict[tuple[str, FaultPoint, int], PlannedFault] = {}
        self._happened: list[PlannedFault] = []
        for each in faults:
            if each.point is FaultPoint.SECOND:
                self._process_faults.append(each)
            else:
                self._at[each.who, each.point, each.number] = each

    @property
    def happened(self) -> Sequence[PlannedFault]:
        return self._happened

    def at(self, who: str, point: FaultPoint, number: int) -> PlannedFault | None:
        planned = self._at.get((who, point, number)) if self._whenever or not self._is_calm else None
        if planned is not None:
            self._happened.append(planned)
        return planned

    def calm(self) -> None:
        self._is_calm = True

    def process_faults(self) -> Sequence[PlannedFault]:
        return sorted(self._process_faults, key=lambda each: each.number)

    def record(self, planned: PlannedFault) -> None:
        self._happened.append(planned)


def _process_faults(
    rng: Random, every: float, managers: Sequence[str], nodes: Sequence[str]
) -> list[PlannedFault]:
    """Faults of whole processes, up to the horizon."""
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
