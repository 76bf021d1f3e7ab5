"""Reads the audit records of the other instances.

    async with AuditPeers.open(instances, credential) as peers:
        for peer in await peers.others():
            async with peers.lines(peer, {"user": "alice"}) as lines:
                async for line in lines: ...

Requests go to the announced address, with a certificate of the shared authority. They ask for the peer's own
records only, so requests never loop.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Protocol
from urllib.parse import urlencode

import aiohttp

from pilothouse.apiserver.server_instances import ServerInstance, ServerInstances
from pilothouse.pki.keyring import Pair
from pilothouse.store.interface import StoreError

PATH = "/pilothouse/v1/audit"
CONNECT_SECONDS = 5.0
_READ_BUFFER = 2**20


class PeerError(Exception):
    """A peer did not answer properly; the message says what happened."""


Lines = AbstractAsyncContextManager[AsyncIterator[bytes]]


class PeerTrails(Protocol):
    """Access to the records of other instances."""

    async def others(self) -> list[ServerInstance]:
        """The running peers. Raises ``PeerError``."""

    async def absent(self) -> list[ServerInstance]:
        """Peers that have records and do not run. Raises ``PeerError``."""

    def lines(self, peer: ServerInstance, params: Mapping[str, str]) -> Lines:
        """A peer's response, line by line. Entering or reading raises ``PeerError``."""


class NoPeers:
    """For a server that does not share its store."""

    async def others(self) -> list[ServerInstance]:
        return []

    async def absent(self) -> list[ServerInstance]:
        return []

    def lines(self, peer: ServerInstance, params: Mapping[str, str]) -> Lines:
        raise PeerError(f"{peer.id} is no peer of a server on its own")


class AuditPeers:
    def __init__(
        self, instances: ServerInstances, credential: Callable[[], Pair], session: aiohttp.ClientSession
    ) -> None:
        self._instances = instances
        self._credential = credential
        self._session = session

    @classmethod
    @asynccontextmanager
    async def open(
        cls, instances: ServerInstances, credential: Callable[[], Pair]
    ) -> AsyncIterator[AuditPeers]:
        """``credential`` returns this instance's client certificate; it is called each time, and may
        renew."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS)
        connector = aiohttp.TCPConnector(force_close=True, limit=0)
        async with aiohttp.ClientSession(
            connector=connector, timeout=timeout, read_bufsize=_READ_BUFFER
        ) as session:
            yield cls(instances, credential, session)

    async def others(self) -> list[ServerInstance]:
        with _store_errors():
            return await self._instances.others()

    async def absent(self) -> list[ServerInstance]:
        with _store_errors():
            return await self._instances.absent()

    @asynccontextmanager
    async def lines(
        self, peer: ServerInstance, params: Mapping[str, str]
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        url = f"{peer.url}{PATH}?{urlencode({**params, 'local': 'true'})}"
        try:
            async with self._session.get(url, ssl=self._trust(peer)) as answer:
                if answer.status != 200:
                    said = (await answer.content.read(500)).decode(errors="replace")
                    raise PeerError(f"it answers {answer.status}: {said}")
                yield _lines(answer.content)
        except (aiohttp.ClientError, OSError) as problem:
            raise PeerError(str(problem) or type(problem).__name__) from None

    def _trust(self, peer: ServerInstance) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=peer.authority)
        pair = self._credential()
        context.load_cert_chain(pair.certificate, pair.key)
        return context


@contextmanager
def _store_errors() -> Iterator[None]:
    try:
        yield
    except StoreError as problem:
        raise PeerError(f"the store does not say who the other instances are: {problem}") from None


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Lines of any length, as they arrive."""
    rest = bytearray()
    async for data in content.iter_any():
        rest += data
        if b"\n" in data:
            *whole, last = bytes(rest).split(b"\n")
            for line in whole:
                yield line + b"\n"
            rest = bytearray(last)
