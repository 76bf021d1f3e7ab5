"""A control plane that a machine can join: an API server and a controller-manager."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.cli.running import pilothouse
from tests.kit.managers import started
from tests.kit.pilothouse_server import PilothouseServer


@dataclass(frozen=True)
class Plane:
    """A server, asked by its administrator."""

    server: PilothouseServer

    @property
    def kubeconfig(self) -> Path:
        return self.server.target.kubeconfig

    def token(self, *flags: str) -> str:
        done = pilothouse("token", "create", "--kubeconfig", str(self.kubeconfig), *flags)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    folder = tmp_path_factory.mktemp("plane")
    server = PilothouseServer(folder, "sqlite")
    try:
        manager = started(server.target.kubeconfig, folder)
        try:
            yield Plane(server)
        finally:
            manager.end()
    finally:
        server.close()
