from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.node.stage import Stage

from pilothouse.sim.loop import SeededLoop


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with SeededLoop(seed=1) as loop:
        yield Stage(loop, tmp_path)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Agents that are killed on purpose say a great deal about it."""
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)
