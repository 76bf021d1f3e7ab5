"""The end of a worker: at once, since xdist interrupts one that takes more than five seconds.

pytest looks for garbage at the end, through everything that thousands of tests have left in memory. When a worker does that,
all of its tests have been told of; an interrupt then would be printed as if something had gone wrong.
"""

from __future__ import annotations

import gc

import pytest


def pytest_unconfigure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        gc.freeze()
