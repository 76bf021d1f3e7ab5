from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kit.control_planes import UpPlane


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[UpPlane]:
    with UpPlane(tmp_path) as plane:
        yield plane
