"""The headers that a client puts on every request, understood once.

    letterheads = HeaderCache(plain_read)
    letterheads.learn(b"Host: a\\r\\nAuthorization: Bearer x\\r\\n\\r\\n", message)     # as the parser read them
    letterheads.known(b"Host: a\\r\\nAuthorization: Bearer x\\r\\n\\r\\n")              # the same bytes mean the same again

Requests of one client differ in their first line; what follows is the same, byte for byte. So a block of headers is
parsed once, and what was found in it holds for every request that has the same block, whoever sends it. Nothing that can
change is kept: who a token belongs to, and what they may do, is asked anew each time.

Only plain blocks are kept. Those of reads: no body, no impersonation, no wish that would need more than stored bytes. Those
of writes: a body of a length that is told, and nothing to be said or refused before it is read. Any other takes the ordinary
way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from pilothouse.apiserver.authentication.impersonation import impersonates
from pilothouse.apiserver.endpoints.negotiation import AnswerEndpoint, negotiate
from pilothouse.apiserver.server.limits import MAX_BODY
from pilothouse.apiserver.server.messages import Request
from pilothouse.apiserver.server.request_boundaries import RequestHead
from pilothouse.meta.errors import StatusError

LONGEST = 8192
"""Bytes of a block; room for a token."""
MOST = 1024
"""Blocks that are kept."""
_ELSEWHERE = ("Audit-ID", "Content-Encoding", "Transfer-Encoding", "Expect", "Upgrade")


class ParsedHeaders(msgspec.Struct, frozen=True):
    """A block of headers."""

    headers: Mapping[str, str]
    authorization: str | None
    length: int = 0
    """Bytes of the body that follows."""


class HeaderCache:
    """Those that were seen."""

    def __init__(self, read: Callable[[RequestHead], ParsedHeaders | None]) -> None:
        """``read`` tells what a request's headers come to; None if they are not plain."""
        self._read = read
        self._known: dict[bytes, ParsedHeaders | None] = {}

    def known(self, block: bytes) -> ParsedHeaders | None:
        """What a block says; None if it is not known, or not plain."""
        return self._known.get(block)

    def learn(self, block: bytes, message: RequestHead) -> None:
        """Remember the block of a request, given what the parser made of the request."""
        if block in self._known or len(block) > LONGEST:
            return
        if len(self._known) >= MOST:
            self._known.clear()
        self._known[block] = self._read(message)


def plain_read(message: RequestHead) -> ParsedHeaders | None:
    """What is to be known of a GET."""
    headers = message.headers
    if not _is_plain(message) or "Content-Length" in headers or impersonates(headers):
        return None
    try:
        form = negotiate(Request("GET", "", headers=headers), AnswerEndpoint.OBJECT)
    except StatusError:
        return None
    if form.transform or not form.bare:
        return None
    return ParsedHeaders(headers, headers.get("Authorization"))


def plain_write(message: RequestHead) -> ParsedHeaders | None:
    """What is to be known of a request with a body."""
    headers = message.headers
    length = headers.get("Content-Length", "")
    if not _is_plain(message) or not (length.isascii() and length.isdecimal()) or int(length) > MAX_BODY:
        return None
    return ParsedHeaders(headers, headers.get("Authorization"), int(length))


def _is_plain(message: RequestHead) -> bool:
    if message.should_close or message.upgrade or message.chunked:
        return False
    if any(name in message.headers for name in _ELSEWHERE):
        return False
    return all(value.isascii() for _, value in message.raw_headers)
