"""Small documents by HTTP, with limits.

    async with open_session() as session:
        body = await fetch(session, "https://updates.example.com/stable/index.yaml", {"Authorization": "…"})

A document that is too large, too slow, not there or redirected to a weaker scheme is a ``FetchError`` whose
text says so. Headers are sent to the host they are meant for, and not to another that it redirects to. A host
is verified by the authority that is given for it, else by those of the system.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urljoin, urlsplit

import aiohttp
from yarl import URL

from pilothouse.client.access import AccessError, tls_context
from pilothouse.client.connect_errors import unreachable
from pilothouse.updates.download_requests import of_host, read_access_file

TIMEOUT: Final = 10.0
"""Seconds for a whole document, redirects included."""
LONGEST: Final = 1 << 20
_LONGEST_MESSAGE: Final = 1024
_REDIRECTS: Final = 5
_REDIRECTED: Final = (301, 302, 303, 307, 308)


class FetchError(Exception):
    """There is no document. ``status`` is that of the answer; 0 without one."""

    def __init__(self, message: str, status: int = 0) -> None:
        # What a server sent may not be text: it is to be written into a status all the same.
        super().__init__(message.encode("utf-8", "backslashreplace").decode()[:_LONGEST_MESSAGE])
        self.status = status


class FetchSession:
    """Connections for ``fetch``."""

    def __init__(self, http: aiohttp.ClientSession, authorities: Mapping[str, Path]) -> None:
        self.http = http
        self._authorities = authorities

    def trust(self, url: str) -> ssl.SSLContext | bool:
        """What the host of a URL is verified with; True for the system's authorities. Raises AccessError."""
        file = of_host(self._authorities, urlsplit(url))
        return tls_context(read_access_file(file)) if file is not None else True


@asynccontextmanager
async def open_session(authorities: Mapping[str, Path] | None = None) -> AsyncIterator[FetchSession]:
    """``authorities`` are the files of the CAs by ``HOST`` or ``HOST:PORT``."""
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=8),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        trust_env=True,
    ) as http:
        yield FetchSession(http, authorities or {})


async def fetch(
    session: FetchSession,
    url: str,
    headers: Mapping[str, str],
    *,
    longest: int = LONGEST,
    timeout: float = TIMEOUT,
) -> bytes:
    """The document at a URL. Raises FetchError."""
    try:
        async with asyncio.timeout(timeout):
            return await _followed(session, url, headers, longest)
    except TimeoutError:
        raise FetchError(f"{url} did not answer within {timeout:g} s") from None
    except (aiohttp.ClientError, OSError) as problem:
        raise FetchError(unreachable(url, cause_of(problem))) from None
    except AccessError as problem:
        raise FetchError(f"{url} can't be fetched: {problem}") from None
    except ValueError as problem:
        # Of aiohttp, for URLs and answers that are not HTTP.
        raise FetchError(f"{url} can't be fetched: {problem}") from None


async def _followed(session: FetchSession, url: str, headers: Mapping[str, str], longest: int) -> bytes:
    sent = {"Accept-Encoding": "identity", **headers}
    for _ in range(_REDIRECTS + 1):
        request = session.http.get(
            URL(url, encoded=True), headers=sent, allow_redirects=False, ssl=session.trust(url)
        )
        async with request as response:
            if response.status in _REDIRECTED and "Location" in response.headers:
                url, sent = _redirected(url, urljoin(url, response.headers["Location"]), sent)
                continue
            if response.status != 200:
                raise FetchError(f"{url} answered {response.status} {response.reason}", response.status)
            return await _body(response, url, longest)
    raise FetchError(f"{url} was redirected more than {_REDIRECTS} times")


def _redirected(old: str, new: str, sent: dict[str, str]) -> tuple[str, dict[str, str]]:
    before, after = urlsplit(old), urlsplit(new)
    if after.scheme not in ("http", "https") or (before.scheme == "https" and after.scheme != "https"):
        raise FetchError(f"{old} redirects to {new}: a weaker scheme is not followed")
    if (before.scheme, before.netloc) != (after.scheme, after.netloc):
        sent = {"Accept-Encoding": "identity"}
    return new, sent


async def _body(response: aiohttp.ClientResponse, url: str, longest: int) -> bytes:
    body = bytearray()
    async for piece in response.content.iter_any():
        body += piece
        if len(body) > longest:
            raise FetchError(f"{url} answered with more than {longest} bytes")
    return bytes(body)


def cause_of(problem: Exception) -> Exception:
    """What the library has wrapped."""
    if isinstance(problem, aiohttp.ClientConnectorCertificateError):
        return problem.certificate_error
    return problem.os_error if isinstance(problem, aiohttp.ClientConnectorError) else problem
