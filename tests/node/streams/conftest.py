from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.kit.kubectl import Binary, Kubectl, installed
from tests.kit.stream_node import Plane, StreamNode
from tests.kit.stream_node import plane as running_plane

OLDEST = 30
"""kubectl 1.30 is the first that speaks WebSockets of itself."""


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    with running_plane(tmp_path_factory.mktemp("plane")) as made:
        yield made


@pytest.fixture
async def node(plane: Plane, tmp_path: Path) -> AsyncIterator[StreamNode]:
    async with StreamNode.serving(plane, tmp_path / "containers") as made:
        yield made


SPEAKING = [each for each in installed() if each.minor >= OLDEST]


def _chosen() -> list[Any]:
    """Every kubectl that speaks WebSockets; the first and the last of them always, the others in long runs."""
    return [
        pytest.param(each, id=each.version, marks=[pytest.mark.long] if 0 < index < len(SPEAKING) - 1 else [])
        for index, each in enumerate(SPEAKING)
    ]


@pytest.fixture(params=_chosen())
def binary(request: pytest.FixtureRequest) -> Binary:
    found: Binary = request.param
    return found


@pytest.fixture
def kubectl(binary: Binary, plane: Plane, tmp_path_factory: pytest.TempPathFactory) -> Kubectl:
    home = tmp_path_factory.getbasetemp() / f"kubectl-{binary.version}"
    return Kubectl(binary, plane.server.target.kubeconfig, home)
