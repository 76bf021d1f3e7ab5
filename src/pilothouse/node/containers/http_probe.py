"""The HTTP requests of probes and hooks.

    succeeded, output = await probe_http({"path": "/healthz", "scheme": "HTTPS"}, "127.8.1.2", 8443)

Status 200 to 399 succeeds. As kubelet does, certificates are not verified, redirects are followed only within
the host, and no connection is reused. At most 16 KiB of head, five interim responses and 10 KiB of body are
read, since the container is not trusted. Of a failed response of the pod itself, the result has the first
line.
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
"""Headers that a manifest can't set."""
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_BAD_PATH: Final = re.compile(r"[\x00-\x1f\x7f]|%(?![0-9A-Fa-f]{2})")
_SAFE: Final = "/%:@!$&'()*+,;=~"
_NOT_PRINTED: Final = re.compile(r"[^\x21-\x7e]+")


class InvalidRequest(ValueError):
    """The request is invalid."""


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
    """Whether an ``httpGet`` succeeds, and its output. Raises ``ResultUnknown``."""
    url = _Url(str(get.get("scheme") or "HTTP").lower(), host, port, _target(str(get.get("path") or "/")))
    headers = _headers(get)
    try:
        for _ in range(_MOST_REDIRECTS):
            async with connected(host, url.port, tls=url.scheme == "https") as connection:
                await connection.write(_request(url, headers))
                response = await read_response(connection, max_head=_MOST_HEAD)
                location = response.header("Location") if response.status in _REDIRECTS else ""
                next_url = _redirect_url(url, location) if location else None
                if next_url is None:
                    return await _result(response, is_own=not get.get("host"))
            if urlsplit(location).scheme:
                headers = [(name, value) for name, value in headers if name.lower() != "host"]
            url = next_url
    except (DialError, InvalidRequest, HTTPResponseError, ReceivedTooMuch, OSError) as problem:
        return False, f'Get "{url}": {problem}'
    except ResultUnknown as problem:
        raise ResultUnknown(f'Get "{url}": {problem}') from None
    return False, f'Get "{url}": stopped after {_MOST_REDIRECTS} redirects'


async def _result(response: HTTPResponse, *, is_own: bool) -> tuple[bool, str]:
    """``is_own``: the pod itself has answered. A response of any other host is not shown: users who may
    create
    pods could read through the agent what only the agent can reach."""
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


def _redirect_url(url: _Url, location: str) -> _Url | None:
    """The URL of a redirect; None if it is on another host. Raises ``InvalidRequest``."""
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
    """The manifest's headers, and kubelet's defaults; a manifest's empty value removes a default."""
    headers = [(str(each["name"]), str(each.get("value") or "")) for each in get.get("httpHeaders") or ()]
    names = {name.lower() for name, _ in headers}
    own = (("User-Agent", "kube-probe/1.32"), ("Accept", "*/*"), ("Connection", "close"))
    kept = [(name, value) for name, value in headers if value or name.lower() not in ("user-agent", "accept")]
    return [*kept, *((name, value) for name, value in own if name.lower() not in names)]


def _request(url: _Url, headers: Sequence[tuple[str, str]]) -> bytes:
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
