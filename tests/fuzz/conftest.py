"""One core for a whole module: what an earlier example left behind is part of what a later one meets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.fuzz.samples import Samples
from tests.kit.core import CoreServer


@pytest.fixture(scope="module")
def server() -> Iterator[CoreServer]:
    with CoreServer() as running:
        yield running


@pytest.fixture(scope="module")
def samples(server: CoreServer) -> Samples:
    return Samples(server)
