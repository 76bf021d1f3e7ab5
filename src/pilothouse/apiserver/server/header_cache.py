"""Caches parsed header blocks, which clients repeat byte for byte with every request.

    headers = HeaderCache(plain_read)
    headers.learn(b"Host: a\\r\\nAuthorization: Bearer x\\r\\n\\r\\n", message)     # as the parser read them
    headers.known(b"Host: a\\r\\nAuthorization: Bearer x\\r\\n\\r\\n")              # the same again

Only plain blocks are cached. Reads: no body, no impersonation, an Accept header that stored bytes satisfy.
Writes: a Content-Length and nothing to be answered before the body. Users are authenticated each time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from pilothouse.apiserver.authentication.impersonation import impersonates
from pilothouse.apiserver.server.limits import MAX_BODY
from pilothouse.apiserver.server.messages import Request
from pilothouse.apiserver.server.negotiation import AnswerEndpoint, negotiate
from pilothouse.apiserver.server.request_boundaries import RequestHead
from pilothouse.meta.errors import StatusError

LONGEST = 8192
"""Bytes of a block, which has room for a token."""
MOST = 1024
"""Blocks that are kept."""
_ELSEWHERE = ("Audit-ID", "Content-Encoding", "Transfer-Encoding", "Expect", "Upgrade")


class ParsedHeaders(msgspec.Struct, frozen=True):
    headers: Mapping[str, str]
    authorization: str | None
    length: int = 0
    """Bytes of the body that follows."""


class HeaderCache:
    def __init__(self, read: Callable[[RequestHead], ParsedHeaders | None]) -> None:
        """``read`` returns the headers of a request; None if they are not plain."""
        self._read = read
        self._known: dict[bytes, ParsedHeaders | None] = {}

    def known(self, block: bytes) -> ParsedHeaders | None:
        """The headers of a block; None if it is not known, or not plain."""
        return self._known.get(block)

    def learn(self, block: bytes, message: RequestHead) -> None:
        """Remember the block of a request, given what the parser made of the request."""
        if block in self._known or len(block) > LONGEST:
            return
        if len(self._known) >= MOST:
            self._known.clear()
        self._known[block] = self._read(message)


def plain_read(message: RequestHead) -> ParsedHeaders | None:
    """The headers of a GET; None if they are not plain."""
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
    """The headers of a request with a body; None if they are not plain."""
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
