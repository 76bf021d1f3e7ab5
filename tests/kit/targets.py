"""The servers that a suite runs against, as pytest fixtures.

    pytest tests/conformance                        # ours, on SQLite and on etcd
    pytest tests/conformance --target=kube          # a real kube-apiserver
    PILOTHOUSE_TARGET=memory pytest tests/kubernetes_clients

A test that asks for `server`, `target`, `http`, `ns` or `dbs` runs once for each chosen target. Servers live as long
as the session; each test has a namespace of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.kit import kube, pilothouse_server
from tests.kit.databases import Databases, install
from tests.kit.http import Http
from tests.kit.kubectl import Kubectl, newest
from tests.kit.servers import Server, Target

DEFAULT = "sqlite,etcd"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--target",
        default=os.environ.get("PILOTHOUSE_TARGET") or DEFAULT,
        help=f"API servers to test, comma-separated: kube, {', '.join(pilothouse_server.STORES)} (default {DEFAULT})",
    )


def chosen(config: pytest.Config) -> list[str]:
    names = [name.strip() for name in str(config.getoption("--target")).split(",")]
    if unknown := set(names) - {kube.NAME, *pilothouse_server.STORES}:
        raise pytest.UsageError(f"--target: no server called {', '.join(unknown)}")
    return names


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "server_name" in metafunc.fixturenames:
        metafunc.parametrize("server_name", chosen(metafunc.config), scope="session")


class Fleet:
    """The servers of one test run, each started when first asked for."""

    def __init__(self, folder: Path, stack: contextlib.ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self._servers: dict[str, Server] = {}

    def get(self, name: str) -> Server:
        if name not in self._servers:
            folder = self._folder / name
            folder.mkdir(parents=True)
            server = (
                kube.KubeServer(folder)
                if name == kube.NAME
                else pilothouse_server.PilothouseServer(folder, name)
            )
            self._stack.callback(server.close)
            self._servers[name] = server
        return self._servers[name]


@pytest.fixture(scope="session")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with contextlib.ExitStack() as stack:
        yield Fleet(tmp_path_factory.mktemp("servers"), stack)


@pytest.fixture(scope="session")
def server(server_name: str, fleet: Fleet) -> Server:
    return fleet.get(server_name)


@pytest.fixture
def lasting(server: Server) -> Server:
    """A server whose objects outlive its process."""
    if server.target.name == "memory":
        pytest.skip("it restarts the server, and what a memory store holds ends with the process")
    return server


@pytest.fixture(scope="session")
def target(server: Server) -> Target:
    return server.target


@pytest.fixture(scope="session")
def kinds(target: Target) -> None:
    """The Database and Region kinds, defined and served."""

    async def define_them() -> None:
        async with Http.to(target) as client:
            await install(client)

    asyncio.run(define_them())


@pytest.fixture
async def http(target: Target, kinds: None) -> AsyncIterator[Http]:
    """Raw HTTP to the target, the Database and Region kinds defined there."""
    async with Http.to(target) as client:
        yield client


@pytest.fixture
async def ns(http: Http) -> str:
    """A namespace that only this test uses."""
    name = f"t-{uuid.uuid4().hex[:8]}"
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    (await http.post("/api/v1/namespaces", namespace)).expect(201)
    return name


@pytest.fixture
def dbs(http: Http, ns: str) -> Databases:
    return Databases(http, ns)


@pytest.fixture(scope="session")
def kubectl_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kubectl")


@pytest.fixture
def kubectl(target: Target, kubectl_home: Path) -> Kubectl:
    """The newest kubectl found, with the administrator's kubeconfig."""
    return Kubectl(newest(), target.kubeconfig, kubectl_home)
