"""An edge on a free port with a handler of the test's own, and a client that speaks raw bytes over TLS."""

from __future__ import annotations

import datetime
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.apiserver.server.behind_an_edge import Server, serving
from tests.apiserver.server.wire import Dial, Place, Serve, Wire

from pilothouse.apiserver.authentication.authenticator import Authenticator, read_tokens
from pilothouse.apiserver.discovery.catalog import KindCatalog
from pilothouse.apiserver.flowcontrol.fair_queuing import FlowController
from pilothouse.apiserver.metrics.request_metrics import RequestCounters
from pilothouse.apiserver.server.health import Health
from pilothouse.apiserver.server.http_protocol import Handler
from pilothouse.apiserver.server.https_server import HTTPSServer, tls_context
from pilothouse.apiserver.server.limits import ClientTimeouts
from pilothouse.pki.keyring import Keyring

TOKENS = 's3cret,alice,42,"dev,ops"\n'


@pytest.fixture(scope="session")
def keyring(tmp_path_factory: pytest.TempPathFactory) -> Keyring:
    return Keyring(tmp_path_factory.mktemp("pki"))


@pytest.fixture
async def serve(keyring: Keyring) -> AsyncIterator[Serve]:
    """``await serve(handler)`` runs an edge until the test ends."""
    now = datetime.datetime.now(datetime.UTC)
    authority = keyring.authority(now)
    pair = keyring.serving(authority, ["localhost", "127.0.0.1"], now)
    async with AsyncExitStack() as stack:

        async def start(
            handler: Handler,
            *,
            shares: FlowController | None = None,
            tokens: str = TOKENS,
            patience: ClientTimeouts = ClientTimeouts(),
        ) -> Place:
            health = Health()
            edge = HTTPSServer(
                handler,
                authenticator=Authenticator(read_tokens(tokens, "tokens.csv")),
                health=health,
                shares=shares or FlowController(),
                requests=RequestCounters(KindCatalog()),
                patience=patience,
            )
            port = await edge.listen(
                "127.0.0.1", 0, tls_context(pair.certificate, pair.key, keyring.authority_file)
            )
            stack.push_async_callback(edge.stop, 0.0)
            return Place(port, keyring.authority_file, edge, health)

        yield start


@pytest.fixture
async def dial() -> AsyncIterator[Dial]:
    """``await dial(place)`` opens a connection that is closed when the test ends."""
    wires: list[Wire] = []

    async def open_wire(place: Place, *, certificate: Path | None = None, key: Path | None = None) -> Wire:
        wire = await Wire.open(place, certificate=certificate, key=key)
        wires.append(wire)
        return wire

    yield open_wire
    for wire in wires:
        await wire.close()


@pytest.fixture
async def server(keyring: Keyring, tmp_path: Path) -> AsyncIterator[Server]:
    """A whole server."""
    async with serving(keyring, tmp_path) as made:
        yield made
