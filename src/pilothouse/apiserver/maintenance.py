"""Operations for administrators.

    GET  /pilothouse/v1/backup                  every key and value at one revision, keys included
    GET  /pilothouse/v1/encryption              how many values are encrypted with which key
    POST /pilothouse/v1/encryption/rewrite      encrypt all with the first key; streams progress as JSON

They are paths, not resources, so RBAC grants them by path.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing

import msgspec

from pilothouse.apiserver.discovery import version
from pilothouse.apiserver.server.messages import (
    Answer,
    Request,
    Response,
    StreamChunk,
    StreamingResponse,
    StreamSink,
)
from pilothouse.apiserver.storage import codec
from pilothouse.base.clock import Clock
from pilothouse.base.rfc3339 import format_time
from pilothouse.meta import errors
from pilothouse.meta.errors import StatusError
from pilothouse.store.backup_file import Header, written
from pilothouse.store.encrypted_store import EncryptedStore, Reencrypted
from pilothouse.store.interface import Store, StoreError

BACKUP = "/pilothouse/v1/backup"
ENCRYPTION = "/pilothouse/v1/encryption"
REWRITE = "/pilothouse/v1/encryption/rewrite"

Handler = Callable[[Request], Awaitable[Answer]]

_HELD_BACK = 4 * 1024 * 1024
"""Bytes on their way to the client above which the next ones have to wait."""
_PAUSE = 0.01

log = logging.getLogger(__name__)


class Maintenance:
    def __init__(
        self,
        store: EncryptedStore,
        clock: Clock,
        *,
        prefixes: tuple[str, ...],
        without: tuple[str, ...],
        besides: Callable[[], Mapping[str, bytes]],
    ) -> None:
        """A backup has what is below ``prefixes``, except ``without``, and what ``besides`` returns."""
        self._store = store
        self._clock = clock
        self._prefixes = prefixes
        self._without = without
        self._besides = besides

    @property
    def paths(self) -> Mapping[str, Handler]:
        return {BACKUP: self.backup, ENCRYPTION: self.encryption, REWRITE: self.rewrite}

    async def backup(self, request: Request) -> Answer:
        """Everything as stored; plain values are encrypted."""
        _allow(request, "GET")
        kept: Store = self._store.inner
        try:
            census = await self._store.census()
            revision = await kept.revision()
        except StoreError as problem:
            raise errors.unavailable(f"the store does not answer: {problem}") from None
        header = Header(
            revision=revision,
            created=format_time(self._clock.now()),
            server=version.git_version(),
            keys=tuple(dict.fromkeys([*census.sealed, *self._store.keys[:1]])),
        )
        besides = {key: self._store.seal(key, value) for key, value in self._besides().items()}
        log.info("%s takes a backup of everything, at revision %d", request.user.name, revision)

        async def run(sink: StreamSink) -> None:
            pieces = written(kept, header, self._prefixes, besides=besides, without=self._without)
            await _pour(pieces, sink)

        return StreamingResponse(run, "application/octet-stream", ends=True)

    async def encryption(self, request: Request) -> Answer:
        """The keys, and how many values are encrypted with each."""
        _allow(request, "GET")
        try:
            census = await self._store.census()
        except StoreError as problem:
            raise errors.unavailable(f"the store does not answer: {problem}") from None
        return Response(200, codec.dump({"keys": self._store.keys, **msgspec.to_builtins(census)}))

    async def rewrite(self, request: Request) -> Answer:
        """Encrypt everything with the first key."""
        _allow(request, "POST")
        if not self._store.keys:
            raise errors.bad_request(
                "the server has no encryption keys; it gets them with --encryption-key-file"
            )
        log.info("%s has all secrets rewritten with the key %r", request.user.name, self._store.keys[0])

        async def lines() -> AsyncIterator[bytes]:
            done = Reencrypted()
            try:
                async with aclosing(self._store.reseal()) as rounds:
                    async for done in rounds:
                        yield msgspec.json.encode(done) + b"\n"
            except StoreError as problem:
                yield codec.dump({"error": str(problem)}) + b"\n"
                return
            yield codec.dump({"done": True, **msgspec.to_builtins(done)}) + b"\n"

        return StreamingResponse(lambda sink: _pour(lines(), sink), ends=True)


async def _pour(pieces: AsyncIterator[bytes], sink: StreamSink) -> None:
    """Write at the client's pace, yielding to other tasks after each piece."""
    async for piece in pieces:
        await asyncio.sleep(0)
        while sink.buffered() > _HELD_BACK and not sink.closed:  # noqa: ASYNC110 - sinks can only be polled
            await asyncio.sleep(_PAUSE)
        if sink.closed:
            return
        sink.write(StreamChunk.of(piece))


def _allow(request: Request, method: str) -> None:
    if request.method != method:
        raise StatusError(405, "MethodNotAllowed", f"{request.path} takes {method} only")
