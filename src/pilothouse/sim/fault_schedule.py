"""Fault schedules: what fails, and when, drawn by a seed or given.

    faults = SeededFaults(seed=7, profile=FREQUENT_FAULTS, managers=["m0"], nodes=["n0"])
    faults.at("m0", FaultPoint.WRITE, 12)    # PlannedFault(…CRASH_AFTER) or None
    faults.happened                          # the faults injected so far
    FixedFaults(faults.happened[:3])         # a run with only these

A *planned fault* has an address: write 12 of manager m0, chunk 40 of its watches, second 95. So a failing run
can be shrunk to fewer faults. Delays and clock skew have no address: they come from the seed alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from random import Random
from typing import Protocol

import msgspec


class FaultPoint(Enum):
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


class FaultProfile(msgspec.Struct, frozen=True):
    """How often faults are injected, and how large delays and clock skew are."""

    rates: Mapping[Fault, float] = {}
    """Probabilities, for one request or one chunk of a watch."""
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
    {
        Fault.LOST_BEFORE: 0.02,
        Fault.LOST_AFTER: 0.02,
        Fault.CONFLICT: 0.02,
        Fault.CRASH_BEFORE: 0.005,
        Fault.CRASH_AFTER: 0.005,
        Fault.STALL: 0.005,
        Fault.READ_LOST: 0.02,
        Fault.CUT: 0.02,
        Fault.REPEATED: 0.02,
        Fault.HELD: 0.01,
    },
    process_faults=25.0,
    delay=0.2,
    lag=1.0,
    skew=20.0,
)

HORIZON = 3600
CLOCK_JUMP = 60.0
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
}


class FaultSource(Protocol):
    """Decides which faults are injected."""

    @property
    def happened(self) -> Sequence[PlannedFault]: ...

    def at(self, who: str, point: FaultPoint, number: int) -> PlannedFault | None:
        """The fault at this address, if any; asked once."""

    def process_faults(self) -> Sequence[PlannedFault]:
        """The faults of whole processes, by the second."""

    def record(self, planned: PlannedFault) -> None:
        """Note that the fault of a process was injected."""

    def calm(self) -> None:
        """Inject no more faults."""


class _Faults:
    def __init__(self) -> None:
        self.happened: list[PlannedFault] = []
        self._is_calm = False

    def calm(self) -> None:
        self._is_calm = True

    def record(self, planned: PlannedFault) -> None:
        self.happened.append(planned)


class SeededFaults(_Faults):
    """Faults drawn by a seed."""

    def __init__(
        self,
        seed: int,
        profile: FaultProfile,
        *,
        managers: Sequence[str],
        nodes: Sequence[str],
        clock_jump: float = CLOCK_JUMP,
    ) -> None:
        """``clock_jump``: how many seconds a clock is changed by at most, either way."""
        super().__init__()
        self._seed = seed
        self._rates = profile.rates
        self._rngs: dict[tuple[str, FaultPoint], Random] = {}
        self._process_faults = _process_faults(
            Random(f"troubles {seed}"), profile.process_faults, managers, nodes, clock_jump
        )

    def at(self, who: str, point: FaultPoint, number: int) -> PlannedFault | None:
        if self._is_calm:
            return None
        rng = self._rngs.get((who, point))
        if rng is None:
            rng = self._rngs[who, point] = Random(f"{who} {point.value} {self._seed}")
        drawn = rng.random()
        for fault in _FAULTS_AT[point]:
            rate = self._rates.get(fault, 0.0)
            if drawn < rate:
                seconds = rng.uniform(*_LASTING[fault]) if fault in _LASTING else 0.0
                planned = PlannedFault(who, point, number, fault, seconds)
                self.happened.append(planned)
                return planned
            drawn -= rate
        return None

    def process_faults(self) -> Sequence[PlannedFault]:
        return self._process_faults


class FixedFaults(_Faults):
    """Exactly these faults."""

    def __init__(self, faults: Iterable[PlannedFault], *, whenever: bool = False) -> None:
        """``whenever``: also after ``calm``."""
        super().__init__()
        self._whenever = whenever
        self._process_faults: list[PlannedFault] = []
        self._at: dict[tuple[str, FaultPoint, int], PlannedFault] = {}
        for each in faults:
            if each.point is FaultPoint.SECOND:
                self._process_faults.append(each)
            else:
                self._at[each.who, each.point, each.number] = each

    def at(self, who: str, point: FaultPoint, number: int) -> PlannedFault | None:
        planned = self._at.get((who, point, number)) if self._whenever or not self._is_calm else None
        if planned is not None:
            self.happened.append(planned)
        return planned

    def process_faults(self) -> Sequence[PlannedFault]:
        return sorted(self._process_faults, key=lambda each: each.number)


def _process_faults(
    rng: Random, every: float, managers: Sequence[str], nodes: Sequence[str], clock_jump: float
) -> list[PlannedFault]:
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
    durations = {**_LASTING, Fault.CLOCK: (-clock_jump, clock_jump)}
    if nodes:
        strikes.append((Fault.UNPLUG, nodes))
    while True:
        second += rng.expovariate(1 / every)
        if second >= HORIZON:
            return found
        fault, those = rng.choice(strikes)
        lasting = rng.uniform(*durations[fault]) if fault in durations else 0.0
        found.append(
            PlannedFault(rng.choice(those), FaultPoint.SECOND, int(second), fault, round(lasting, 3))
        )
