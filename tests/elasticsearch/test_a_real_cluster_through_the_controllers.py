"""A real Elasticsearch on `pilothouse up`: three nodes come up, one is drained and goes, a version is rolled."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.kit.harbour import Harbour, pool


@pytest.mark.long
async def test_three_nodes_become_a_green_cluster(tmp_path: Path) -> None:
    async with Harbour.open(tmp_path, versions=("8.17.0",)) as harbour:
        demo = await harbour.cluster("demo", pools=[pool("data", 3)], version="8.17.0")
        seen = await demo.until(lambda seen: seen.is_done)
        assert seen.nodes == 3
        await demo.index("books", 100)
        assert await demo.count("books") == 100
