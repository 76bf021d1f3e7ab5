"""Figures that a test found, told at the end of the run.

    def test_…(tell: Tell) -> None:
        tell("2,500 questions about rights got the same answers")

They are the test's own counts, so that a log shows how much was tried and not only that nothing failed.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

Tell = Callable[[str], None]
_PROPERTY = "told"


@pytest.fixture
def tell(record_property: Callable[[str, object], None]) -> Tell:
    return lambda line: record_property(_PROPERTY, line)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    told = [
        f"{report.nodeid}: {line}"
        for report in terminalreporter.getreports("passed")
        for name, line in report.user_properties
        if name == _PROPERTY
    ]
    if told:
        terminalreporter.section("what was tried")
        for line in told:
            terminalreporter.write_line(line)
