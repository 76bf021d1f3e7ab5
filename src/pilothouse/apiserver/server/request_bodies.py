"""Reads request bodies within the limit. Compressed bodies are refused: their size is unknown before
unpacking."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from pilothouse.apiserver.server.limits import MAX_BODY
from pilothouse.meta.errors import StatusError, bad_request, too_large

_DISCARD = 8 * MAX_BODY


class IncomingBody(Protocol):
    def is_eof(self) -> bool: ...

    def at_eof(self) -> bool: ...

    def read_nowait(self, n: int = -1) -> bytes: ...

    async def readany(self) -> bytes: ...


def refuse_unreadable(name: bytes, value: bytes) -> None:
    """Raise for a header that is not text; it could neither be echoed nor recorded."""
    try:
        value.decode()
    except UnicodeDecodeError:
        raise bad_request(f"the header {name.decode('latin-1')} holds bytes that are not UTF-8") from None


def refuse_early(headers: Mapping[str, str]) -> None:
    """Raise for a body that need not be read to be refused."""
    encoding = headers.get("Content-Encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        raise StatusError(
            415,
            "UnsupportedMediaType",
            f'the body of the request has the content encoding "{encoding}"; only plain bodies are taken',
        )
    length = headers.get("Content-Length")
    if length is not None and int(length) > MAX_BODY:
        raise _over()


async def read(incoming: IncomingBody) -> bytes:
    """The whole body. Raises 413 as soon as it is too large, 400 if it is truncated or badly framed."""
    if incoming.is_eof():
        body = incoming.read_nowait()
        if len(body) > MAX_BODY:
            raise _over()
        return body
    parts: list[bytes] = []
    size = 0
    while not incoming.at_eof():
        part = await _next(incoming)
        size += len(part)
        if size > MAX_BODY:
            raise _over()
        parts.append(part)
    return b"".join(parts)


async def discard(incoming: IncomingBody) -> bool:
    """Read and discard the rest, so that a client which is still sending gets its response.

    True if the end was reached, false if there is too much.
    """
    size = 0
    while not incoming.at_eof():
        size += len(await _next(incoming))
        if size > _DISCARD:
            return False
    return True


async def _next(incoming: IncomingBody) -> bytes:
    try:
        return await incoming.readany()
    except StatusError:
        raise
    except Exception as problem:  # noqa: BLE001 - the parser reports wrong framing in several ways
        raise bad_request(f"the body of the request could not be read: {problem}") from None


def _over() -> StatusError:
    return too_large(f"Request entity too large: limit is {MAX_BODY}")
