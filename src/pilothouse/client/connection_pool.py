"""Connections to one server, each for one request at a time.

    connections = ConnectionPool("https://10.0.0.1:6443", server_name="", agent="pilothouse/0.1")
    answer = await connections.exchange(call, shown)
    connections.close()

Far faster per request than a general HTTP library (ADR 20), which ``http_transport`` uses for watches and
proxies. A request is sent once. A connection belongs to the TLS context that it was made with.
"""

from __future__ import annotations

import asyncio
import ssl
from functools import lru_cache
from typing import Final, cast
from urllib.parse import urlencode, urlsplit

from pilothouse.client.connect_errors import CONNECT_SECONDS, unreachable
from pilothouse.client.credentials import ClientIdentity
from pilothouse.client.http_parser import AnswerReader, AnswerTooLong, MalformedAnswer
from pilothouse.client.transport import BadAnswer, ClientRequest, ClientResponse, Interrupted, NotSent

IDLE_SECONDS: Final = 15.0
"""Less than servers wait for another request, so that it is mostly not they who close."""


class ConnectionPool:
    def __init__(self, url: str, *, server_name: str, agent: str) -> None:
        parts = urlsplit(url)
        self._url = f"{parts.scheme}://{parts.netloc}"
        self._host = parts.hostname or ""
        self._port = parts.port or 443
        self._prefix = parts.path.rstrip("/")
        self._server_name = server_name or self._host
        self._common = f"Host: {parts.netloc}\r\nUser-Agent: {agent}\r\nAccept-Encoding: gzip"
        self._kept: list[PooledConnection] = []
        self._sweeping: asyncio.TimerHandle | None = None
        self._closed = False

    async def exchange(self, call: ClientRequest, shown: ClientIdentity) -> ClientResponse:
        """Send a request and wait for its answer. Raises ``NotSent``, ``Interrupted`` or ``BadAnswer``."""
        data = self._encoded(call, shown)
        connection = self._free(shown.tls) or await self._open(shown.tls)
        try:
            answer = await connection.exchange(data, bodiless=call.method == "HEAD", longest=call.longest)
        except AnswerTooLong as problem:
            connection.close()
            raise BadAnswer(f"what {self._url} answers is too long: {problem}") from None
        except MalformedAnswer as problem:
            connection.close()
            raise BadAnswer(f"what {self._url} answers is not HTTP: {problem}") from None
        except ConnectionError as problem:
            raise Interrupted(f"the connection to {self._url} broke: {problem}") from problem
        except BaseException:
            # The caller has gone; an answer that still comes must not be taken for the next one's.
            connection.close()
            raise
        self._keep(connection)
        return answer

    def close(self) -> None:
        """Close idle connections now, others after their request."""
        self._closed = True
        if self._sweeping is not None:
            self._sweeping.cancel()
        for connection in self._kept:
            connection.close()
        self._kept.clear()

    def _encoded(self, call: ClientRequest, shown: ClientIdentity) -> bytes:
        target = f"{self._prefix}{call.path}"
        if call.query:
            target = f"{target}?{_query(tuple(call.query.items()))}"
        fields = [f"{name}: {value}" for name, value in (*call.headers.items(), *shown.headers)]
        if call.body or call.method not in ("GET", "HEAD", "DELETE"):
            fields.append(f"Content-Length: {len(call.body)}")
        joined = "".join(fields)
        if " " in target or any(each in target or each in joined for each in "\r\n\0"):
            raise NotSent(f"{call.method} {target!r} can't be sent: there is a space or a line break in it")
        text = "\r\n".join((f"{call.method} {target} HTTP/1.1", self._common, *fields, "", ""))
        return text.encode() + call.body

    def _free(self, tls: ssl.SSLContext) -> PooledConnection | None:
        """An idle connection, the last used first, so that surplus ones time out."""
        while self._kept:
            connection = self._kept.pop()
            if connection.usable and connection.tls is tls:
                return connection
            connection.close()
        return None

    async def _open(self, tls: ssl.SSLContext) -> PooledConnection:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                _, connection = await loop.create_connection(
                    lambda: PooledConnection(loop, tls),
                    self._host,
                    self._port,
                    ssl=tls,
                    server_hostname=self._server_name,
                )
        except OSError as problem:
            raise NotSent(unreachable(self._url, problem)) from problem
        return connection

    def _keep(self, connection: PooledConnection) -> None:
        if self._closed or not connection.usable:
            connection.close()
            return
        self._kept.append(connection)
        if self._sweeping is None:
            self._sweeping = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._sweep)

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        old = loop.time() - IDLE_SECONDS
        for connection in self._kept:
            if connection.since < old:
                connection.close()
        self._kept = [connection for connection in self._kept if connection.usable]
        self._sweeping = loop.call_later(IDLE_SECONDS, self._sweep) if self._kept else None


@lru_cache(maxsize=256)
def _query(parameters: tuple[tuple[str, str], ...]) -> str:
    """Cached, as one writer's parameters repeat."""
    return urlencode(parameters)


class PooledConnection(asyncio.Protocol):
    def __init__(self, loop: asyncio.AbstractEventLoop, tls: ssl.SSLContext | None) -> None:
        self._loop = loop
        self.tls = tls
        self.since = 0.0
        """When it was last used, by the loop's clock."""
        self._transport: asyncio.Transport | None = None
        self._reading: AnswerReader | None = None
        self._waiting: asyncio.Future[ClientResponse] | None = None

    @property
    def usable(self) -> bool:
        """True if it is open and no request is under way."""
        return self._transport is not None and not self._transport.is_closing() and self._waiting is None

    async def exchange(self, data: bytes, *, bodiless: bool, longest: int) -> ClientResponse:
        """Raises ``ConnectionError`` or ``MalformedAnswer``."""
        if self._transport is None or self._transport.is_closing():
            raise ConnectionResetError("the server has closed it")
        self._reading = AnswerReader(bodiless=bodiless, longest=longest)
        self._waiting = self._loop.create_future()
        self._transport.write(data)
        return await self._waiting

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self._reading is None:
            # Unrequested data must not be taken for the answer to the next request.
            self.close()
            return
        try:
            answer = self._reading.feed(data)
        except MalformedAnswer as problem:
            self._finish(problem)
            self.close()
            return
        if answer is not None:
            keeps = self._reading.keeps
            self._finish(answer)
            if not keeps:
                self.close()

    def eof_received(self) -> None:
        """The transport closes itself."""

    def connection_lost(self, problem: Exception | None) -> None:
        self._transport = None
        if self._reading is None:
            return
        try:
            answer = self._reading.closed() if problem is None else None
        except MalformedAnswer as malformed:
            self._finish(malformed)
            return
        self._finish(answer or ConnectionResetError(str(problem or "the server has closed it")))

    def _finish(self, outcome: ClientResponse | Exception) -> None:
        waiting, self._waiting, self._reading = self._waiting, None, None
        self.since = self._loop.time()
        if waiting is None or waiting.done():
            return
        if isinstance(outcome, ClientResponse):
            waiting.set_result(outcome)
        else:
            waiting.set_exception(outcome)
