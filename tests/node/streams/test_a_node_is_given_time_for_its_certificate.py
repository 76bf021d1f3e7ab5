"""A node that is not ready may yet get the certificate by which it is known; one that is ready has it."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from pilothouse.apiserver.registry.node_addresses import NodeEndpoint
from pilothouse.apiserver.registry.node_client import HTTPSNodeClient
from pilothouse.meta.errors import StatusError
from pilothouse.pki.authority import Authority

NOW = datetime.datetime.now(datetime.UTC)
OURS, ITS_OWN = Authority.make("ours", NOW), Authority.make("its own", NOW)
NAME = NodeEndpoint("n1", "", 0).certified


@contextlib.asynccontextmanager
async def answering(folder: Path, tries: Callable[[int], Authority]) -> AsyncIterator[tuple[int, list[int]]]:
    """A node's server whose certificate is of the authority for this many tries so far; its port and the tries."""
    seen: list[int] = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    file = folder / "serving.pem"

    def load(number: int) -> None:
        credential = tries(number).serving([NAME], NOW)
        file.write_bytes(credential.certificate + credential.key)
        context.load_cert_chain(file)

    def hello(*_: object) -> None:
        seen.append(len(seen))
        load(len(seen))

    load(0)
    # Called in each handshake, after the certificate of that one has been chosen.
    context.sni_callback = hello

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context) as server:
        yield server.sockets[0].getsockname()[1], seen


def calls() -> HTTPSNodeClient:
    return HTTPSNodeClient(lambda: ssl.create_default_context(cadata=OURS.certificate.decode()))


async def test_one_that_is_not_ready_is_tried_until_it_has_it(tmp_path: Path) -> None:
    async with answering(tmp_path, lambda tries: ITS_OWN if tries < 2 else OURS) as (port, seen):
        await calls().check(NodeEndpoint("n1", "127.0.0.1", port, is_ready=False))
    assert len(seen) >= 2


async def test_one_that_is_ready_is_tried_once(tmp_path: Path) -> None:
    async with answering(tmp_path, lambda _: ITS_OWN) as (port, seen):
        with pytest.raises(StatusError) as refused:
            await calls().check(NodeEndpoint("n1", "127.0.0.1", port, is_ready=True))
    assert refused.value.code == 503
    assert "CERTIFICATE_VERIFY_FAILED" in refused.value.message
    assert len(seen) == 1
