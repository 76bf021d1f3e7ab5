"""Counters of one engine, for metrics."""

from __future__ import annotations

from collections import Counter

from pilothouse.base.histogram import Histogram
from pilothouse.runtime.reconcile_result import ReconcileResult

BOUNDS = (0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0)
"""Bucket bounds of a reconcile's duration, in seconds."""


class EngineCounters:
    def __init__(self) -> None:
        self.decisions: Counter[str] = Counter()
        """By outcome."""
        self.executed: Counter[tuple[str, str]] = Counter()
        """Intents by verb and outcome."""
        self.refused = 0
        """Decisions with a write that conflicted."""
        self.errors = 0
        """Decision functions and mappers that raised."""
        self.seconds = Histogram(BOUNDS)

    def count(self, result: ReconcileResult, seconds: float) -> None:
        self.decisions[result.standing] += 1
        self.refused += result.refused
        self.errors += bool(result.error)
        for each in result.executed:
            self.executed[each.intent.verb, str(each.outcome)] += 1
        self.seconds.observe(seconds)
