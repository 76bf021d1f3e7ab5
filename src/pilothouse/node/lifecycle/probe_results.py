"""From single probe results to a verdict, by ``successThreshold`` and ``failureThreshold``.

    score = PASSED                                    # the liveness of a container that has just started
    score = with_result(score, False, probe)          # one failure of three: the verdict stays
    score.verdict

A probe that could not run has no result.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec


class ProbeScore(msgspec.Struct, frozen=True):
    """The results of one probe of one instance so far."""

    verdict: bool | None = None
    """None before the first threshold is reached."""
    last: bool | None = None
    streak: int = 0
    """How many results in a row were like the last."""
    output: str = ""
    """The output of the last failure."""


UNKNOWN: Final = ProbeScore()
PASSED: Final = ProbeScore(verdict=True)
FAILED: Final = ProbeScore(verdict=False)


def with_result(score: ProbeScore, result: bool, probe: Mapping[str, Any], output: str = "") -> ProbeScore:
    streak = score.streak + 1 if score.last == result else 1
    asked = probe.get("successThreshold") or 1 if result else probe.get("failureThreshold") or 3
    verdict = result if streak >= asked else score.verdict
    return ProbeScore(verdict, result, streak, output if not result else "")
