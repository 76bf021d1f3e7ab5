"""The HTTP requests of probes and hooks.

    well, output = await probe_http({"path": "/healthz", "scheme": "HTTPS"}, "127.8.1.2", 8443)

An answer from 200 to 399 is well. Certificates are not looked at, redirects are followed within the same host alone, and no
connection is kept: each request asks the container anew. A response has at most 16 KiB of head and five interim ones before it, and of its body
10 KiB are read: the container answers as it likes, and the agent has other pods to ask. Of a failed answer of the pod itself, the
first line is part of the result.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urljoin, urlsplit

from pilothouse.aio.http_response import HTTPResponse, HTTPResponseError, TruncatedResponse, read_response
from pilothouse.base.terminal_text import escape_control_characters
from pilothouse.node.containers.probe_connection import DialError, ReceivedTooMuch, ResultUnknown, connected

_MOST_HEAD: Final = 16 * 1024
_MOST_BODY: Final = 10 * 1024
_MOST_SHOWN: Final = 200
"""Characters of a failed answer's body that are shown."""
_MOST_REDIRECTS: Final = 10
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_PORTS: Final = {"http": 80, "https": 443}
_OURS: Final = ("host", "content-length", "transfer-encoding", "trailer")
"""Headers that a manifest does not add to a request."""
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_BAD_PATH: Final = re.compile(r"[\x00-\x1f\x7f]|%(?![0-9A-Fa-f]{2})")
_SAFE: Final = "/%:@!$&'()*+,;=~"
_NOT_PRINTED: Final = re.compile(r"[^\x21-\x7e]+")


class InvalidRequest(ValueError):
    """What is to be asked can't be."""


class _Url(NamedTuple):
    scheme: str
    host: str
    port: int
    target: str

    @property
    def authority(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.target}"


async def probe_http(get: Mapping[str, Any], host: str, port: int) -> tuple[bool, str]:
    """Whether an ``httpGet`` is answered well, and what was said. Raises ``ResultUnknown``."""
    url = _Url(str(get.get("scheme") or "HTTP").lower(), host, port, _target(str(get.get("path") or "/")))
    headers = _headers(get)
    try:
        for _ in range(_MOST_REDIRECTS):
            async with connected(host, url.port, tls=url.scheme == "https") as connection:
                await connection.write(_request(url, headers))
                response = await read_response(connection, max_head=_MOST_HEAD)
                location = response.header("Location") if response.status in _REDIRECTS else ""
                onward = _joined(url, location) if location else None
                if onward is None:
                    return await _judged(response, is_own=not get.get("host"))
            if urlsplit(location).scheme:
                headers = [(name, value) for name, value in headers if name.lower() != "host"]
            url = onward
    except (DialError, InvalidRequest, HTTPResponseError, ReceivedTooMuch, OSError) as problem:
        return False, f'Get "{url}": {problem}'
    except ResultUnknown as problem:
        raise ResultUnknown(f'Get "{url}": {problem}') from None
    return False, f'Get "{url}": stopped after {_MOST_REDIRECTS} redirects'


async def _judged(response: HTTPResponse, *, is_own: bool) -> tuple[bool, str]:
    """``is_own``: the pod itself has answered. What any other host says is not shown: those who may create pods
    could have the agent read to them what it reaches and they do not."""
    try:
        body = await response.read(_MOST_BODY)
    except TruncatedResponse as problem:
        raise ResultUnknown(str(problem)) from None
    if 200 <= response.status < 400:
        return True, body.decode(errors="replace")
    said = _first_line(body) if is_own else ""
    return False, f"HTTP probe failed with statuscode: {response.status}{said and f': {said}'}"


def _first_line(body: bytes) -> str:
    """The first line of an answer that has text, as far as it is shown."""
    lines = (line.strip() for line in body.decode(errors="replace").splitlines())
    return escape_control_characters(next(filter(None, lines), ""))[:_MOST_SHOWN]


def _joined(url: _Url, location: str) -> _Url | None:
    """Where a redirect leads; nowhere if that is another host. Raises ``InvalidRequest``."""
    try:
        if _CONTROL.search(location):
            raise ValueError("there is a control character in it")
        parts = urlsplit(urljoin(str(url), location))
        if (parts.hostname or "").lower() != url.host.lower():
            return None
        if parts.scheme not in _PORTS:
            raise InvalidRequest(f'unsupported protocol scheme "{parts.scheme[:40]}"')
        path = f"{parts.path}?{parts.query}" if parts.query else parts.path
        return _Url(parts.scheme, url.host, parts.port or _PORTS[parts.scheme], _target(path))
    except InvalidRequest:
        raise
    except ValueError as problem:
        raise InvalidRequest(f"failed to parse Location header {location[:200]!r}: {problem}") from None


def _headers(get: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Those of the manifest, and kubelet's own where it has none of that name; an empty one of these is left out."""
    given = [(str(each["name"]), str(each.get("value") or "")) for each in get.get("httpHeaders") or ()]
    names = {name.lower() for name, _ in given}
    own = (("User-Agent", "kube-probe/1.32"), ("Accept", "*/*"), ("Connection", "close"))
    kept = [(name, value) for name, value in given if value or name.lower() not in ("user-agent", "accept")]
    return [*kept, *((name, value) for name, value in own if name.lower() not in names)]


def _request(url: _Url, headers: Sequence[tuple[str, str]]) -> bytes:
    """Raises ``InvalidRequest``."""
    host = next((value for name, value in headers if name.lower() == "host" and value), url.authority)
    fields = [("Host", host), *((name, value) for name, value in headers if name.lower() not in _OURS)]
    for name, value in fields:
        if not _NAME.fullmatch(name):
            raise InvalidRequest(f"invalid header field name {name[:40]!r}")
        if _CONTROL.search(value):
            raise InvalidRequest(f'invalid header field value for "{name[:40]}"')
    lines = [f"GET {url.target} HTTP/1.1", *(f"{name}: {value}" for name, value in fields), "", ""]
    return "\r\n".join(lines).encode(errors="replace")


def _target(path: str) -> str:
    """A path and query as they are sent."""
    path = path if path.startswith("/") else f"/{path}"
    if _BAD_PATH.search(path):
        return quote(path, errors="replace")
    path, mark, query = path.partition("#")[0].partition("?")
    escaped = _NOT_PRINTED.sub(lambda found: quote(found[0], errors="replace"), query)
    return f"{quote(path, safe=_SAFE, errors='replace')}{mark}{escaped}"
