"""The client's suites run the same over HTTP to our server, to a real kube-apiserver, and to a core in this process."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from random import Random

import pytest
from tests.kit.loopback import loopback
from tests.kit.targets import Fleet

from pilothouse.api.kind_names import Namespace
from pilothouse.base.clock import SystemClock
from pilothouse.client.api import Api
from pilothouse.client.http_transport import HttpTransport
from pilothouse.client.kubeconfig import load
from pilothouse.client.transport import Transport

SERVERS = ["loopback", "sqlite", pytest.param("kube", marks=pytest.mark.long)]


@pytest.fixture(params=SERVERS)
def server_kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def transport(server_kind: str, fleet: Fleet) -> AsyncIterator[Transport]:
    if server_kind == "loopback":
        async with loopback() as transport:
            yield transport
        return
    access = load(fleet.get(server_kind).target.kubeconfig)
    async with HttpTransport.open(access, SystemClock(), agent="pilothouse-test") as http:
        yield http


@pytest.fixture
def api(transport: Transport) -> Api:
    return Api(transport, Random(1), manager="test")


@pytest.fixture
async def space(api: Api) -> str:
    """A namespace that only this test uses."""
    name = f"t-{uuid.uuid4().hex[:8]}"
    await api.create(Namespace, {"metadata": {"name": name}})
    return name
