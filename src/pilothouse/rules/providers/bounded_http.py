"""Requests whose answers are bounded in time and size.

    async with BoundedHttp(tls=None) as http:
        page = await http.get("http://10.0.0.7:9090/metrics", longest=2**20, seconds=10)

Answers are not compressed, since a short one could become a long one. Redirects are not followed: credentials
are for one server.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping

import aiohttp
import msgspec
from yarl import URL

_BUFFER = 2**16


class FetchFailed(Exception):
    """No whole answer; the message says why."""


class FetchedPage(msgspec.Struct, frozen=True):
    status: int
    body: bytes


class BoundedHttp:
    """Opened by the first request, in the loop that makes it; ended by ``close``."""

    def __init__(self, tls: ssl.SSLContext | None = None, *, server_name: str = "") -> None:
        self._tls = tls
        self._server_name = server_name
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> BoundedHttp:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def get(
        self,
        url: str,
        *,
        longest: int,
        seconds: float,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> FetchedPage:
        """Raises ``FetchFailed`` if the answer is not there within ``seconds`` or longer than ``longest``
        bytes."""
        return await self._bounded("GET", url, None, longest, seconds, query, headers)

    async def post(
        self, url: str, body: bytes, *, longest: int, seconds: float, headers: Mapping[str, str]
    ) -> FetchedPage:
        """Raises ``FetchFailed``, as ``get`` does. Its message leaves out the path, which is often a secret
        in the URL of a webhook."""
        return await self._bounded("POST", url, body, longest, seconds, None, headers)

    async def _bounded(
        self,
        method: str,
        url: str,
        body: bytes | None,
        longest: int,
        seconds: float,
        query: Mapping[str, str] | None,
        headers: Mapping[str, str] | None,
    ) -> FetchedPage:
        shown = _shown(url, path=method == "GET")
        try:
            async with asyncio.timeout(seconds):
                return await self._request(method, url, shown, body, longest, query, headers)
        except TimeoutError:
            raise FetchFailed(f"{shown} did not answer within {seconds:g} seconds") from None
        except aiohttp.ClientResponseError as problem:
            # Its text has the whole address.
            raise FetchFailed(f"{shown} can't be read: {problem.message}") from None
        except (aiohttp.InvalidURL, UnicodeError):
            raise FetchFailed(f"{shown} can't be read: it is not a valid address") from None
        except (aiohttp.ClientError, OSError, ValueError) as problem:
            raise FetchFailed(f"{shown} can't be read: {str(problem) or type(problem).__name__}") from None

    async def _request(
        self,
        method: str,
        url: str,
        shown: str,
        content: bytes | None,
        longest: int,
        query: Mapping[str, str] | None,
        headers: Mapping[str, str] | None,
    ) -> FetchedPage:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=None),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                read_bufsize=_BUFFER,
                headers={"Accept-Encoding": "identity"},
            )
        async with self._session.request(
            method,
            URL(url),
            data=content,
            params=query,
            headers=headers,
            ssl=self._tls if self._tls is not None else True,
            server_hostname=self._server_name or None,
            allow_redirects=False,
        ) as response:
            if response.headers.get("Content-Encoding", "identity").lower() != "identity":
                raise FetchFailed(f"{shown} answers compressed, which was not asked for")
            body = bytearray()
            async for data in response.content.iter_any():
                body += data
                if len(body) > longest:
                    # Leaving the context closes the connection: what is left is not read.
                    raise FetchFailed(f"{shown} answers more than {longest} bytes")
            return FetchedPage(response.status, bytes(body))


def _shown(url: str, *, path: bool) -> str:
    """Without user, password and query."""
    try:
        parts = URL(url).with_user(None).with_query(None).with_fragment(None)
        return str(parts if path else parts.origin())
    except ValueError:
        return "the address"
