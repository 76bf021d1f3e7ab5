"""A core of one's own, empty but for what every server has."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.kit.core import CoreServer


@pytest.fixture
def server() -> Iterator[CoreServer]:
    with CoreServer() as running:
        yield running
