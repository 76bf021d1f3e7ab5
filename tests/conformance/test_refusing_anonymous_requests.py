"""With ``--anonymous-auth=false`` whoever shows no credentials gets a 401, even at the health checks."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kit import kube
from tests.kit.http import Http
from tests.kit.kube import KubeServer
from tests.kit.pilothouse_server import PilothouseServer
from tests.kit.servers import Server, Target

pytestmark = pytest.mark.conformance

FLAG = "--anonymous-auth=false"


@pytest.fixture(scope="module")
def closed(server_name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    folder = tmp_path_factory.mktemp("closed")
    server = start(server_name, folder)
    try:
        yield server.target
    finally:
        server.close()


def start(name: str, folder: Path) -> Server:
    if name == kube.NAME:
        return KubeServer(folder, flags=(FLAG,))
    return PilothouseServer(folder, name, flags=(FLAG,))


@pytest.mark.parametrize(
    "path",
    ["/api/v1/namespaces", "/version", "/healthz", "/livez", "/readyz", "/readyz/ping", "/", "/nothing"],
)
async def test_without_credentials_nothing_is_answered(closed: Target, path: str) -> None:
    nobody = dataclasses.replace(closed.access, cert=None, key=None)
    async with Http.to(dataclasses.replace(closed, access=nobody)) as http:
        answers = [
            await http.get(path),
            await http.get(path, headers={"Authorization": "Basic YTpi"}),
            await http.get(path, headers={"Authorization": "Bearer"}),
        ]
    assert [(answer.status, answer.message) for answer in answers] == [(401, "Unauthorized")] * 3


@pytest.mark.parametrize("path", ["/api/v1/namespaces", "/version", "/healthz"])
async def test_with_credentials_everything_is_as_usual(closed: Target, path: str) -> None:
    async with Http.to(closed) as http:
        assert (await http.get(path)).status == 200
    alice = dataclasses.replace(closed.access, cert=None, key=None, token="alice-token")
    async with Http.to(dataclasses.replace(closed, access=alice)) as http:
        assert (await http.get(path)).status == (403 if path.startswith("/api") else 200)
