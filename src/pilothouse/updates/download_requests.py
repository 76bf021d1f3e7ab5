"""Requests to the hosts that payloads come from.

    hosts = DownloadHosts(authorities={"dl.example": ca_file}, tokens={"dl.example:8443": token_file})
    async with open_url("https://dl.example/k0s", {}, hosts, clock, stall=60) as answer: ...

CA and token of a host are those of the files that are given for it, and go to no other host. Redirects are
followed from http to https, but not back. Proxies are those of the environment.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

import pilothouse
from pilothouse.base.clock import Clock
from pilothouse.client.access import Access, AccessError
from pilothouse.client.http_transport import HttpTransport
from pilothouse.client.transport import ClientRequest, ResponseStreamReader

AGENT: Final = f"pilothouse/{pilothouse.__version__}"
_SCHEMES: Final = ("http", "https")
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_MOST_REDIRECTS: Final = 10


class NotFollowed(Exception):
    """The URL, or where it redirects to, is not one that may be downloaded from."""


@dataclass(frozen=True)
class DownloadHosts:
    """Files by host, which is a name or ``name:port``."""

    authorities: Mapping[str, Path] = field(default_factory=dict)
    tokens: Mapping[str, Path] = field(default_factory=dict)

    def access(self, url: SplitResult) -> Access:
        """How a host is reached. Raises AccessError."""
        authority = of_host(self.authorities, url)
        token = of_host(self.tokens, url) if url.scheme == "https" else None
        return Access(
            f"{url.scheme}://{url.netloc}",
            authority=read_access_file(authority) if authority else b"",
            token=read_access_file(token).decode(errors="replace").strip() if token else "",
            proxy=_proxy(url.scheme, (url.hostname or "").lower()),
        )


@asynccontextmanager
async def open_url(
    url: str, headers: Mapping[str, str], hosts: DownloadHosts, clock: Clock, stall: float
) -> AsyncIterator[ResponseStreamReader]:
    """The answer to a GET, whatever its status, after redirects.

    Raises NotFollowed, AccessError, TransportError, and TimeoutError if no answer begins within ``stall``
    seconds.
    """
    async with AsyncExitStack() as stack:
        parts = _checked(url)
        for _ in range(_MOST_REDIRECTS):
            answer = await stack.enter_async_context(_answer(parts, headers, hosts, clock, stall))
            location = answer.headers.get("Location", "") if answer.status in _REDIRECTS else ""
            if not location:
                yield answer
                return
            await stack.aclose()
            target = _checked(urljoin(parts.geturl(), location))
            if parts.scheme == "https" and target.scheme != "https":
                raise NotFollowed(
                    f"it redirects from https to {target.geturl()[:200]}, which is not followed"
                )
            parts = target
        raise NotFollowed(f"it redirects more than {_MOST_REDIRECTS} times")


@asynccontextmanager
async def _answer(
    url: SplitResult, headers: Mapping[str, str], hosts: DownloadHosts, clock: Clock, stall: float
) -> AsyncIterator[ResponseStreamReader]:
    path = f"{url.path or '/'}?{url.query}" if url.query else url.path or "/"
    async with AsyncExitStack() as stack:
        transport = await stack.enter_async_context(HttpTransport.to_one(hosts.access(url), clock, AGENT))
        async with asyncio.timeout(stall):
            call = ClientRequest("GET", path, headers=headers)
            answer = await stack.enter_async_context(transport.stream(call))
        yield answer


def _checked(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as problem:
        raise NotFollowed(f"{url[:200]!r} is not a URL: {problem}") from None
    if parts.scheme not in _SCHEMES or not parts.hostname:
        raise NotFollowed(f"{url[:200]!r} is not an http or https URL")
    if parts.username is not None:
        raise NotFollowed("credentials in a URL are not used; --download-token HOST=FILE gives a token")
    return parts


def of_host(files: Mapping[str, Path], url: SplitResult) -> Path | None:
    """The file that is given for the host of a URL, with its port or without."""
    host, port = (url.hostname or "").lower(), url.port or (443 if url.scheme == "https" else 80)
    return files.get(f"{host}:{port}") or files.get(host)


def read_access_file(file: Path) -> bytes:
    """The content of a CA or token. Raises AccessError."""
    try:
        return file.read_bytes()
    except OSError as problem:
        raise AccessError(f"{file} can't be read: {problem.strerror or problem}") from None


def _proxy(scheme: str, host: str) -> str:
    """The proxy that the environment names; this machine itself is never reached through one."""
    proxy = getproxies().get(scheme, "")
    if not proxy or _is_loopback(host) or proxy_bypass(host):
        return ""
    return proxy


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
