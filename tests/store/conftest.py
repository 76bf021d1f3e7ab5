"""The backends, as fixtures. `store` runs a test on each of them."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.kit.etcd import EtcdServer
from tests.store.backends import (
    Backend,
    EtcdBackend,
    MemoryBackend,
    SealedBackend,
    ShiftedBackend,
    SqliteBackend,
    TimedBackend,
)

from pilothouse.store.interface import Store


@pytest.fixture(scope="session")
def etcd_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServer]:
    server = EtcdServer.start(tmp_path_factory.mktemp("etcd"))
    yield server
    server.stop()


@pytest.fixture(
    params=["memory", "sealed", "shifted", "sqlite", "timed", pytest.param("etcd", marks=pytest.mark.etcd)]
)
async def backend(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Backend]:
    """A backend and the stores that a test opens on it; all are closed at the end."""
    made: Backend
    if request.param == "memory":
        made = MemoryBackend()
    elif request.param == "sealed":
        made = SealedBackend(tmp_path / "store")
    elif request.param == "shifted":
        made = ShiftedBackend(tmp_path / "store")
    elif request.param == "timed":
        made = TimedBackend(tmp_path / "store")
    elif request.param == "sqlite":
        made = SqliteBackend(tmp_path / "store")
    else:
        server: EtcdServer = request.getfixturevalue("etcd_server")
        made = EtcdBackend(server.endpoint, prefix=f"/{uuid.uuid4().hex}")
    yield made
    await made.close()


@pytest.fixture
async def store(backend: Backend) -> Store:
    return await backend.open()
