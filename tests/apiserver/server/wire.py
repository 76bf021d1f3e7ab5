"""A client that sends exactly the bytes it is given and reads answers one at a time."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from pilothouse.apiserver.flowcontrol.fair_queuing import FlowController
from pilothouse.apiserver.server.health import Health
from pilothouse.apiserver.server.http_protocol import Handler
from pilothouse.apiserver.server.https_server import HTTPSServer
from pilothouse.apiserver.server.limits import ClientTimeouts

PATIENCE = 20.0


@dataclass(frozen=True)
class Place:
    """Where an edge listens, and the edge itself."""

    port: int
    authority: Path
    edge: HTTPSServer
    health: Health


class Reply(NamedTuple):
    """One answer, taken apart."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        values = self.all(name)
        return values[0] if values else None

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key.lower() == name.lower()]

    def json(self) -> Any:
        return json.loads(self.body)


class Wire:
    """A TLS connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def open(cls, place: Place, *, certificate: Path | None = None, key: Path | None = None) -> Wire:
        context = ssl.create_default_context(cafile=place.authority)
        if certificate is not None:
            context.load_cert_chain(certificate, key)
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", place.port, ssl=context, limit=16 * 1024 * 1024
        )
        return cls(reader, writer)

    async def ask(self, raw: bytes) -> Reply:
        """Send bytes, read one answer."""
        self.writer.write(raw)
        return await self.reply(head_only=raw.startswith(b"HEAD"))

    async def get(self, path: str, *headers: str, method: str = "GET", body: bytes | None = None) -> Reply:
        """A well-formed request and its answer."""
        lines = [f"{method} {path} HTTP/1.1", "Host: localhost", *headers]
        if body is not None:
            lines.append(f"Content-Length: {len(body)}")
        return await self.ask("\r\n".join([*lines, "", ""]).encode() + (body or b""))

    async def head(self) -> Reply:
        """The next answer's head; its body is left unread."""
        async with asyncio.timeout(PATIENCE):
            text = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = text.rstrip("\r\n").split("\r\n")
        headers = [(name, value) for name, _, value in (line.partition(": ") for line in lines)]
        return Reply(int(first.split(" ")[1]), headers, b"")

    async def reply(self, *, head_only: bool = False) -> Reply:
        head = await self.head()
        if head_only or head.status in (204, 304):
            return head
        async with asyncio.timeout(PATIENCE):
            if head.header("Transfer-Encoding") == "chunked":
                return head._replace(body=b"".join([chunk async for chunk in self.chunks()]))
            return head._replace(body=await self.reader.readexactly(int(head.header("Content-Length") or 0)))

    async def chunk(self) -> bytes:
        """The next chunk of a stream; empty for the last."""
        async with asyncio.timeout(PATIENCE):
            size = int((await self.reader.readline()).strip(), 16)
            return (await self.reader.readexactly(size + 2))[:-2]

    async def chunks(self) -> AsyncIterator[bytes]:
        while chunk := await self.chunk():
            yield chunk

    async def rest(self) -> bytes:
        """All that comes until the server closes."""
        async with asyncio.timeout(PATIENCE):
            with contextlib.suppress(ConnectionError):
                return await self.reader.read()
        return b""

    async def close(self) -> None:
        self.writer.transport.abort()


class Serve(Protocol):
    """``await serve(handler)`` runs an edge until the test ends."""

    async def __call__(
        self,
        handler: Handler,
        *,
        shares: FlowController | None = ...,
        tokens: str = ...,
        patience: ClientTimeouts = ...,
    ) -> Place: ...


class Dial(Protocol):
    """``await dial(place)`` opens a connection that is closed when the test ends."""

    async def __call__(
        self, place: Place, *, certificate: Path | None = ..., key: Path | None = ...
    ) -> Wire: ...
