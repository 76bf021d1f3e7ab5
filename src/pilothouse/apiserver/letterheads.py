"""The headers that a client puts on every request, understood once.

    letterheads.learn(b"Host: a\\r\\nAuthorization: Bearer x\\r\\n\\r\\n", message)     # as the parser read them
    letterheads.known(b"Host: a\\r\\nAuthorization: Bearer x\\r\\n\\r\\n")              # the same bytes mean the same again

Requests of one client differ in their first line; what follows is the same, byte for byte. So a block of headers is
parsed once, and what was found in it holds for every request that has the same block, whoever sends it. Nothing that can
change is kept: who a token belongs to, and what they may do, is asked anew each time.

Only blocks of plain reads are kept: no body, no impersonation, no wish that would need more than stored bytes. Any other
takes the ordinary way.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from pilothouse.apiserver.boundaries import Head
from pilothouse.apiserver.exchange import Request
from pilothouse.apiserver.impersonation import impersonates
from pilothouse.apiserver.negotiation import Endpoint, negotiate
from pilothouse.meta.errors import StatusError

LONGEST = 8192
"""Bytes of a block; room for a token."""
MOST = 1024
"""Blocks that are kept."""
_ELSEWHERE = ("Audit-ID", "Content-Length", "Transfer-Encoding", "Expect", "Upgrade")


class Letterhead(msgspec.Struct, frozen=True):
    """A block of headers of a plain read."""

    headers: Mapping[str, str]
    authorization: str | None


class Letterheads:
    """Those that were seen."""

    def __init__(self) -> None:
        self._known: dict[bytes, Letterhead | None] = {}

    def known(self, block: bytes) -> Letterhead | None:
        """What a block says; None if it is not known, or not one of a plain read."""
        return self._known.get(block)

    def learn(self, block: bytes, message: Head) -> None:
        """Remember the block of a request without a body, given what the parser made of the request."""
        if block in self._known or len(block) > LONGEST:
            return
        if len(self._known) >= MOST:
            self._known.clear()
        self._known[block] = _read(message)


def _read(message: Head) -> Letterhead | None:
    headers = message.headers
    if message.should_close or message.upgrade or any(name in headers for name in _ELSEWHERE):
        return None
    if impersonates(headers) or not all(value.isascii() for _, value in message.raw_headers):
        return None
    try:
        form = negotiate(Request("GET", "", headers=headers), Endpoint.OBJECT)
    except StatusError:
        return None
    if form.transform or not form.bare:
        return None
    return Letterhead(headers, headers.get("Authorization"))
