"""The fast path: requests like earlier ones are read without the parser, and plain reads are answered at
once.

    fast_path = FastPath(cached_reads, authenticator, heads, trail)
    fast_path.reply(data, certified, peer)      # a whole response, or None: then the parser has to read it
    fast_path.open(data)                        # a write as a FastRequest, or None likewise
    fast_path.learn(data, message)              # what the parser made of it

It needs headers that equal, byte for byte, those of an earlier parsed request, and an unambiguous first line:
a GET of an object that ``cached_reads`` knows, or a write whose whole body has arrived. ``data`` must begin
at a ``request_boundaries``. Authentication, authorization, metrics and audit are as for any request. See ADR
19.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Final, cast

import msgspec

from pilothouse.apiserver.audit.request_stage import Arrival
from pilothouse.apiserver.audit.trail import AuditTrail
from pilothouse.apiserver.authentication.authenticator import Authenticator, DependencyUnknownError
from pilothouse.apiserver.endpoints.cached_reads import CachedReads
from pilothouse.apiserver.server.header_cache import HeaderCache, plain_read, plain_write
from pilothouse.apiserver.server.messages import Request, User
from pilothouse.apiserver.server.request_boundaries import RequestHead
from pilothouse.apiserver.server.response_heads import ResponseHeads
from pilothouse.meta.errors import StatusError

_GET = b"GET "
_VERSION = b" HTTP/1.1"
_LINE_END = b"\r\n"
_END = b"\r\n\r\n"
_WRITES: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_WRITE: Final = re.compile(
    rb"(POST|PUT|PATCH|DELETE) (/[A-Za-z0-9._:/-]*(?:\?[A-Za-z0-9._:=&-]*)?) HTTP/1\.1"
)
"""First lines that every parser reads alike: nothing to decode, nothing out of place."""
_LONGEST_LINE: Final = 2048

log = logging.getLogger(__name__)


class FastRequest(msgspec.Struct, frozen=True):
    """A whole request that has a body."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


class FastPath:
    def __init__(
        self, reads: CachedReads, authenticator: Authenticator, heads: ResponseHeads, trail: AuditTrail | None
    ) -> None:
        self._reads = reads
        self._authenticator = authenticator
        self._heads = heads
        self._trail = trail
        self._of_reads = HeaderCache(plain_read)
        self._of_writes = HeaderCache(plain_write)

    def reply(self, data: bytes, certified: User | None, peer: str) -> bytes | None:
        """Head and body of the response to a request, given the user of the connection's certificate."""
        if data[:4] != _GET:
            return None
        line = data.find(_LINE_END)
        parsed = self._of_reads.known(data[line + 2 :])
        if parsed is None or data[line - 9 : line] != _VERSION:
            return None
        target = self._reads.aim(data[4 : line - 9])
        if target is None:
            return None
        trail = self._trail
        received = trail.now() if trail is not None else 0.0
        try:
            user = self._authenticator.identify(certified, parsed.authorization)
        except (StatusError, DependencyUnknownError):
            return None
        request = Request("GET", target.path, target.query, parsed.headers, user=user, peer=peer)
        answer = self._reads.answer(target, request)
        if answer is None:
            return None
        audit = self._heads.mint()
        if trail is not None:
            trail.record(
                Arrival(audit, data[4 : line - 9].decode(), received), request, answer.status, answer
            )
        if log.isEnabledFor(logging.DEBUG):
            log.debug("GET %s %d %s", target.path, answer.status, user.name)
        body = cast("bytes", answer.body)
        return self._heads.whole(answer.status, answer.content_type, len(body), audit=audit) + body

    def open(self, data: bytes) -> FastRequest | None:
        """A write, if its headers are known and all of it has arrived."""
        line = data.find(_LINE_END)
        end = data.find(_END) + len(_END)
        parsed = self._of_writes.known(data[line + 2 : end])
        if parsed is None or parsed.length != len(data) - end or line > _LONGEST_LINE:
            return None
        first = _WRITE.fullmatch(data, 0, line)
        if first is None:
            return None
        return FastRequest(first[1].decode(), first[2].decode(), parsed.headers, data[end:])

    def learn(self, data: bytes, message: RequestHead) -> None:
        """Remember how the headers of a request are read. ``data`` is the whole request.

        The first line must be the parser's: the parser skips leading empty lines, this class does not.
        """
        line, end = data.find(_LINE_END), data.find(_END) + len(_END)
        target = message.path.encode("utf-8", "surrogateescape")
        if data[:line] != b"%b %b%b" % (message.method.encode(), target, _VERSION):
            return
        if message.method in _WRITES:
            self._of_writes.learn(data[line + 2 : end], message)
        elif message.method == "GET" and end == len(data):
            self._of_reads.learn(data[line + 2 :], message)
