"""Response heads: status line and headers.

    heads.whole(200, "application/json", 512, audit="…", keep=True)    # b'HTTP/1.1 200 OK\\r\\n…\\r\\n\\r\\n'

Responses mostly differ in length, date and audit id, so the rest is cached and the date made once a second.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from itertools import count
from uuid import uuid4

Headers = Iterable[tuple[str, str]]

WARNINGS_TOTAL = 4096
"""Characters of warnings in all; past it each is cut to ``WARNING_CUT``, and the rest is dropped."""
WARNING_CUT = 256
WARNINGS_MOST = 60
"""Python's own HTTP client gives up on an answer with more than 100 headers."""
_PRIVATE = b"Cache-Control: no-cache, private\r\n"
_BODILESS = frozenset({204, 304})


class ResponseHeads:
    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._second = -1
        self._dated = b""
        self._mint_prefix = str(uuid4())[:24]
        self._minted = count(1)

    def mint(self) -> str:
        """A new audit id: a UUID whose last group counts, which is unique and costs next to nothing."""
        return f"{self._mint_prefix}{next(self._minted):012x}"

    def whole(
        self,
        status: int,
        content_type: str,
        length: int,
        *,
        audit: str,
        headers: Headers = (),
        warnings: Sequence[str] = (),
        keep: bool = True,
    ) -> bytes:
        more = self._more(headers, warnings, keep) if headers or warnings or not keep else _PRIVATE
        if status in _BODILESS:
            return b"%b%bAudit-Id: %b\r\n%b\r\n" % (_opening(status, ""), more, audit.encode(), self._date())
        return b"%b%bAudit-Id: %b\r\n%bContent-Length: %d\r\n\r\n" % (
            _opening(status, content_type),
            more,
            audit.encode(),
            self._date(),
            length,
        )

    def streaming(
        self,
        status: int,
        content_type: str,
        *,
        audit: str,
        headers: Headers = (),
        warnings: Sequence[str] = (),
        chunked: bool = True,
        keep: bool = True,
    ) -> bytes:
        """The head of a response without a known end; not chunked, it ends with the connection."""
        return b"%b%bAudit-Id: %b\r\n%b%b\r\n" % (
            _opening(status, content_type),
            self._more(headers, warnings, chunked and keep),
            audit.encode(),
            self._date(),
            b"Transfer-Encoding: chunked\r\n" if chunked else b"",
        )

    def switching(self, protocol: str, *, audit: str, headers: Headers = ()) -> bytes:
        """The head after which a connection speaks another protocol."""
        lines = "".join(f"{name}: {_one_line(value)}\r\n" for name, value in headers)
        return (
            f"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n"
            f"Audit-Id: {audit}\r\n{lines}\r\n"
        ).encode("utf-8", "replace")

    def _date(self) -> bytes:
        second = int(self._now())
        if second != self._second:
            self._second = second
            self._dated = f"Date: {formatdate(second, usegmt=True)}\r\n".encode()
        return self._dated

    def _more(self, headers: Headers, warnings: Sequence[str], keep: bool) -> bytes:
        lines = [f"{name}: {_one_line(value)}\r\n" for name, value in headers]
        private = not any(name.lower() == "cache-control" for name, _ in headers)
        lines.extend(f'Warning: 299 - "{text}"\r\n' for text in quoted(warnings))
        if not keep:
            lines.append("Connection: close\r\n")
        return (_PRIVATE if private else b"") + "".join(lines).encode("utf-8", "replace")


def quoted(warnings: Sequence[str]) -> list[str]:
    """Warning texts as in a quoted header: each once, escaped, within the budget."""
    texts = list(dict.fromkeys(_one_line(text) for text in warnings))
    if sum(map(len, texts)) > WARNINGS_TOTAL:
        texts = [text[:WARNING_CUT] for text in texts]
    kept: list[str] = []
    left = WARNINGS_TOTAL
    for text in texts[:WARNINGS_MOST]:
        left -= len(text)
        if left < 0:
            break
        kept.append(text.replace("\\", "\\\\").replace('"', '\\"'))
    if len(kept) < len(texts):
        kept.append(f"{len(texts) - len(kept)} further warnings are left out")
    return kept


def _one_line(text: str) -> str:
    """Without control characters, which would end the header or start another."""
    if text.isprintable():
        return text
    return "".join(" " if character < " " or character == "\x7f" else character for character in text)


@lru_cache(maxsize=256)
def _opening(status: int, content_type: str) -> bytes:
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = ""
    kind = f"Content-Type: {_one_line(content_type)}\r\n" if content_type else ""
    return f"HTTP/1.1 {status} {phrase}\r\n{kind}".encode("latin-1", "replace")
