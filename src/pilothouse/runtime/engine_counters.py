"""What an engine has done so far, in numbers."""

from __future__ import annotations

from collections import Counter

from pilothouse.base.histogram import Histogram
from pilothouse.runtime.reconcile_result import ReconcileResult

BOUNDS = (0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0)
"""Of the time a decision takes, with what is done for it: seconds."""


class EngineCounters:
    """Counts of one controller's decisions."""

    def __init__(self) -> None:
        self.decisions: Counter[str] = Counter()
        """By how they stand."""
        self.acts: Counter[tuple[str, str]] = Counter()
        """By verb and outcome."""
        self.refused = 0
        """Decisions that the world had overtaken."""
        self.errors = 0
        """Functions that broke."""
        self.seconds = Histogram(BOUNDS)

    def count(self, result: ReconcileResult, seconds: float) -> None:
        """Another decision."""
        self.decisions[result.standing] += 1
        self.refused += result.refused
        self.errors += bool(result.error)
        for act in result.acts:
            self.acts[act.intent.verb, str(act.outcome)] += 1
        self.seconds.observe(seconds)
