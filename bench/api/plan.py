"""All measures of a run, one by one, so that what one needs is gone before the next begins.

for measure in measures(stage, wrk, seconds=2, only=frozenset({"get", "patch"})):
    result = take(measure, rounds=5)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from bench.api.reads import reads
from bench.api.rounds import Measure
from bench.api.stage import Stage
from bench.api.standing import standing
from bench.api.watches import crowds, watches
from bench.api.writes import writes
from bench.api.wrk import Wrk

READS = frozenset({"get", "list"})
WRITES = frozenset({"create", "update", "patch"})
WATCHES = frozenset({"watch"})
CROWDS = frozenset({"crowd"})
STANDING = frozenset({"start", "memory"})
NAMES = READS | WRITES | WATCHES | CROWDS | STANDING


def measures(stage: Stage, wrk: Wrk, *, seconds: int, only: frozenset[str]) -> Iterator[Measure]:
    groups: tuple[tuple[frozenset[str], Callable[[], Iterator[Measure]]], ...] = (
        (READS, lambda: reads(stage, wrk, seconds)),
        (WRITES, lambda: writes(stage, wrk, seconds)),
        (WATCHES, lambda: watches(stage)),
        (CROWDS, lambda: crowds(stage)),
        (STANDING, lambda: standing(stage)),
    )
    for names, group in groups:
        if names & only:
            yield from (measure for measure in group() if measure.name in only)
