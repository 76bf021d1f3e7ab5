"""Requests and streams to an API server.

    answer = await transport.request(ClientRequest("GET", "/api/v1/namespaces/default"))
    async with transport.stream(ClientRequest("GET", "/api/v1/pods", query={"watch": "1"})) as stream:
        async for data in stream.chunks: ...

A transport never retries, and an HTTP status is not an error. The exception says whether the request was
not sent, or its outcome is unknown.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Final, Protocol

import msgspec


class TransportError(Exception):
    """No answer; the message says what happened."""


class NotSent(TransportError):
    """The request did not reach the server."""


class Interrupted(TransportError):
    """The connection broke after the request may have been sent: it may have been carried out or not."""


class BadAnswer(TransportError):
    """The response is not of the protocol; perhaps a proxy's."""


LONGEST_OBJECT: Final = 2**25
"""Bytes: ten times what an API server takes."""
LONGEST_LIST: Final = 2**30
"""For a list that is read in one piece: a server need not page it."""
LONGEST_UNTRUSTED: Final = 2**20
"""From a server that is not verified yet, for a few certificates."""


class ClientRequest(msgspec.Struct, frozen=True):
    method: str
    path: str
    """Percent-encoded where it has to be; without the query."""
    query: Mapping[str, str] = {}
    headers: Mapping[str, str] = {}
    body: bytes = b""
    longest: int = LONGEST_OBJECT
    """Maximum size of the decompressed body in bytes; a longer one raises ``BadAnswer``."""


class ClientResponse(msgspec.Struct, frozen=True):
    """A complete answer. Header names are matched without case; of a repeated header this has the first."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    warnings: tuple[str, ...] = ()
    """The texts of the ``Warning`` headers."""


@dataclass(frozen=True, slots=True)
class ResponseStreamReader:
    """An answer that is being read. Reading raises ``Interrupted`` if it breaks off."""

    status: int
    headers: Mapping[str, str]
    chunks: AsyncIterator[bytes]

    async def read(self, longest: int) -> bytes:
        """All that is left. Raises ``BadAnswer`` if that is longer."""
        found = bytearray()
        async for data in self.chunks:
            found += data
            if len(found) > longest:
                raise BadAnswer(f"the server's answer is longer than {longest} bytes")
        return bytes(found)

    async def lines(self) -> AsyncGenerator[list[bytes], None]:
        """Whole lines of any length, as many at a time as have arrived; an unfinished last line is
        dropped."""
        rest: list[bytes] = []
        async for data in self.chunks:
            *ended, open_end = data.split(b"\n")
            if ended:
                rest.append(ended[0])
                ended[0] = b"".join(rest)
                rest = [open_end] if open_end else []
                yield ended
            elif open_end:
                rest.append(open_end)


class Transport(Protocol):
    """The way to a server."""

    async def request(self, call: ClientRequest) -> ClientResponse:
        """Raises ``TransportError``, or ``AccessError`` without credentials."""

    def stream(self, call: ClientRequest) -> AbstractAsyncContextManager[ResponseStreamReader]:
        """Open until the context ends. Entering raises what ``request`` raises."""
