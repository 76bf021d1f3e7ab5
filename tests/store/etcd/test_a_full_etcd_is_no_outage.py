"""An etcd whose quota is used up: what grows is refused as by a full disk, what deletes is taken."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.kit.etcd import EtcdServer

from pilothouse.store.etcd import EtcdStore
from pilothouse.store.interface import NoSpace

pytestmark = pytest.mark.etcd

QUOTA = 2 * 1024 * 1024


async def test_writes_are_refused_for_lack_of_space_and_deletes_go_on(tmp_path: Path) -> None:
    server = EtcdServer.start(tmp_path / "etcd", options={"quota-backend-bytes": str(QUOTA)})
    try:
        store = await EtcdStore.open([server.endpoint])
        try:
            first = await store.create("/a/0", b"x" * 100_000)
            with pytest.raises(NoSpace, match="etcd is full"):
                await _fill(store)
            with pytest.raises(NoSpace):
                await store.update("/a/0", b"y", revision=first)
            await store.delete("/a/0", revision=first)
            assert await store.get("/a/0") is None
        finally:
            await store.close()
    finally:
        server.stop()


async def _fill(store: EtcdStore) -> None:
    # etcd counts what is on its disk, which lags behind.
    for number in range(1, 1000):
        await store.create(f"/a/{number}", b"x" * 100_000)
