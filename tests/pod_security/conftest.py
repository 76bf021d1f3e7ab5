from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.kit.core import CoreServer
from tests.pod_security.scenes import Plane


@pytest.fixture
def plane() -> Iterator[Plane]:
    """A server with Kubernetes' defaults: what no label forbids is allowed."""
    with CoreServer() as server:
        yield Plane(server)
