"""A file as far as it was downloaded, which outlives the process.

part = PartialDownload(Path("/usr/local/bin/.k0s.update"))
part.resumable(url)               # how many bytes of that URL are there, and have an ETag
await part.open(url, etag, 0)
await part.write(data)
await part.finish(target)
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
from pathlib import Path

import msgspec


class _Source(msgspec.Struct, frozen=True):
    url: str
    etag: str


class PartialDownload:
    def __init__(self, target: Path) -> None:
        name = target.name.removeprefix(".")
        self.path = target.with_name(f".{name}.part")
        self._source_path = target.with_name(f".{name}.part.json")
        self._source = _read(self._source_path)
        self._file: int | None = None
        self.was_resumed = False

    @property
    def size(self) -> int:
        """How many bytes are there."""
        try:
            return self.path.stat().st_size
        except FileNotFoundError:
            return 0

    @property
    def etag(self) -> str:
        return self._source.etag

    def resumable(self, url: str) -> int:
        """How many bytes can be left out of the next request; 0 if it is not known whose they are."""
        return self.size if self._source.url == url and self._source.etag else 0

    async def open(self, url: str, etag: str, begins: int) -> None:
        """Go on at an offset; what is after it is dropped."""
        self.was_resumed = self.was_resumed or begins > 0
        if begins == 0:
            self._source = _Source(url, etag)
            self.path.unlink(missing_ok=True)
            self._source_path.write_bytes(msgspec.json.encode(self._source))
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._file = os.open(self.path, flags, 0o600)
        os.ftruncate(self._file, begins)
        os.lseek(self._file, begins, os.SEEK_SET)

    async def write(self, data: bytes) -> None:
        """Write at the end. A caller that is cancelled waits until the thread that writes has ended."""
        assert self._file is not None, "it is open"
        writing = asyncio.get_running_loop().run_in_executor(None, _write_all, self._file, data)
        try:
            await asyncio.shield(writing)
        except asyncio.CancelledError:
            while not writing.done():
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait([writing])
            raise

    async def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    async def digest(self) -> str:
        """SHA-256 of what is there."""
        return await asyncio.to_thread(self._digest)

    def _digest(self) -> str:
        with self.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    async def finish(self, target: Path) -> None:
        """Move what is there to its target, in one step."""
        await asyncio.to_thread(self._finish, target)

    def _finish(self, target: Path) -> None:
        for path in (self.path, target.parent):
            handle = os.open(path, os.O_RDONLY)
            try:
                os.fsync(handle)
                if path == self.path:
                    self.path.replace(target)
            finally:
                os.close(handle)
        self._source_path.unlink(missing_ok=True)

    def discard(self) -> None:
        """Remove what is there, as far as that is possible."""
        for path in (self.path, self._source_path):
            with contextlib.suppress(OSError):
                path.unlink()
        self._source = _Source("", "")


def _read(path: Path) -> _Source:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Source)
    except (OSError, msgspec.DecodeError):
        return _Source("", "")


def _write_all(file: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(file, left) :]
