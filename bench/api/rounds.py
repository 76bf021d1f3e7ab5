"""Measuring by turns: every round asks each contender once, and the median of the rounds is its figure.

    measure = Measure("get", "GET, 16 clients", "/s", {"sqlite": …, "kube": …}, [Aim("sqlite", "kube", at_least=4)])
    result = take(measure, rounds=5)
    [row.ratio for row in result.rows()]

A machine that slows down for a while slows all contenders of that round down, so ratios hold where figures do not. The
order turns with each round, so that nobody always follows the same neighbour.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

Sample = Callable[[], float]


@dataclass(frozen=True)
class Aim:
    """What our figure should be: as a ratio to another contender's, or as it stands if there is none."""

    ours: str
    other: str | None
    at_least: float | None = None
    at_most: float | None = None

    def met(self, value: float) -> bool | None:
        if self.at_least is not None:
            return value >= self.at_least
        if self.at_most is not None:
            return value <= self.at_most
        return None

    def __str__(self) -> str:
        if self.at_least is not None:
            return f"≥ {self.at_least:.3g}"
        return f"≤ {self.at_most:.3g}" if self.at_most is not None else ""


@dataclass(frozen=True)
class Measure:
    """One thing to measure, of several contenders."""

    name: str
    title: str
    unit: str
    samples: Mapping[str, Sample]
    aims: Sequence[Aim]


@dataclass(frozen=True)
class Row:
    """A line of the table. The spread is half the range of our rounds, as a share of the median."""

    title: str
    unit: str
    ours: str
    figure: float
    spread: float
    other: str | None
    theirs: float | None
    ratio: float | None
    aim: str
    met: bool | None


@dataclass(frozen=True)
class Result:
    measure: Measure
    figures: dict[str, list[float]] = field(default_factory=dict)

    def rows(self) -> Iterator[Row]:
        for aim in self.measure.aims:
            taken = self.figures[aim.ours]
            figure = statistics.median(taken)
            theirs = statistics.median(self.figures[aim.other]) if aim.other else None
            ratio = figure / theirs if theirs else None
            yield Row(
                title=self.measure.title,
                unit=self.measure.unit,
                ours=aim.ours,
                figure=figure,
                spread=(max(taken) - min(taken)) / 2 / figure,
                other=aim.other,
                theirs=theirs,
                ratio=ratio,
                aim=str(aim),
                met=aim.met(ratio if ratio is not None else figure),
            )


def take(measure: Measure, *, rounds: int) -> Result:
    result = Result(measure, {name: [] for name in measure.samples})
    turns = list(measure.samples.items())
    for _ in range(rounds):
        for name, sample in turns:
            result.figures[name].append(sample())
        turns = turns[1:] + turns[:1]
    return result
