"""The transport over the network.

    async with HttpTransport.open(access, SystemClock(), agent="pilothouse-pilot/0.1") as transport:
        answer = await transport.request(ClientRequest("GET", "/version"))

Requests use ``connection_pool`` (ADR 20); watches and requests through a proxy use aiohttp. After a 401 a
login program runs once more. Connections are kept per TLS context, so a new certificate is used at once.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from urllib.parse import urlencode

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from pilothouse.base.clock import Clock
from pilothouse.client.access import Access
from pilothouse.client.connect_errors import CONNECT_SECONDS, unreachable
from pilothouse.client.connection_pool import ConnectionPool
from pilothouse.client.credentials import ClientCredentials, ClientIdentity
from pilothouse.client.failover import Failover
from pilothouse.client.transport import (
    ClientRequest,
    ClientResponse,
    Interrupted,
    NotSent,
    ResponseStreamReader,
    Transport,
)
from pilothouse.client.warning_headers import warning_texts

_READ_BUFFER = 2**18

_UNSENT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.ClientHttpProxyError)
_BROKEN = (aiohttp.ClientError, OSError, TimeoutError)


async def _sent_once(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """Stop aiohttp from resending a PUT or DELETE on a broken kept connection: the second response might be a
    conflict with the first, or a 404."""
    try:
        return await handler(request)
    except _UNSENT as problem:
        raise NotSent(unreachable(str(request.url.origin()), _cause(problem))) from problem
    except _BROKEN as problem:
        raise _interrupted(request.url, problem) from problem


class HttpTransport:
    def __init__(
        self,
        access: Access,
        credentials: ClientCredentials,
        session: aiohttp.ClientSession,
        connections: ConnectionPool,
    ) -> None:
        self._access = access
        self._credentials = credentials
        self._session = session
        self._connections = connections
        self._streams: set[aiohttp.ClientResponse] = set()

    @property
    def url(self) -> str:
        return self._access.url

    @classmethod
    @asynccontextmanager
    async def open(cls, access: Access, clock: Clock, *, agent: str) -> AsyncIterator[Transport]:
        """To the server, or to a reachable one of several. Connections are closed with the context."""
        async with AsyncExitStack() as stack:
            ways = [
                await stack.enter_async_context(cls.to_one(replace(access, url=url, others=()), clock, agent))
                for url in access.urls
            ]
            yield ways[0] if len(ways) == 1 else Failover(ways)

    @classmethod
    @asynccontextmanager
    async def to_one(cls, access: Access, clock: Clock, agent: str) -> AsyncIterator[HttpTransport]:
        """To the server at the first address, whatever others there are."""
        # Time limits are the caller's, who knows what a request is for.
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS)
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            timeout=timeout,
            headers={"User-Agent": agent},
            read_bufsize=_READ_BUFFER,
            cookie_jar=aiohttp.DummyCookieJar(),
            middlewares=(_sent_once,),
        ) as session:
            connections = ConnectionPool(access.url, server_name=access.server_name, agent=agent)
            try:
                yield cls(access, ClientCredentials(access, clock), session, connections)
            finally:
                connections.close()

    async def request(self, call: ClientRequest) -> ClientResponse:
        if self._access.proxy:
            return await self._through_proxy(call)
        shown = await self._credentials.current()
        answer = await self._connections.exchange(call, shown)
        if answer.status == 401 and self._credentials.refused(shown):
            return await self._connections.exchange(call, await self._credentials.current())
        return answer

    async def _through_proxy(self, call: ClientRequest) -> ClientResponse:
        async with self._response(call) as response:
            body = await ResponseStreamReader(response.status, response.headers, self._chunks(response)).read(
                call.longest
            )
            warnings = response.headers.getall("Warning", ())
            return ClientResponse(response.status, response.headers, body, warning_texts(warnings))

    @asynccontextmanager
    async def stream(self, call: ClientRequest) -> AsyncIterator[ResponseStreamReader]:
        async with self._response(call) as response:
            self._streams.add(response)
            try:
                yield ResponseStreamReader(response.status, response.headers, self._chunks(response))
            finally:
                self._streams.discard(response)

    def hang_up(self) -> None:
        """Cut off the streams that are open; their readers get ``Interrupted``."""
        for response in tuple(self._streams):
            response.close()

    async def _chunks(self, response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
        try:
            async for data in response.content.iter_any():
                yield data
        except _BROKEN as problem:
            raise _interrupted(response.url, problem) from problem

    @asynccontextmanager
    async def _response(self, call: ClientRequest) -> AsyncIterator[aiohttp.ClientResponse]:
        shown = await self._credentials.current()
        response = await self._send(call, shown)
        if response.status == 401 and self._credentials.refused(shown):
            response.close()
            response = await self._send(call, await self._credentials.current())
        try:
            yield response
        finally:
            # A connection on which an answer was not read to its end, such as a watch, can't be used again.
            if response.content.at_eof():
                response.release()
            else:
                response.close()

    async def _send(self, call: ClientRequest, shown: ClientIdentity) -> aiohttp.ClientResponse:
        access = self._access
        headers = CIMultiDict(call.headers)
        headers.extend(shown.headers)
        url = f"{access.url}{call.path}"
        if call.query:
            url = f"{url}?{urlencode(call.query)}"
        try:
            return await self._session.request(
                call.method,
                URL(url, encoded=True),
                headers=headers,
                data=call.body or None,
                ssl=shown.tls,
                server_hostname=access.server_name or None,
                proxy=access.proxy or None,
                allow_redirects=False,
            )
        except aiohttp.ClientError as problem:
            # ``_sent_once`` handles what goes wrong once there is a connection.
            raise NotSent(unreachable(access.url, _cause(problem))) from problem


def _interrupted(url: URL, problem: Exception) -> Interrupted:
    return Interrupted(f"the connection to {url.origin()} broke: {str(problem) or type(problem).__name__}")


def _cause(problem: Exception) -> Exception:
    """What the library has wrapped."""
    if isinstance(problem, aiohttp.ClientConnectorCertificateError):
        return problem.certificate_error
    return problem.os_error if isinstance(problem, aiohttp.ClientConnectorError) else problem
