"""Tracks where one request ends and the next begins, outside the parser, which does not report it.

    boundary = RequestBoundary()
    boundary.follow(data, arrived)          # all that is fed to the parser, with the requests it found
    boundary.clear                          # what comes next is the first byte of a request

Where it can't be sure (chunked bodies, heads in pieces, pipelining) it gives up for the connection.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

_END = b"\r\n\r\n"
_LOST = -1


class RequestHead(Protocol):
    """A request's head, as the parser hands it over."""

    @property
    def method(self) -> str: ...

    @property
    def path(self) -> str: ...

    @property
    def version(self) -> tuple[int, int]: ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    @property
    def raw_headers(self) -> Sequence[tuple[bytes, bytes]]: ...

    @property
    def should_close(self) -> bool: ...

    @property
    def upgrade(self) -> bool: ...

    @property
    def chunked(self) -> bool: ...


class RequestBoundary:
    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = 0
        """Bytes of the body that are still to come."""

    @property
    def clear(self) -> bool:
        """True if the next byte is the first one of a request."""
        return self._left == 0

    def follow(self, data: bytes, arrived: Sequence[RequestHead | None]) -> None:
        """``data`` was fed to the parser, which returned these requests; None stands for an invalid one."""
        if not (data or arrived):
            # The parser is prodded so when its reader has room again.
            return
        if self._left > 0:
            self._left = self._left - len(data) if not arrived and len(data) <= self._left else _LOST
        elif self._left == 0:
            self._left = _body_left(data, arrived[0]) if len(arrived) == 1 else _LOST


def _body_left(data: bytes, request: RequestHead | None) -> int:
    """How much of the request's body is not in ``data`` yet, which begins with the request."""
    end = data.find(_END)
    if end < 0 or request is None or request.chunked or request.upgrade:
        return _LOST
    length = request.headers.get("Content-Length", "0")
    if not (length.isascii() and length.isdecimal()):
        return _LOST
    return max(int(length) - (len(data) - end - len(_END)), _LOST)
