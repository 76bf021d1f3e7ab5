"""What stands before several servers: one address, whose connections go to a server that is ready.

    async with Balancer.before([one.target, two.target]) as balancer:
        balancer.target         # as a client sees it: the administrator's credentials, the balancer's address

It passes bytes on and knows nothing of TLS. A connection stays with the server that it was given to; a new one goes to
the first that says on `/readyz` that it is ready.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

from tests.kit import kubeconfig
from tests.kit.servers import Target


class Balancer:
    def __init__(self, backends: Sequence[Target], folder: Path) -> None:
        self._backends = backends
        self._folder = folder
        self._open: set[asyncio.StreamWriter] = set()

    @classmethod
    @contextlib.asynccontextmanager
    async def before(cls, backends: Sequence[Target], folder: Path) -> AsyncIterator[Balancer]:
        """A balancer that listens; the kubeconfig that leads to it is written below `folder`."""
        balancer = cls(backends, folder)
        listener = await asyncio.start_server(balancer._serve, "127.0.0.1", 0)
        port = listener.sockets[0].getsockname()[1]
        access = replace(backends[0].access, url=f"https://127.0.0.1:{port}")
        balancer.target = Target("balancer", access, folder / "balancer.kubeconfig")
        kubeconfig.write(balancer.target.kubeconfig, access)
        try:
            yield balancer
        finally:
            listener.close()
            await balancer._close()

    target: Target

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            for backend in self._backends:
                if await asyncio.to_thread(backend.is_ready):
                    await self._join(backend, reader, writer)
                    return
        finally:
            self._open.discard(writer)
            writer.close()

    async def _join(
        self, backend: Target, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        host, _, port = backend.url.removeprefix("https://").partition(":")
        upstream, downstream = await asyncio.open_connection(host, int(port))
        self._open.add(downstream)
        try:
            await asyncio.gather(_pass(reader, downstream), _pass(upstream, writer))
        finally:
            self._open.discard(downstream)
            downstream.close()

    async def _close(self) -> None:
        """Break off what is connected, and wait until nothing is."""
        while self._open:
            for writer in self._open:
                writer.transport.abort()
            await asyncio.sleep(0.01)


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Until one side is through; whoever is at the other end sees the same."""
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    with contextlib.suppress(OSError):
        writer.write_eof()
