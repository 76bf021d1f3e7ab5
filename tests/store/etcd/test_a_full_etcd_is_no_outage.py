"""An etcd whose quota is used up: what grows is refused as by a full disk, what deletes is taken."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.kit.etcd import EtcdServer

from pilothouse.store.etcd import EtcdStore
from pilothouse.store.interface import NoSpace

pytestmark = pytest.mark.etcd

QUOTA = 1_300_000
TOO_LARGE = b"x" * 1_400_000
"""In one stroke, since what is on etcd's disk lags behind: once that is beyond the quota, etcd refuses deletes too."""


async def test_writes_are_refused_for_lack_of_space_and_deletes_go_on(tmp_path: Path) -> None:
    server = EtcdServer.start(tmp_path / "etcd", options={"quota-backend-bytes": str(QUOTA)})
    try:
        store = await EtcdStore.open([server.endpoint])
        try:
            first = await store.create("/a/0", b"x" * 100_000)
            with pytest.raises(NoSpace, match="etcd is full"):
                await store.create("/a/1", TOO_LARGE)
            with pytest.raises(NoSpace):
                await store.update("/a/0", b"y", revision=first)
            await store.delete("/a/0", revision=first)
            assert await store.get("/a/0") is None
        finally:
            await store.close()
    finally:
        server.stop()
