"""Making backup files in a test."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Mapping

from pilothouse.store.backup_file import BackupReader, Header, Saved, written
from pilothouse.store.interface import Store

PREFIXES = ("/pilothouse/", "/registry/")


async def back_up(
    store: Store,
    *,
    besides: Mapping[str, bytes] | None = None,
    without: tuple[str, ...] = (),
    busy: bool = False,
) -> bytes:
    """The backup's content. With ``busy`` somebody writes all the while: after each piece the store has moved on."""
    header = Header(revision=await store.revision(), created="2031-04-01T12:00:00Z")
    parts: list[bytes] = []
    async for piece in written(store, header, PREFIXES, besides=besides or {}, without=without):
        parts.append(piece)
        seen = await store.revision()
        while busy and await store.revision() == seen:  # noqa: ASYNC110 - any write will do
            await asyncio.sleep(0)
    return b"".join(parts)


def read(content: bytes) -> list[Saved]:
    return list(BackupReader(io.BytesIO(content), "b.backup"))
