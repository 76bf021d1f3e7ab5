"""What the results of probes add up to.

    score = PASSED                                    # a container is alive until shown otherwise
    score = with_result(score, False, probe)          # one failure of three: the verdict stays
    score.verdict

A verdict changes when as many results in a row say so as the probe's threshold asks for. A prober that could not ask gives no
result, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec


class ProbeScore(msgspec.Struct, frozen=True):
    """The standing of one probe of one instance."""

    verdict: bool | None = None
    """None before there is one."""
    last: bool | None = None
    streak: int = 0
    """How many results in a row have been as the last."""
    output: str = ""
    """What the last failure said."""


UNKNOWN: Final = ProbeScore()
PASSED: Final = ProbeScore(verdict=True)
FAILED: Final = ProbeScore(verdict=False)


def with_result(score: ProbeScore, result: bool, probe: Mapping[str, Any], output: str = "") -> ProbeScore:
    """The standing after one more result."""
    streak = score.streak + 1 if score.last == result else 1
    asked = probe.get("successThreshold") or 1 if result else probe.get("failureThreshold") or 3
    verdict = result if streak >= asked else score.verdict
    return ProbeScore(verdict, result, streak, output if not result else "")
