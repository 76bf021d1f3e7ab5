"""One blocking request, for commands.

    with send_request(access, "/pilothouse/v1/audit", {"user": "alice"}, agent="audit") as answer:
        for line in answer: ...
        answer.warnings

Standard library only, so that a command starts quickly.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import Final
from urllib.parse import urlencode, urlsplit

from pilothouse.client.access import Access, AccessError
from pilothouse.client.connect_errors import CONNECT_SECONDS, unreachable
from pilothouse.client.exec_login import logged_in
from pilothouse.client.warning_headers import warning_texts

_LONGEST_REFUSAL: Final = 2**16


class RequestFailed(Exception):
    """No answer, or a refusal; the message is the server's where it gave one."""

    def __init__(self, message: str, status: int = 0) -> None:
        """``status`` is that of the response; 0 without one."""
        super().__init__(message)
        self.status = status


class SingleRequest:
    """A response that is being read."""

    def __init__(self, response: HTTPResponse) -> None:
        self._response = response

    def __iter__(self) -> Iterator[bytes]:
        try:
            while line := self._response.readline():
                yield line
        except (OSError, HTTPException) as problem:
            raise RequestFailed(f"the response ended early: {problem}") from None

    def pieces(self, size: int = 1 << 20) -> Iterator[bytes]:
        """The bytes, as they come, ``size`` at a time."""
        try:
            while piece := self._response.read(size):
                yield piece
        except (OSError, HTTPException) as problem:
            raise RequestFailed(f"the response ended early: {problem}") from None

    @property
    def warnings(self) -> list[str]:
        """What the server warns of."""
        return list(warning_texts(self._response.headers.get_all("Warning", [])))


@contextmanager
def send_request(
    access: Access,
    path: str,
    params: Mapping[str, str],
    *,
    agent: str,
    method: str = "GET",
    body: bytes = b"",
    patience: float | None = None,
) -> Iterator[SingleRequest]:
    """A successful response; ``body`` is sent as JSON. Raises ``RequestFailed`` for any other, or after
    ``patience`` seconds without data."""
    try:
        access = logged_in(access)
        connection = _connection(access, patience)
    except AccessError as problem:
        raise RequestFailed(str(problem)) from None
    headers = [("User-Agent", agent), ("Accept", "*/*")]
    if method != "GET":
        headers.append(("Content-Length", str(len(body))))
    if body:
        headers.append(("Content-Type", "application/json"))
    if access.token:
        headers.append(("Authorization", f"Bearer {access.token}"))
    if access.impersonation is not None:
        headers += access.impersonation.headers()
    try:
        try:
            connection.connect()
        except (OSError, HTTPException) as problem:
            raise RequestFailed(unreachable(access.url, problem)) from None
        try:
            connection.putrequest(method, f"{urlsplit(access.url).path}{path}?{urlencode(params)}")
            for name, value in headers:
                connection.putheader(name, value)
            connection.endheaders(body or None)
            response = connection.getresponse()
        except (OSError, HTTPException) as problem:
            raise RequestFailed(f"{access.url} does not answer: {problem}") from None
        if response.status not in (200, 201):
            raise RequestFailed(_refusal(response), response.status)
        yield SingleRequest(response)
    finally:
        connection.close()


class _Connection(HTTPConnection):
    """A connection to a server whose certificate may be for another name than its address."""

    default_port = 443

    def __init__(self, host: str, port: int, name: str, tls: ssl.SSLContext, patience: float | None) -> None:
        super().__init__(host, port, timeout=CONNECT_SECONDS)
        self._name = name
        self._tls = tls
        self._patience = patience

    def connect(self) -> None:
        super().connect()
        self.sock = self._tls.wrap_socket(self.sock, server_hostname=self._name)
        self.sock.settimeout(self._patience)


def _connection(access: Access, patience: float | None) -> HTTPConnection:
    address, proxy = urlsplit(access.url), urlsplit(access.proxy)
    host, port = address.hostname or "", address.port or 443
    name = access.server_name or host
    if not access.proxy:
        return _Connection(host, port, name, access.tls(), patience)
    connection = _Connection(proxy.hostname or "", proxy.port or 80, name, access.tls(), patience)
    connection.set_tunnel(host, port)
    return connection


def _refusal(response: HTTPResponse) -> str:
    body = response.read(_LONGEST_REFUSAL)
    try:
        return str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        return f"the server answers {response.status}: {body[:200].decode(errors='replace').strip()}"
