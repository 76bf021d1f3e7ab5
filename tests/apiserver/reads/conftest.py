from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.apiserver.reads.world import World, new_world


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with new_world() as made:
        yield made
