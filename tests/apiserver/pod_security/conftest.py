from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.apiserver.pod_security.scenes import Plane
from tests.kit.core import CoreServer


@pytest.fixture
def plane() -> Iterator[Plane]:
    """A server with Kubernetes' defaults: what no label forbids is allowed."""
    with CoreServer() as server:
        yield Plane(server)
