"""What was left out and why, at the end of the run: one line for each reason, with how many tests it concerns.

112 tests were skipped:
   87  it mounts a filesystem or becomes another user, which only root may
   25  there is no java for pods; Debian has it as openjdk-17-jre-headless
"""

from __future__ import annotations

from collections import Counter

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reasons = Counter(
        str(report.longrepr[2]).removeprefix("Skipped: ")
        for report in terminalreporter.getreports("skipped")
        if isinstance(report.longrepr, tuple)
    )
    if reasons:
        terminalreporter.section(f"{sum(reasons.values())} tests were skipped")
        for reason, count in reasons.most_common():
            terminalreporter.write_line(f"{count:5d}  {reason}")
