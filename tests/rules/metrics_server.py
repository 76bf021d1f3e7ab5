"""An HTTP server that answers as a test says, for good and for hostile pages.

async with MetricsServer({"/metrics": b"up 1\\n"}) as server:
    server.url
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from urllib.parse import unquote, urlsplit

Handler = Callable[[asyncio.StreamWriter, str], Awaitable[None]]
Page = bytes | Handler


def answer(body: bytes, status: str = "200 OK", headers: str = "") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{headers}\r\n".encode() + body


async def never(writer: asyncio.StreamWriter, target: str) -> None:
    """Accepts the request and says nothing."""
    await asyncio.Event().wait()


async def endless(writer: asyncio.StreamWriter, target: str) -> None:
    """A line a moment, for as long as anyone reads."""
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        writer.write(b"# more\n")
        await writer.drain()
        await asyncio.sleep(0.01)


class Flood:
    """As many bytes as are taken; ``sent`` says how many those were."""

    def __init__(self, line: bytes = b'x{a="b"} 1\n') -> None:
        self.sent = 0
        self._line = line

    async def __call__(self, writer: asyncio.StreamWriter, target: str) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n")
        chunk = self._line * (2**16 // len(self._line))
        while self.sent < 2**30:
            writer.write(chunk)
            await writer.drain()
            self.sent += len(chunk)


class MetricsServer:
    def __init__(self, pages: dict[str, Page], tls: ssl.SSLContext | None = None) -> None:
        self.pages = pages
        self._tls = tls
        self.asked: list[str] = []
        """The targets of all requests, decoded."""
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> MetricsServer:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                target = head.split()[1].decode()
                self.asked.append(unquote(target))
                page = self.pages.get(urlsplit(target).path)
                if page is None:
                    writer.write(answer(b"", "404 Not Found"))
                elif isinstance(page, bytes):
                    writer.write(page if page.startswith(b"HTTP/") else answer(page))
                else:
                    await page(writer, target)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
