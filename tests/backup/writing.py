"""Making backup files in a test."""

from __future__ import annotations

import io
from collections.abc import Mapping
from contextlib import aclosing

from pilothouse.store.backup_file import BackupReader, Header, Saved, written
from pilothouse.store.interface import Store

PREFIXES = ("/pilothouse/", "/registry/")


async def back_up(
    store: Store, *, besides: Mapping[str, bytes] | None = None, without: tuple[str, ...] = ()
) -> bytes:
    header = Header(revision=await store.revision(), created="2031-04-01T12:00:00Z")
    pieces = written(store, header, PREFIXES, besides=besides or {}, without=without)
    async with aclosing(pieces):
        return b"".join([piece async for piece in pieces])


def read(content: bytes) -> list[Saved]:
    return list(BackupReader(io.BytesIO(content), "b.backup"))
