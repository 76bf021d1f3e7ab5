"""Exponential back-off.

Backoff(first=0.5, factor=2.0, longest=30.0).after(3)   # 2.0
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    first: float
    factor: float
    longest: float

    def after(self, failures: int) -> float:
        """Seconds to wait after this many failures in a row; 0 after none."""
        if failures <= 0:
            return 0.0
        pause = self.first
        for _ in range(failures - 1):
            pause *= self.factor
            if pause >= self.longest:
                return self.longest
        return min(pause, self.longest)
